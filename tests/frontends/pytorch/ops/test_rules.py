"""The table of the PyTorch frontend's rules has a row in a test module next to this one for each rule."""

from __future__ import annotations

from convert.frontends.pytorch import ops  # noqa: F401  (fills the table)
from convert.frontends.pytorch.rules import torch_op

from tests.frontends.pytorch.ops.test_create import UNDEFINED
from tests.frontends.pytorch.ops.test_factorizations import FACTORED
from tests.support.cases import rows_of_package

# Operators with subgraphs (../test_reader.py runs them in modules), operators that return complex tensors
# (test_complex.py), and in-place operators whose out-of-place form has a row.
GRAPHS = ("higher_order::cond", "higher_order::while_loop", "higher_order::scan", "higher_order::map_impl")
COMPLEX = ("_fft_r2c", "complex", "polar", "stft", "view_as_complex", "view_as_complex_copy")
IN_PLACE = ("normal", "bernoulli.float")
QUANTIZED = ("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic",
             "_make_per_tensor_quantized_tensor", "quantized_lstm.input", "quantized_gru.input")  # fmt: skip
RECURRENT = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data",
             "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")  # fmt: skip
BY_MODULES = ("complex::", "quantized_tensor::", "quantized::", "torchvision::", "torchao::", "transformers::")
# Operators with a list among their results are tested in tests/frontends/pytorch/export/capture/test_export_module.py.
NESTED = ("histogramdd", "histogramdd.int_bins", "histogramdd.TensorList_bins")
ELSEWHERE = (*NESTED, *GRAPHS, *COMPLEX, *IN_PLACE, *QUANTIZED, *RECURRENT)


def test_every_rule_has_a_case() -> None:
    """Rules for complex and quantized tensors, and torchvision's, have tests of their own."""
    tested = {row.operator for row in (*rows_of_package(__package__), *(r for r, _ in FACTORED))}
    tested |= {*ELSEWHERE, *UNDEFINED, "view.dtype"}
    assert sorted(k for k in set(torch_op.entries) - tested if not k.startswith(BY_MODULES)) == []


def test_no_gap_has_a_rule() -> None:
    assert not set(torch_op.gaps) & set(torch_op.entries)
