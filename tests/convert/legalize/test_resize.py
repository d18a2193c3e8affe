"""Resize written out: attributes × sizes × what is known, compared with onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

from convert.graph.shape_inference import infer_facts
from convert.legalize.write_out import write_out

SHAPE = (1, 2, 7, 9)
X = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners")
GIVEN: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("scales", (1, 1, 1.7, 0.6)),
    ("scales", (1, 1, 0.5, 1.3)),
    ("sizes", (1, 2, 14, 5)),
    ("sizes", (1, 2, 1, 20)),
)
REGION = np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.3], np.float32)

Row = tuple[str, tuple[float, ...], dict[str, Any]]


def _differs(how: dict[str, Any]) -> bool:
    """Return whether onnxruntime may round a coordinate of half_pixel_symmetric to the other side of an integer."""
    tie = (how["mode"], how["coordinate_transformation_mode"]) == ("nearest", "half_pixel_symmetric")
    return tie and how["nearest_mode"] in ("floor", "ceil")


def rows(mode: str) -> list[Row]:
    """Return the rows of a mode: what is given, its numbers, and the attributes."""
    variants: list[dict[str, Any]] = [{}]
    if mode == "nearest":
        variants = [{"nearest_mode": n} for n in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")]
    elif mode == "linear":
        variants += [{"antialias": 1}]
    else:
        variants += [{"antialias": 1}, {"exclude_outside": 1}, {"cubic_coeff_a": -0.5}]
    found = []
    for where, more, (kind, given) in itertools.product((*COORDINATES, "tf_crop_and_resize"), variants, GIVEN):
        how = {"mode": mode, "coordinate_transformation_mode": where, "extrapolation_value": 5.0, **more}
        if not ("antialias" in how and where == "tf_crop_and_resize") and not _differs(how):
            found.append((kind, given, how))
    for policy, where in itertools.product(("not_larger", "not_smaller"), COORDINATES[:2]):
        how = {"mode": mode, "coordinate_transformation_mode": where, "keep_aspect_ratio_policy": policy}
        found.append(("sizes", (12, 5), {**how, "axes": [2, 3]}))
    return found


def model_of(some: list[Row], dims: list[Any], constant: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return one model of all rows, and its inputs. constant: whether scales, sizes and regions are initializers."""
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)]
    nodes, outputs, weights, feeds = [], [], [], {"x": X}
    for i, (kind, given, how) in enumerate(some):
        numbers = {kind: np.array(given, np.float32 if kind == "scales" else np.int64)}
        if how["coordinate_transformation_mode"] == "tf_crop_and_resize":
            numbers["roi"] = REGION
        for name, array in numbers.items():
            dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
            if constant:
                weights.append(onnx.numpy_helper.from_array(array, f"{name}{i}"))
            else:
                feeds[f"{name}{i}"] = array
                inputs.append(helper.make_tensor_value_info(f"{name}{i}", dtype, array.shape))
        names = [f"{n}{i}" if n in numbers else "" for n in ("roi", "scales", "sizes")]
        nodes.append(helper.make_node("Resize", ["x", *names], [f"y{i}"], **how))
        outputs.append(helper.make_tensor_value_info(f"y{i}", onnx.TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "rows", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model), feeds


def outputs_of(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, feeds)


_WAYS = [(known, mode) for known in ("sizes and dims", "sizes", "nothing") for mode in ("nearest", "linear", "cubic")]
_QUICK = (*_WAYS[:3], ("nothing", "nearest"))


@pytest.mark.parametrize(("known", "mode"), [
    pytest.param(*way, marks=() if way in _QUICK else pytest.mark.slow) for way in _WAYS
])  # fmt: skip
def test_written_out(known: str, mode: str) -> None:
    some = rows(mode)
    dims = list(SHAPE) if known == "sizes and dims" else ["n", "c", "h", "w"]
    model, feeds = model_of(some, dims, constant=known != "nothing")
    want = outputs_of(model, feeds)
    written = ir.from_proto(model)
    infer_facts(written)
    assert write_out(written, lambda node: node.op_type != "Resize")
    assert not [node for node in written.graph if node.op_type == "Resize"]
    for row, a, b in zip(some, outputs_of(ir.to_proto(written), feeds), want, strict=True):
        assert a.shape == b.shape, row
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6, err_msg=str(row))


@pytest.mark.parametrize("antialias", [0, 1])
def test_integers(antialias: int) -> None:
    """Sums of integers are truncated, or rounded with antialias, and stay in the range of the dtype."""
    x = np.random.default_rng(1).integers(0, 256, (1, 1, 6, 8)).astype(np.uint8)
    sizes = onnx.numpy_helper.from_array(np.array([1, 1, 4, 5]), "sizes")
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", antialias=antialias)
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.UINT8, s) for n, s in (("x", x.shape), ("y", None))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    written = ir.from_proto(model)
    infer_facts(written)
    assert write_out(written, lambda one: one.op_type != "Resize")
    (got,) = outputs_of(ir.to_proto(written), {"x": x})
    (wide,) = outputs_of(ir.to_proto(_in_float(model)), {"x": x.astype(np.float32)})
    want = np.clip(np.round(wide) if antialias else np.trunc(wide * (1 + 2.0**-22)), 0, 255)
    np.testing.assert_array_equal(got, want.astype(np.uint8))


def _in_float(model: onnx.ModelProto) -> ir.Model:
    wide = ir.from_proto(model)
    for value in (*wide.graph.inputs, *wide.graph.outputs):
        value.type = ir.TensorType(ir.DataType.FLOAT)
    return wide
