"""The table of the PyTorch frontend's rules: the modules beside this one hold a row for each."""

from __future__ import annotations

from convert.frontends.pytorch import ops  # noqa: F401  (fills the table)
from convert.frontends.pytorch.rules import torch_op

from tests.frontends.pytorch.ops.test_create import UNDEFINED
from tests.frontends.pytorch.ops.test_svd_eigh import FACTORED
from tests.support.cases import rows_of_package

# Operators over graphs of their own, which ../test_reader.py runs inside modules; those that make complex tensors,
# which test_complex.py does; those that only exist in place, whose functional twins are rows.
GRAPHS = ("higher_order::cond", "higher_order::while_loop", "higher_order::scan", "higher_order::map_impl")
COMPLEX = ("_fft_r2c", "complex", "polar", "stft", "view_as_complex", "view_as_complex_copy")
IN_PLACE = ("normal", "bernoulli.float")
QUANTIZED = ("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic",
             "_make_per_tensor_quantized_tensor", "quantized_lstm.input", "quantized_gru.input")  # fmt: skip
RECURRENT = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data",
             "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")  # fmt: skip
BY_MODULES = ("complex::", "quantized_tensor::", "quantized::", "torchvision::", "torchao::", "transformers::")
# What gives a list among its results: tests/frontends/pytorch/export/test_capture.py.
NESTED = ("histogramdd", "histogramdd.int_bins", "histogramdd.TensorList_bins")
ELSEWHERE = (*NESTED, *GRAPHS, *COMPLEX, *IN_PLACE, *QUANTIZED, *RECURRENT)


def test_every_rule_has_a_case() -> None:
    """Those on complex and on quantized tensors are in tests of their own, and so are torchvision's."""
    tested = {row.operator for row in (*rows_of_package(__package__), *(r for r, _ in FACTORED))}
    tested |= {*ELSEWHERE, *UNDEFINED, "view.dtype"}
    assert sorted(k for k in set(torch_op.entries) - tested if not k.startswith(BY_MODULES)) == []


def test_no_gap_has_a_rule() -> None:
    assert not set(torch_op.gaps) & set(torch_op.entries)
