"""Numbers of less than a byte, for which PyTorch has no tensors to compute with."""

BYTE_CONTAINERS = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8", "float4_e2m1fn": "float8_e4m3fn"}
"""What holds each of them in a byte of its own, as PyTorch's quantized operators do; by numpy's names."""
