"""Helpers that several rules and patterns share: dims, layouts of convolutions, quantization, tensor lists."""
