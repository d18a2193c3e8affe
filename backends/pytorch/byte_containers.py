"""Dtypes of less than a byte, for which PyTorch has no arithmetic."""

BYTE_CONTAINERS = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8", "float4_e2m1fn": "float8_e4m3fn"}
"""The dtype that holds one number per byte, as in PyTorch's quantized operators, by numpy dtype name."""
