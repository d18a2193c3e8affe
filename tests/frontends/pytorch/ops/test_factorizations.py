"""The rules of `frontends/pytorch/ops/factorizations.py` against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from convert.errors import Unsupported
from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, expected, lowered
from tests.frontends.pytorch.ops.support import run as run_row
from tests.support.cases import Case, case, f32, f64, params
from tests.support.pytorch_tools import Calling, read, run

SQUARE = f32(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)[::-1]

POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) / 8 + np.eye(4, dtype=np.float32)

TALL = f32(2, 5, 3)

FLAT = f32(2, 3, 5)

LU, PIVOTS = (t.numpy() for t in torch.linalg.lu_factor(torch.from_numpy(SQUARE)))

STORED, TAU = (t.numpy() for t in torch.geqrf(torch.from_numpy(TALL)))

F32 = np.float32


def symmetric(a: np.ndarray) -> np.ndarray:
    return a + a.swapaxes(-1, -2)


def factored(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """PyTorch's factors and pivots."""
    factors, pivots, _ = torch.linalg.ldl_factor_ex(torch.from_numpy(a))
    return factors.numpy(), pivots.numpy()


ANY = symmetric(f32(3, 5, 5))

DEFINITE = symmetric(f32(2, 4, 4)) + 16 * np.eye(4, dtype=F32)

# No swap; one 1 x 1 block; 2 x 2 blocks at the beginning, in the middle and at the end, unswapped and swapped.
KINDS = np.array(
    [
        [[9, 1, 2, 3], [1, 8, 3, 1], [2, 3, 7, 2], [3, 1, 2, 9]],
        [[0.1, 1, 2, 3], [1, 0.2, 1, 2], [2, 1, 0.1, 4], [3, 2, 4, 30]],
        [[0, 5, 1, 1], [5, 0, 1, 2], [1, 1, 0, 3], [1, 2, 3, 0]],
        [[0, 1, 1, 5], [1, 0, 3, 2], [1, 3, 0, 1], [5, 2, 1, 0]],
        [[9, 1, 1, 2], [1, 0, 4, 1], [1, 4, 0, 1], [2, 1, 1, 0.1]],
        [[9, 1, 1, 0], [1, 8, 0, 0], [1, 0, 0.01, 4], [0, 0, 4, 0.01]],
    ],
    F32,
)

# The first pivot is small compared with its column, and stays because the other row has larger numbers.
SMALL = np.array([[1, 3, 0], [3, 1, 90], [0, 90, 1]], F32)

SINGULAR = np.array(
    [
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        [[1, 0, 0], [0, 0, 0], [0, 0, 2]],
        [[1, 0, 0], [0, 2, 0], [0, 0, 0]],
        [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
        [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 1], [0, 1, 0]],
    ],
    F32,
)

LONE = np.array([[[2]], [[0]], [[-3]]], F32)

MATRICES = {
    "any": ANY,
    "of one kind each": KINDS,
    "in float64": symmetric(f64(4, 5, 5)),
    "not symmetric": f32(3, 4, 4),
    "definite": DEFINITE,
    "without a batch": KINDS[3],
    "a small first pivot stays": SMALL,
    "singular": SINGULAR,
    "of one element": LONE,
    "two dims of a batch": symmetric(f32(2, 3, 4, 4)),
    "larger": symmetric(f32(2, 9, 9)),
    "of no elements": np.zeros((0, 0), F32),
    "a batch of none": np.zeros((0, 2, 2), F32),
    "a batch of matrices without elements": np.zeros((2, 0, 0), F32),
}

SOLVED = ("any", "of one kind each", "in float64", "without a batch", "a small first pivot stays", "larger")

ROOT = np.linalg.cholesky(POSITIVE).astype(np.float32)

RIGHT = f32(2, 4, 3)

HALF = np.array(0.5)

TENTH = np.array(0.1)

