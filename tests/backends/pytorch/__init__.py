"""The PyTorch backend, compared with ONNX Runtime and ONNX's own evaluator."""
