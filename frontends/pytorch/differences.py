"""What PyTorch (2.13, on the CPU) computes otherwise than the shared graph at the edge of numbers."""

from __future__ import annotations

from convert.differences import Difference

DIFFERENCES = (
    Difference(
        ("Attention",),
        "PyTorch's fused kernel gives 0 for a query that has NaN or an infinite score, where the formula gives NaN",
        integers=False,
    ),
    Difference(("TopK",), "of equal elements PyTorch takes any, and not the first", integers=False),
    Difference(("Cast", "QuantizeLinear"), "NaN and numbers out of range become any integer", integers=False),
)
