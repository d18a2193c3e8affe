"""Quantization to 16 bits for opsets that have it for 8 bits only: onnxruntime gives the same for both."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from convert.graph import OPSET, Graph
from convert.passes.opset.convert import convert_opset


@pytest.mark.parametrize("kind", [ir.DataType.INT16, ir.DataType.UINT16])
@pytest.mark.parametrize(("axis", "opset"), [(None, 12), (None, 13), (None, 20), (1, 13), (1, 20)])
def test_sixteen_bits_before_opset_21(kind: ir.DataType, axis: int | None, opset: int) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-9, 9, (40, 3)), (np.arange(40)[:, None] + 0.5) * [0.25, 0.5, 1.0]])
    scale = np.array([0.25, 0.5, 1.0], np.float32) * np.float32(1e-3 if axis else 1e-4)
    zero = np.array([5, 3, 0], kind.numpy())
    if axis is None:
        scale, zero = scale[0], zero[0]
    g = Graph()
    stored = g.QuantizeLinear(g.input("x", ir.DataType.FLOAT, ["n", 3]), scale, zero, axis=axis)
    g.output(stored, "stored")
    g.output(g.DequantizeLinear(stored, scale, zero, axis=axis), "y")
    model = g.model()
    run = lambda: onnxruntime.InferenceSession(ir.serde.serialize_model(model).SerializeToString()).run(  # noqa: E731
        None, {"x": x.astype(np.float32)}
    )
    expected = run()
    convert_opset(model, opset)
    assert model.graph.opset_imports[""] == opset
    for got, want in zip(run(), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("floats", [np.float32, np.float16])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("opset", [12, 13, 18, 20])  # Round came with opset 11
def test_halves_and_dtypes_that_are_named(kind: type, floats: type, named: bool, opset: int) -> None:
    """Half precision is quantized from opset 19 on, and the dtype is named without a zero point from opset 21 on."""
    x = np.random.default_rng(3).uniform(-9, 9, (40, 3)).astype(floats)
    scale, zero = np.asarray(0.0625, floats), np.array(0 if named else 3, kind)
    g = Graph()
    value = g.input("x", ir.DataType.from_numpy(x.dtype), ["n", 3])
    dtype = ir.DataType.from_numpy(np.dtype(kind))
    stored = g.QuantizeLinear(value, scale, output_dtype=int(dtype)) if named else g.QuantizeLinear(value, scale, zero)
    g.output(stored, "stored")
    g.output(g.DequantizeLinear(stored, scale, zero), "y")
    model = g.model()
    convert_opset(model, opset)
    proto = ir.serde.serialize_model(model)
    got, back = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    ends = np.iinfo(kind)
    want = np.clip(np.rint(x.astype(np.float32) / 0.0625) + zero, ends.min, ends.max).astype(kind)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == kind
    np.testing.assert_array_equal(back, ((want.astype(np.float32) - zero) * 0.0625).astype(floats))


@pytest.mark.parametrize("opset", [19, 20, 22])  # these take a tensor of the scale's dtype
def test_integers_are_quantized_by_a_scale_of_floats(opset: int) -> None:
    x = np.array([[-7, 40, 3], [900, 0, -2000]], np.int32)
    scale, zero = np.float32(3), np.uint8(100)
    g = Graph()
    g.output(g.QuantizeLinear(g.input("x", ir.DataType.INT32, ["n", 3]), scale, zero), "y")
    model = g.model()
    convert_opset(model, opset)
    content = ir.serde.serialize_model(model).SerializeToString()
    (got,) = onnxruntime.InferenceSession(content).run(None, {"x": x})
    np.testing.assert_array_equal(got, np.clip(np.rint(x / 3) + 100, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("opset", [19, 21])
def test_halves_of_old_files_are_divided_in_float32(opset: int) -> None:
    """This is what onnxruntime does before opset 23, in both directions."""
    x = np.arange(5, 12, 1 / 64).astype(np.float16)
    scale, zero = np.float16(0.1), np.uint8(0)
    g = Graph(opset=opset)
    g.output(g.QuantizeLinear(g.input("x", ir.DataType.FLOAT16, ["n"]), scale, zero), "y")
    model = g.model()
    run = lambda: onnxruntime.InferenceSession(ir.serde.serialize_model(model).SerializeToString()).run(None, {"x": x})  # noqa: E731
    (want,) = run()
    assert (want != np.rint(x / scale)).any()
    for other in (OPSET, 20):
        convert_opset(model, other)
        np.testing.assert_array_equal(run()[0], want)