ROWS = [
    *(case(name, SQUARE) for name in ("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex")),
    *(case("linalg_lu_factor", x).named(label) for x, label in ((TALL, "tall"), (FLAT, "flat"))),
    case("lu_unpack", LU, PIVOTS),
    *(case(name, POSITIVE) for name in ("linalg_cholesky", "linalg_cholesky_ex", "cholesky")),
    case("linalg_cholesky", POSITIVE, upper=True).named("upper"),
    *(
        case("linalg_qr", x, how).named(f"{how} {x.shape}")
        for x in (TALL, FLAT)
        for how in ("reduced", "complete", "r")
    ),
    *(case("qr", TALL, some).named(f"{some}") for some in (True, False)),
    *(case("geqrf", x).named(f"{x.shape}") for x in (TALL, FLAT)),
    *(case(name, STORED, TAU) for name in ("linalg_householder_product", "orgqr")),
    *(
        case("ormqr", STORED, TAU, f32(2, 5, 5), left, turned).named(f"{left} {turned}")
        for left in (True, False)
        for turned in (True, False)
    ),
    case("ormqr", f32(0, 5), f32(0), f32(0, 5)).named("nothing"),
    *(case("linalg_ldl_factor_ex", a).named(label) for label, a in MATRICES.items()),
    *(case("linalg_ldl_factor", a) for a in (KINDS, KINDS[4])),
    case("linalg_ldl_factor", KINDS, hermitian=True).named("hermitian"),
    *(
        case("linalg_ldl_solve", *factored(a), a[..., :2] - 1).named(label)
        for label, a in MATRICES.items()
        if label in SOLVED
    ),
    case("linalg_ldl_solve", *factored(LONE[::2]), f32(2, 1, 3)).named("of one element"),
    case("linalg_ldl_solve", *factored(KINDS), f32(4, 3), hermitian=True).named("B without a batch"),
    case("linalg_ldl_solve", *factored(KINDS), f32(1, 4, 3)).named("B broadcast"),
    case("linalg_ldl_solve", *factored(KINDS), np.zeros((6, 4, 0), F32)).named("B without columns"),
    *(
        case("linalg_ldl_solve", *factored(a), np.zeros((*a.shape[:-1], 3), F32)).named(label)
        for label, a in MATRICES.items()
        if not a.size
    ),
    *(case(name, SQUARE) for name in ("linalg_inv", "inverse", "linalg_inv_ex", "logdet", "_linalg_det")),
    *(case(name, SQUARE) for name in ("_linalg_slogdet", "linalg_slogdet", "slogdet")),
    *(case(name, SQUARE, RIGHT) for name in ("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")),
    case("linalg_solve", SQUARE, f32(2, 3, 4), left=False).named("right"),
    case("linalg_solve", SQUARE[0], f32(4)).named("vector"),
    *(case("linalg_lu_solve", LU, PIVOTS, RIGHT, adjoint=adjoint).named(f"{adjoint}") for adjoint in (False, True)),
    case("linalg_lu_solve", LU, PIVOTS, f32(2, 3, 4), left=False).named("right"),
    case("lu_solve", RIGHT, LU, PIVOTS),
    case("linalg_tensorinv", SQUARE[0].reshape(4, 2, 2), 1),
    case("cholesky_solve", RIGHT, ROOT),
    case("cholesky_solve", RIGHT, np.ascontiguousarray(ROOT.swapaxes(-1, -2)), True).named("upper"),
    case("cholesky_inverse", ROOT),
    case("linalg_solve_triangular", ROOT, RIGHT, upper=False),
    case("linalg_solve_triangular", POSITIVE, f32(2, 3, 4), upper=True, left=False).named("right"),
    case("linalg_solve_triangular", POSITIVE / 9, RIGHT, upper=True, unitriangular=True).named("unit"),
    *(case("triangular_solve", RIGHT, POSITIVE, True, turned).named(f"{turned}") for turned in (False, True)),
    *(
        case(name, x).named(f"{x.shape}")
        for name in ("linalg_svdvals", "linalg_pinv", "pinverse")
        for x in (TALL, FLAT)
    ),
    case("linalg_pinv.atol_rtol_float", TALL, atol=1e-4, rtol=1e-3),
    case("linalg_pinv.atol_rtol_tensor", TALL, atol=HALF, rtol=TENTH),
    case("linalg_pinv.rcond_tensor", POSITIVE, TENTH, True),
    case("linalg_pinv.default", TALL, 0.1),
    *(case("linalg_eigvalsh", POSITIVE, half).named(half) for half in "LU"),
    *(case(name, SQUARE / 3) for name in ("linalg_matrix_exp", "matrix_exp")),
]
SYMMETRIC = f32(2, 4, 4) + f32(2, 4, 4).swapaxes(-1, -2)

