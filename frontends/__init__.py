"""Readers: each lowers one framework's models to the shared ONNX graph and knows no backend."""
