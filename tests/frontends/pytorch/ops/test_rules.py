"""Every rule of the PyTorch frontend against PyTorch itself, with known sizes and with unknown ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.rules import torch_op

from convert.errors import Unsupported
from tests.frontends.pytorch.ops.cases import CASES
from tests.frontends.pytorch.ops.cases_layers import LAYERS
from tests.frontends.pytorch.ops.cases_linalg import LINALG
from tests.frontends.pytorch.ops.cases_more import MORE
from tests.frontends.pytorch.ops.cases_quantized import QUANTIZED
from tests.frontends.pytorch.ops.cases_special import SPECIAL
from tests.frontends.pytorch.ops.cases_whole import WHOLE
from tests.frontends.pytorch.ops.support import expected, lowered, run
from tests.frontends.pytorch.ops.test_rules_free import DRAWN, FACTORED
from tests.support.cases import Case, case, params

ROWS = [*CASES, *LAYERS, *LINALG, *MORE, *QUANTIZED, *SPECIAL, *WHOLE]

# Operators over graphs of their own, which ../test_reader.py runs inside modules; those that make complex tensors,
# which ../test_complex.py does; those that only exist in place, whose functional twins are rows.
GRAPHS = ("higher_order::cond", "higher_order::while_loop", "higher_order::scan", "higher_order::map_impl")
COMPLEX = ("_fft_r2c", "complex", "polar", "view_as_complex", "view_as_complex_copy")
IN_PLACE = ("normal", "bernoulli.float")
QUANTISED = ("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic",
             "_make_per_tensor_quantized_tensor")  # fmt: skip
RECURRENT = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data",
             "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")  # fmt: skip
BY_MODULES = ("complex::", "quantized_tensor::", "quantized::", "torchvision::", "torchao::", "transformers::")
# What gives a list among its results: tests/frontends/pytorch/export/test_capture.py.
NESTED = ("histogramdd", "histogramdd.int_bins", "histogramdd.TensorList_bins")
ELSEWHERE = (*NESTED, *GRAPHS, *COMPLEX, *IN_PLACE, *QUANTISED, *RECURRENT)


def compare(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    want = expected(row)
    model, kept = lowered(row)
    got = run(model, row)
    assert kept
    for i, result in zip(kept, got, strict=True):
        compare(np.asarray(result), want[i])


@pytest.mark.parametrize("row", params(r for r in ROWS if not r.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    """A rule that needs a size says so; one that does not gives the same numbers. The sizes of weights are known."""
    want = expected(row)
    try:
        model, kept = lowered(row, dynamic=1 if any(row is layer for layer in LAYERS) else 9)
    except Unsupported as error:
        said = str(error)
        model = None
    if model is None:
        assert "known" in said or "unknown" in said
        return
    for i, result in zip(kept, run(model, row), strict=True):
        compare(np.asarray(result), want[i])


# What these hold is not defined, only their shape and dtype.
UNDEFINED = {"empty": ([2, 3],), "empty_like": (np.zeros((2, 3), np.int64),),
             "new_empty": (np.zeros(2, np.int64), [3]), "empty_strided": ([2, 3], [1, 2]),
             "empty_permuted": ([2, 3], [1, 0]), "new_empty_strided": (np.zeros(2, np.int64), [3], [1])}  # fmt: skip


@pytest.mark.parametrize("name", UNDEFINED)
def test_uninitialised_tensors_have_their_shape(name: str) -> None:
    row = case(name, *UNDEFINED[name])
    (want,) = expected(row)
    model, _ = lowered(row)
    (got,) = run(model, row)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)


def test_reading_the_bytes_of_another_dtype_is_refused() -> None:
    with pytest.raises(Unsupported, match="bytes"):
        lowered(case("view.dtype", np.zeros(2, np.float32), torch.int32))


def test_every_rule_has_a_case() -> None:
    """Those on complex and on quantised tensors are in tests of their own, and so are torchvision's."""
    tested = {row.operator for row in (*ROWS, *DRAWN, *(r for r, _ in FACTORED))}
    tested |= {*ELSEWHERE, *UNDEFINED, "view.dtype"}
    assert sorted(k for k in set(torch_op.entries) - tested if not k.startswith(BY_MODULES)) == []


def test_no_gap_has_a_rule() -> None:
    assert not set(torch_op.gaps) & set(torch_op.entries)
