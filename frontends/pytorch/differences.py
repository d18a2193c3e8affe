"""Where PyTorch 2.13 on the CPU differs from the shared graph at the limits of number ranges."""

from __future__ import annotations

from convert.runtimes.differences import Difference

_MEANS = ("adaptive_avg_pool", "_adaptive_avg_pool")
_FILTERS = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
_TRANSFORMS = ("_fft_r2c", "_fft_c2r", "_fft_c2c", "complex::_fft_r2c", "complex::_fft_c2r", "complex::_fft_c2c",
               "stft")  # fmt: skip
_FACTORS = (
    "cholesky", "linalg_cholesky", "linalg_cholesky_ex", "cholesky_inverse", "cholesky_solve", "qr", "linalg_qr",
    "geqrf", "orgqr", "ormqr", "linalg_householder_product", "linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex",
    "linalg_lu_solve", "lu_solve", "linalg_inv", "linalg_inv_ex", "inverse", "linalg_tensorinv", "linalg_tensorsolve",
    "linalg_solve", "linalg_solve_ex", "_linalg_solve_ex", "linalg_pinv", "pinverse", "linalg_slogdet", "slogdet",
    "_linalg_slogdet", "logdet", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve",
)  # fmt: skip

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
        nonfinite=True,
        sources=(
            *(f"{pool}{dims}d" for pool in _MEANS for dims in (1, 2, 3)),
            *(f"{pool}{dims}d_backward" for pool in ("avg_pool", "_adaptive_avg_pool") for dims in (2, 3)),
            *_FILTERS,
            *_TRANSFORMS,
        ),
    ),
    Difference(
        ("GridSample",),
        "beside an infinity whose weight is 0, PyTorch's kernel leaves it out",
        integers=False,
        nonfinite=True,
    ),
    Difference(
        (),
        "of more than 25 rows PyTorch takes distances from products, in which an infinity makes some NaN (∞ - ∞)",
        integers=False,
        nonfinite=True,
        sources=("cdist", "_cdist_forward"),
    ),
    Difference(
        (),
        "beside NaN, infinities, and pivots that are 0 or denormal, LAPACK's order decides what of a matrix is NaN",
        integers=False,
        sources=_FACTORS,
    ),
    Difference(
        (),
        "PyTorch may choose another pivot than float64 does here, if two are equal up to rounding or one is 0 up to "
        "rounding: in singular matrices and matrices of whole numbers",
        integers=False,
        excuses=False,
        sources=("linalg_ldl_factor", "linalg_ldl_factor_ex"),
    ),
    Difference(
        (),
        "PyTorch treats a real factor of a complex number as a complex one, so that the part beside an infinite one "
        "is NaN (0 · ∞); here each part is multiplied by itself",
        integers=False,
        nonfinite=True,
        sources=("complex::mul", "complex::div"),
    ),
    Difference(("TopK",), "of equal elements PyTorch takes any, and not the first", integers=False, equal=True),
    Difference(("Cast", "QuantizeLinear"), "NaN and numbers out of range become any integer", integers=False),
)
