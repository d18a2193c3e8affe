"""Converts between opsets of ONNX: up to the canonical one, and down to the one that a file needs."""
