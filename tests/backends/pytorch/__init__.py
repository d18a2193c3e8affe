"""The PyTorch backend, held to ONNX Runtime and ONNX's own evaluator."""
