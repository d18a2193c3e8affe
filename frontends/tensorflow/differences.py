"""Where TensorFlow's kernels (2.21, on the CPU) differ, at limits of number ranges, from the graph as which they are
read.
"""

from __future__ import annotations

from convert.runtimes.differences import Difference

_SPECIAL = (
    *("Lgamma", "Digamma", "Polygamma", "Zeta", "Igamma", "Igammac", "Betainc", "Ndtri", "BesselI0", "BesselI1"),
    *("BesselJ0", "BesselJ1", "BesselY0", "BesselY1", "BesselK0", "BesselK1", "BesselK0e", "BesselK1e"),
)

DIFFERENCES = (
    Difference(
        ("MatMul",),
        "a product with a matrix of weights, in which NaN and infinities reach others of their row (0 · ∞ is NaN)",
        integers=False,
        sources=("ResizeBicubic", "ResizeArea", "ScaleAndTranslate"),
        nonfinite=True,
    ),
    Difference(
        ("ReduceLogSumExp",),
        "TensorFlow ignores NaN and makes NaN of +∞",
        integers=False,
        sources=("CumulativeLogsumexp",),
    ),
    Difference(
        (),
        "TensorFlow computes in float32 on the way, which overflows, takes denormal numbers for 0 and does not tell "
        "waves of large arguments apart; float64 is converted",
        sources=_SPECIAL,
    ),
    Difference(
        (),
        "TensorFlow gives other numbers for matrices with NaN, infinities or squares beyond float32, and for those "
        "that are not positive definite (Cholesky); float64 is converted",
        sources=("Cholesky", "Lu", "Qr"),
    ),
    Difference(
        (),
        "TensorFlow takes denormal numbers for 0",
        sources=("MatrixTriangularSolve", "Cumprod", "Rsqrt", "FloorDiv"),
        excuses=False,
    ),
    Difference((), "numbers from 2⁶³ on, and the sign of NaN, are written otherwise", sources=("AsString",)),
    Difference(
        (), "TensorFlow ignores NaN; nothing but NaN or −∞ gives −3.4e38", sources=("Dilation2D",), nonfinite=True
    ),
    Difference((), "TensorFlow ignores NaN", integers=False, sources=("ArgMax", "ArgMin"), nonfinite=True),
    Difference(
        (),
        "which parts of a row with an infinity are NaN depends on its length",
        sources=("IRFFT", "IRFFT2D"),
        nonfinite=True,
    ),
    Difference(
        (),
        "which channels of a pixel with NaN or an infinity are NaN depends on TensorFlow's kernel",
        sources=("RGBToHSV", "AdjustHue", "AdjustSaturation"),
        nonfinite=True,
    ),
)
