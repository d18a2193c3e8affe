"""Workarounds for runtimes that read ONNX: one module each, with version and symptom."""