# The signs of the vectors are arbitrary.
FACTORED: list[tuple[Case, Callable[..., np.ndarray]]] = [
    (case("linalg_svd", f32(2, 5, 3), False), lambda u, s, v: u * s[..., None, :] @ v),
    (case("linalg_svd", f32(2, 3, 5)).named("full"), lambda u, s, v: u * s[..., None, :] @ v[..., :3, :]),
    (case("_linalg_svd", f32(5, 3)), lambda u, s, v: u * s @ v),
    (case("svd", f32(2, 5, 3)), lambda u, s, v: u * s[..., None, :] @ v.swapaxes(-1, -2)),
    (case("linalg_eigh", SYMMETRIC), lambda s, v: v * s[..., None, :] @ v.swapaxes(-1, -2)),
    (case("_linalg_eigh", SYMMETRIC), lambda s, v: v * s[..., None, :] @ v.swapaxes(-1, -2)),
]


@pytest.mark.parametrize("row", params(ROWS, lambda row: row.label == "larger"))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


def test_info_is_the_first_pivot_that_fails() -> None:
    x = torch.tensor([[[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]])
    model = read(Calling(lambda x: torch.linalg.cholesky_ex(x).info), "tensors_0:float32[3,2,2]")
    np.testing.assert_array_equal(run(model, x.numpy())[0], torch.linalg.cholesky_ex(x).info)


def test_matrices_of_one_batch_differ_in_their_pivots() -> None:
    assert factored(KINDS)[1].tolist() == [
        [1, 2, 3, 4], [4, -4, -4, 4], [-2, -2, -4, -4], [-4, -4, -4, -4], [1, -3, -3, 4], [1, 2, -4, -4],
    ]  # fmt: skip


def test_complex_matrices_are_refused_by_name() -> None:
    for function in (torch.linalg.ldl_factor, torch.linalg.ldl_factor_ex):
        with pytest.raises(Unsupported, match="complex::linalg_ldl_factor"):
            read(Calling(lambda x, function=function: function(torch.complex(x, x))[0].real), "tensors_0:float32[3,3]")


def test_factors_reach_the_solution_in_one_model() -> None:
    a, b = ANY[:3], f32(3, 5, 2)
    model = read(
        Calling(lambda a, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b)),
        "tensors_0:float32[batch,5,5]",
        "tensors_1:float32[batch,5,2]",
    )
    np.testing.assert_allclose(run(model, a, b)[0], np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("row", params(row for row, _ in FACTORED))
def test_factors_multiply_to_the_matrix(row: Case) -> None:
    """The values are PyTorch's; the vectors are orthonormal and give the matrix back."""
    product = next(p for r, p in FACTORED if r is row)
    want, got = expected(row), run_row(lowered(row)[0], row)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.ndim == row.inputs[0].ndim - 1:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        else:
            square = a.swapaxes(-1, -2) @ a if a.shape[-2] >= a.shape[-1] else a @ a.swapaxes(-1, -2)
            np.testing.assert_allclose(square, np.broadcast_to(np.eye(square.shape[-1]), square.shape), atol=1e-5)
    np.testing.assert_allclose(product(*got), row.inputs[0], rtol=1e-4, atol=1e-5)
