"""Backward slices of a dim of any size give onnxruntime's results, and sizes that PyTorch can reason about."""

from __future__ import annotations

import itertools

import numpy as np
import onnx.parser
import onnx.shape_inference
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.dtypes import tensor_from
from convert.backends.pytorch.writer.exported import export_model

from tests.support.marks import slow

LEAST, MOST = -(2**63), 2**63 - 1
# Without an end, the end is the largest integer: onnxruntime goes to the first element, the specification to the last.
PLACES = (LEAST, -4, -2, -1, 0, 1, 3)


@pytest.mark.parametrize("step", slow([-1, -2], -1))
def test_any_start_and_end(step: int) -> None:
    cases = [(a, b) for a, b in itertools.product((*PLACES, MOST), PLACES)]
    numbers = ", ".join(f"int64[1] a{i} = {{{a}}}, int64[1] b{i} = {{{b}}}" for i, (a, b) in enumerate(cases))
    slices = " ".join(f"y{i} = Slice (x, a{i}, b{i}, axis, by)" for i in range(len(cases)))
    outputs = ", ".join(f"float[2, m{i}] y{i}" for i in range(len(cases)))
    text = f"(float[2, n] x) => ({outputs}) <int64[1] axis = {{1}}, int64[1] by = {{{step}}}, {numbers}> {{ {slices} }}"
    proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> graph ' + text)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    exported = export_model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    assert "item" not in exported.graph_module.code  # a size that is known at run time only equals no other
    program = exported.module()
    for n in (1, 2, 3, 5, 8):
        x = np.arange(2 * n, dtype=np.float32).reshape(2, n)
        found = program(torch.from_numpy(x))
        for i, wanted in enumerate(session.run(None, {"x": x})):
            np.testing.assert_array_equal(found[f"y{i}"].numpy(), wanted, err_msg=f"{cases[i]} of {n}")


def test_a_floored_rest_is_a_size() -> None:
    """An example is (n // 2) * 2, which a frontend writes as n - n % 2. The size does not depend on data."""
    text = """(float[n] x) => (float[2, m] y) <int64 two = {2}, int64[1] first = {0}, int64[1] twos = {2}> {
        n = Shape (x) r = Mod (n, two) e = Sub (n, r) h = Div (e, two)
        s = Slice (x, first, e) d = Concat <axis = 0> (twos, h) y = Reshape (s, d) }"""
    proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> graph ' + text)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    exported = export_model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    assert "item" not in exported.graph_module.code
    for n in (2, 3, 6, 9):
        x = np.arange(n, dtype=np.float32)
        found = exported.module()(torch.from_numpy(x))["y"].numpy()
        np.testing.assert_array_equal(found, session.run(None, {"x": x})[0])


def test_a_constant_may_go_backwards_in_memory() -> None:
    """This is the case for a constant folded from a flip. For a dim of 1, numpy calls such an array contiguous."""
    for array in (np.ones((3, 1, 2))[:, ::-1], np.arange(6.0).reshape(2, 3)[:, ::-1]):
        np.testing.assert_array_equal(tensor_from(array).numpy(), array)
