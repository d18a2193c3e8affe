"""The rules of `frontends/pytorch/ops/create.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, expected, lowered, run
from tests.support.cases import Case, boolean, case, f32, i64, params

SCALAR = np.array(1.5, dtype=np.float32)
IDS = np.array([[0, 2], [1, 1]])

ROWS = [
    case("full", [2, 3], 1.5),
    case("full", [2], 3).named("int"),
    case("full", [30, 30], 2.5, dtype=torch.float64).named("large"),
    case("zeros", [2, 3]),
    case("ones", [2, 3], dtype=torch.int64),
    case("full_like", f32(2, 3), 2),
    case("zeros_like", i64(2, 3)),
    case("ones_like", f32(2, 3), dtype=torch.bool),
    case("new_zeros", i64(2), [2, 3]),
    case("new_ones", f32(2), [3]),
    case("new_full", f32(2), [3], 7),
    case("fill", f32(2, 3), 2),
    case("fill", f32(2, 3), SCALAR).named("tensor"),
    case("zero", f32(2, 3)),
    case("copy", f32(2, 3), i64(3)),
    case("copy", f32(2, 3), f32(2, 3) + 1).named("same"),
    case("arange", 5),
    case("arange", 2.5).named("float"),
    case("arange.start", 2, 7),
    case("arange.start_step", 1, 2, 0.25),
    case("arange.start_step", 7, 0, -2).named("down"),
    case("arange.start", 0, 5.5, dtype=torch.int64).named("int64 to a float"),
    case("arange.start_step", 0.5, 6.5, 1.5, dtype=torch.int64).named("int64 by floats"),
    case("arange.start_step", 5.9, -3.2, -1.9, dtype=torch.int64).named("int64 down by floats"),
    case("arange.start_step", 0.5, 6.5, 1.5, dtype=torch.int32).named("int32 by floats"),
    case("linspace", 0, 1, 5),
    case("eye", 3),
    case("eye.m", 2, 4),
    case("tril", f32(3, 4)),
    case("tril", f32(2, 3, 3), 1).named("above"),
    case("triu", f32(3, 4), -1),
    case("triu", boolean(3, 3)).named("bool"),
    case("tril_indices", 3, 4, 1),
    case("triu_indices", 3, 4),
    case("one_hot", IDS, 4),
    case("one_hot", IDS).named("found"),
    case("linspace", np.array(1.0, np.float32), np.array(4.0, np.float32), 6).named("run time"),
    case("logspace", np.array(1.0, np.float32), np.array(3.0, np.float32), 5, 2.0).named("run time"),
    case("logspace", 0.0, 2.0, 5),
    case("one_hot", np.array(2), 4).named("0-d"),
    case("hann_window", 6),
    case("hann_window.periodic", 6, False, dtype=torch.float64),
    case("hann_window", 0).named("empty"),
    case("bartlett_window", 5),
    case("bartlett_window.periodic", 5, False),
    case("blackman_window", 5),
    case("blackman_window.periodic", 5, False),
    case("hamming_window", 5),
    case("hamming_window.periodic", 5, False),
    case("hamming_window.periodic_alpha", 5, True, 0.6),
    case("hamming_window.periodic_alpha_beta", 5, True, 0.6, 0.4),
    case("kaiser_window", 5),
    case("kaiser_window.periodic", 1, False),
    case("kaiser_window.beta", 5, True, 8.0),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


# Only the shape and dtype of these results are defined.
UNDEFINED = {"empty": ([2, 3],), "empty_like": (np.zeros((2, 3), np.int64),),
             "new_empty": (np.zeros(2, np.int64), [3]), "empty_strided": ([2, 3], [1, 2]),
             "empty_permuted": ([2, 3], [1, 0]), "new_empty_strided": (np.zeros(2, np.int64), [3], [1])}  # fmt: skip


@pytest.mark.parametrize("name", UNDEFINED)
def test_uninitialized_tensors_have_their_shape(name: str) -> None:
    row = case(name, *UNDEFINED[name])
    (want,) = expected(row)
    model, _ = lowered(row)
    (got,) = run(model, row)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
