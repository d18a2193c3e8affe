"""Writes decoders with onnxruntime's own operators, for runtimes that are built on it."""
