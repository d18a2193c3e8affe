"""Shapes of a whole model where ONNX's own inference differs from the runtimes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from convert.graph.shape_inference import infer_facts

REPEATED = """<ir_version: 8, opset_import: ["" : 18]> g (float[n, 1, 2, 1] x, float[n, 3, 2, 1] z, bool c)
  => (float[a, b, d, e] y, float[f, g, h] s, float[i, j, k, l] t)
  <float[4] scales = {1, 1, 1, 2.6}, float[1, 1, 2, 1] w = {1, 2}, int64[4] repeats = {1, 2, 1, 2}> {
  y0 = Einsum <equation = "bhij,bhij->bihj"> (x, z)
  y1 = Mul (y0, y0)
  y2 = If (c) <then_branch = t () => (u) { u0 = Einsum <equation = "bhij,bhij->hbij"> (x, z) u = Relu (u0) },
    else_branch = e () => (v) { v0 = Einsum <equation = "bhij,bhij->hbij"> (z, x) v = Neg (v0) }>
  y3 = Transpose <perm = [1, 2, 0, 3]> (y2)
  y = Add (y1, y3)
  r0 = Resize (z, , scales)
  s0 = Einsum <equation = "bhij,bhij->bhi"> (x, z)
  s = Sqrt (s0)
  t0 = Einsum <equation = "bhij,bhij->bihj"> (w, z)
  t1 = Tile (t0, repeats)
  t = Neg (t1) }"""


def test_dims_of_one_that_an_einsum_repeats_are_known_behind_it() -> None:
    proto = onnx.parser.parse_model(REPEATED)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("y1", "y2", "y3", "r0"))
    rng = np.random.default_rng(0)
    feed = {"x": rng.random((4, 1, 2, 1), np.float32), "z": rng.random((4, 3, 2, 1), np.float32), "c": np.array(True)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    model = ir.serde.deserialize_model(proto)
    infer_facts(model)
    arrays = session.run(None, feed)
    for output, array in zip(model.graph.outputs, arrays, strict=True):
        shape = output.shape
        assert shape is not None, output.name
        known = [size if not isinstance(d, int) else d for d, size in zip(shape, array.shape, strict=True)]
        assert sum(isinstance(d, int) for d in shape) == array.ndim - 1, output
        assert tuple(known) == array.shape, output
    tiled = next(node for node in model.graph if node.op_type == "Tile").outputs[0]  # not a graph output
    assert [d if isinstance(d, int) else 4 for d in tiled.shape or ()] == list(arrays[2].shape)


POOLS = [
    ("AveragePool", (4, 5, 5), "kernel_shape=[1, 1, 2], strides=[2, 2, 2], ceil_mode=1"),
    ("MaxPool", (4, 5, 7), "kernel_shape=[1, 2, 2], strides=[2, 3, 3], pads=[0, 1, 1, 0, 1, 1], ceil_mode=1"),
    ("MaxPool", (6, 6), "kernel_shape=[2, 2], strides=[2, 3], pads=[1, 1, 1, 1], dilations=[1, 2], ceil_mode=1"),
    ("LpPool", (5, 6), "kernel_shape=[2, 1], strides=[3, 4], ceil_mode=1"),
    ("AveragePool", (5, 6), "kernel_shape=[3, 2], strides=[2, 3], auto_pad='SAME_UPPER'"),
]


@pytest.mark.parametrize("opset", [19, 21, 22, 23])
@pytest.mark.parametrize(("operator", "size", "attributes"), POOLS)
def test_windows_that_would_start_in_the_pad(operator: str, size: tuple[int, ...], attributes: str, opset: int) -> None:
    x = np.random.default_rng(0).random((2, 3, *size), np.float32)
    nodes = f"p = {operator} <{attributes}> (x) y = Relu (p)".replace("'", '"')
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float{list(x.shape)} x) => (float[n] y) {{ {nodes} }}'
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    model = ir.serde.deserialize_model(proto)
    infer_facts(model)
    for value in (*model.graph.outputs, *(o for n in model.graph for o in n.outputs)):
        assert value.shape is not None
        assert tuple(value.shape) == want.shape


@pytest.mark.parametrize(
    "call",
    ["GroupNormalization <num_groups = 2> (x, s, s)", "MeanVarianceNormalization (x)", "Resize (x, , scales)"],
)
@pytest.mark.parametrize("is_output", [False, True])
def test_what_inference_is_silent_about(call: str, is_output: bool) -> None:
    """ONNX does not look into functions while a dim has a name: a Mul after a group norm had no rank."""
    name = "y" if is_output else "h"
    behind = "" if is_output else "y = Relu (h)"
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n, 4, 5, 6] x) => (float[] y) '
        f"<float[4] s = {{1, 2, 3, 4}}, float[4] scales = {{1, 1, 2, 2}}> {{ {name} = {call} {behind} }}"
    )
    model.graph.outputs[0].shape = None
    infer_facts(model)
    shape = model.graph.outputs[0].shape
    assert shape is not None
    sizes = [d if isinstance(d, int) else d.value for d in shape]
    assert sizes == ([None, 4, 10, 12] if "Resize" in call else ["n", 4, 5, 6])


def test_a_normalization_behind_what_was_corrected() -> None:
    """From `tests.suites.compose --source onnx --seed 46615`: a node that inference had already read kept the old
    shape.
    """
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n, 4, 1, 1] x, float[n, 1, 8, 4] z) => '
        "(float[n, 8, 4, 4] y) <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}> "
        '{ e = Einsum <equation = "bhij,bhij->bihj"> (x, z) h = GroupNormalization <num_groups = 8> (e, s, s) '
        "y = Relu (h) }"
    )
    model.graph.node(1).outputs[0].shape = ir.Shape(["n", 1, 4, 1])
    infer_facts(model)
    shapes = [[d if isinstance(d, int) else d.value for d in node.outputs[0].shape or ()] for node in model.graph]
    assert shapes == [["n", 8, 4, 4]] * 3
