"""The rules of `frontends/pytorch/ops/shape.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from convert.errors import Unsupported
from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, layers, lowered
from tests.support.cases import Case, case, f32, params

SCALAR = np.array(1.5, dtype=np.float32)

ROWS = [
    *(case(name, f32(2, 3, 4), [6, 4]) for name in ("view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy")),
    case("reshape", f32(2, 3, 4), [-1, 2]).named("infer"),
    case("view_as", f32(2, 3), f32(6)),
    case("reshape_as", f32(2, 3), f32(6)),
    case("flatten", f32(2, 3, 4)),
    case("flatten", f32(2, 3, 4, 5), 1).named("batch"),
    case("flatten", f32(2, 3, 4, 5), 1, 2).named("middle"),
    case("flatten", f32(2, 3, 4, 5), 0, -2).named("front"),
    case("flatten", SCALAR).named("scalar"),
    case("unflatten.int", f32(2, 12), 1, [3, -1]),
    case("unflatten", f32(2, 12), -1, [3, 4]),
    case("ravel", f32(2, 3)),
    case("squeeze", f32(2, 1, 3)).named("all"),
    case("squeeze.dim", f32(2, 1, 3), 1),
    case("squeeze.dim", f32(2, 1, 3), 0).named("longer"),
    case("squeeze.dims", f32(1, 2, 1), [0, 2]),
    case("squeeze_copy", f32(2, 1)),
    case("squeeze_copy.dim", f32(2, 1), 1),
    case("squeeze_copy.dims", f32(2, 1), [1]),
    case("unsqueeze", f32(2, 3), 1),
    case("unsqueeze", f32(2, 3), -1).named("last"),
    case("unsqueeze_copy", f32(2), 0),
    case("atleast_1d", SCALAR),
    case("atleast_1d", f32(2)).named("has"),
    case("permute", f32(2, 3, 4), [2, 0, -2]),
    case("permute_copy", f32(2, 3), [1, 0]),
    case("transpose", f32(2, 3, 4), 0, -1),
    case("swapaxes", f32(2, 3), 0, 1),
    case("swapdims", f32(2, 3), 0, 1),
    case("transpose_copy", f32(2, 3), 0, 1),
    case("t", f32(2, 3)),
    case("t_copy", f32(2, 3)),
    case("t", f32(2)).named("vector"),
    case("numpy_T", f32(2, 3, 4)),
    case("mT", f32(2, 3, 4)),
    case("mH", f32(2, 3)),
    case("adjoint", f32(2, 3)),
    case("movedim", f32(2, 3, 4), [0, 1], [2, 0]),
    case("movedim", f32(2, 3, 4), 0, -1).named("int"),
    case("moveaxis", f32(2, 3, 4), 0, 1),
    case("flip", f32(2, 3, 4), [0, 2]),
    case("fliplr", f32(2, 3)),
    case("flipud", f32(2, 3)),
    *(case("rot90", f32(2, 3), k, [0, 1]).named(f"{k}") for k in range(4)),
    case("roll", f32(5, 3), [2], [0]),
    case("roll", f32(5, 3), [1, -1], [0, 1]).named("two"),
    case("roll", f32(5, 3), [4]).named("flat"),
    case("sym_size.int", f32(2, 3), 1).named("row"),
    case("sym_size", f32(2, 3)),
    case("size", f32(2, 3)),
    case("size.int", f32(2, 3), 0).named("int"),
    case("sym_numel", f32(2, 3)),
    case("numel", f32(2, 3)),
    *layers(case("_shape_as_tensor", f32(3, 4, 5))),
    case("matrix_H", f32(2, 3)),
    case("resize", f32(3, 4), [2, 3]),
    case("resize_as", f32(3, 4), f32(2, 5)),
    case("diagonal", f32(3, 4)),
    case("diagonal", f32(2, 3, 4), 1, -2, -1).named("above"),
    case("diagonal", f32(4, 3), -2).named("below"),
    case("diagonal_copy", f32(3, 3)),
    case("linalg_diagonal", f32(2, 3, 3), offset=1),
    case("diag_embed", f32(2, 3)),
    case("diag_embed", f32(2, 3), 1).named("above"),
    case("diag_embed", f32(2, 3), -1, 0, 2).named("below"),
    case("diag", f32(3)),
    case("diag", f32(3, 4), 1).named("read"),
    case("unfold", f32(2, 7), 1, 3, 2),
    case("unfold_copy", f32(5), 0, 2, 1),
    case("expand", f32(1, 3), [4, -1]),
    case("expand", f32(3), [2, 3]).named("front"),
    case("expand_copy", f32(1), [3]),
    case("broadcast_to", f32(3), [2, 3]),
    case("expand_as", f32(1, 3), f32(2, 3)),
    case("broadcast_tensors", [f32(2, 1), f32(3)]),
    case("repeat", f32(2, 3), [2, 1, 2]),
    case("tile", f32(2, 3), [2]),
    case("repeat_interleave.self_int", f32(2, 3), 2),
    case("repeat_interleave.self_int", f32(2, 3), 3, 1).named("dim"),
    case("repeat_interleave.self_Tensor", f32(3, 2), np.array([2, 0, 1]), 0),
    case("repeat_interleave.self_Tensor", f32(3, 2), np.array([2])).named("flat"),
    case("repeat_interleave.Tensor", np.array([0, 3, 0, 2])),
    case("meshgrid", [f32(2), f32(3)]),
    case("meshgrid.indexing", [f32(2), f32(3)], indexing="xy"),
    case("meshgrid.indexing", [f32(2), f32(3)], indexing="ij").named("ij"),
    case("cartesian_prod", [f32(2), f32(3)]),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


def test_reading_the_bytes_of_another_dtype_is_refused() -> None:
    with pytest.raises(Unsupported, match="bytes"):
        lowered(case("view.dtype", np.zeros(2, np.float32), torch.int32))


def test_resize_agrees_at_other_sizes_than_the_example() -> None:
    check_other_sizes(case("resize", f32(3, 4), [2, 3]), [f32(5, 6)], [f32(2, 3)])
