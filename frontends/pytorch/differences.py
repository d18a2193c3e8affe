"""What PyTorch (2.13, on the CPU) computes otherwise than the shared graph at the edge of numbers."""

from __future__ import annotations

from convert.differences import Difference

_MEANS = ("adaptive_avg_pool", "_adaptive_avg_pool")
_FILTERS = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
_TRANSFORMS = ("_fft_r2c", "_fft_c2r", "_fft_c2c", "complex::_fft_r2c", "complex::_fft_c2r", "complex::_fft_c2c")

DIFFERENCES = (
    Difference(
        ("Attention",),
        "PyTorch's fused kernel gives 0 for a query that has NaN or an infinite score, where the formula gives NaN",
        integers=False,
    ),
    Difference(
        ("MatMul",),
        "a product with a constant matrix, in which NaN and infinities reach other windows of their row (0 · ∞ is NaN)",
        integers=False,
        sources=(*(f"{pool}{dims}d" for pool in _MEANS for dims in (1, 2, 3)), *_FILTERS, *_TRANSFORMS),
    ),
    Difference(("GridSample",), "beside an infinity whose weight is 0, PyTorch's kernel leaves it out", integers=False),
    Difference(("TopK",), "of equal elements PyTorch takes any, and not the first", integers=False),
    Difference(("Cast", "QuantizeLinear"), "NaN and numbers out of range become any integer", integers=False),
)
