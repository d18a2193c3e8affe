"""The rules of `frontends/pytorch/ops/ldl.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from convert.errors import Unsupported
from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, f64, params
from tests.support.pytorch_tools import Calling, read, run

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

ROWS = [
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
]


@pytest.mark.parametrize("row", params(ROWS, lambda row: row.label == "larger"))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


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
