"""What TensorFlow's kernels (2.21, on the CPU) compute otherwise than what they are read as, at the edge of numbers."""

from __future__ import annotations

from convert.differences import Difference

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
        "TensorFlow passes over NaN and makes NaN of +∞",
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
        "of matrices with NaN, infinities, or numbers whose squares are no float32, and of such as are not positive "
        "definite for Cholesky, TensorFlow gives other numbers; float64 is converted",
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
        (), "TensorFlow passes over NaN; nothing but NaN or −∞ gives −3.4e38", sources=("Dilation2D",), nonfinite=True
    ),
    Difference((), "TensorFlow passes over NaN", integers=False, sources=("ArgMax", "ArgMin"), nonfinite=True),
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
