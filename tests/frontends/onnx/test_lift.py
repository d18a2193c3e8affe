"""Models of older and newer opsets are converted to the shared graph's opset, and compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import helper
from onnx.backend.test.loader import load_model_tests

from convert.errors import Unsupported
from convert.graph import OPSET
from convert.passes.opset.convert import convert_opset
from convert.passes.tidy.fold import fold_constants
from convert.reference.executor import run
from tests.support.onnx_support import FLOAT, array, assert_same, data_of, info, model, node_test, read, run_ort

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


OLD = [
    c
    for kind in ("pytorch-converted", "pytorch-operator", "simple")
    for c in load_model_tests(kind=kind)
    if "gradient" not in c.name
]


@pytest.mark.parametrize("case", OLD[::6], ids=lambda c: c.name)
def test_old_models_compute_the_same_when_lifted(case: Any) -> None:
    folder = Path(case.model_dir)
    shared = read(folder / "model.onnx")
    data = folder / "test_data_set_0"

    def load(what: str) -> list[Any]:
        tensors = []
        for i in range(len(list(data.glob(f"{what}_*.pb")))):
            content = (data / f"{what}_{i}.pb").read_bytes()
            tensors.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content)))
        return tensors

    feeds = dict(zip([v.name for v in shared.graph.inputs], load("input"), strict=True))
    got = run(shared, feeds)
    for value, wanted in zip(got.values(), load("output"), strict=True):
        assert_same(value, wanted, 1e-4)


def test_broadcast_of_opset_6_with_a_dynamic_batch() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)
    proto = model([node], [info("x", ["N", 3, 4]), info("b", [3])], [info("y", ["N", 3, 4])], opset=6, ir_version=3)
    b = np.array([1, 2, 3], np.float32)
    assert np.array_equal(run(read(proto), {"x": X, "b": b})["y"], X + b[:, None])


def test_dims_of_outputs_follow_from_inputs_where_the_file_says_otherwise() -> None:
    """Files whose batch was made dynamic only at the inputs declare a 1 at the outputs, which runtimes ignore."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Shape", ["y"], ["s"])]
    ends = [info("x", ["N", 3, 4])], [info("y", [1, 3, 4]), info("s", [3], onnx.TensorProto.INT64)]
    proto = model(nodes, *ends)
    shared = read(proto)
    assert shared.graph.outputs[0].shape == ir.Shape(["N", 3, 4])
    assert list(run(shared, {"x": X})["s"]) == [2, 3, 4]  # onnxruntime's optimizer also relies on the file


def test_dims_of_outputs_that_content_decides_stay_as_declared() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    shared = read(model(nodes, [info("x", ["N", 3, 4])], [info("y", [3, "found"], onnx.TensorProto.INT64)]))
    assert shared.graph.outputs[0].shape == ir.Shape([3, "found"])


def test_the_body_of_a_loop_takes_its_dims_from_outside() -> None:
    """The shape of the value, which the body declares as 1, determines the amount that is added."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, int64 n) => (float[1, 4] y) { t = Constant <value = bool {1}> ()
        y = Loop (n, t, x) <body = b (int64 i, bool go, float[1, 4] v) => (bool on, float[1, 4] w)
        { d = Shape (v) f = Cast <to = 1> (d) m = ReduceProd <keepdims = 0> (f) w = Add (v, m) on = Identity (go) }> }
        """)
    shared = read(proto)
    assert shared.graph.outputs[0].shape == ir.Shape([None, 4])
    fold_constants(shared)
    assert_same(run(shared, {"x": X[0], "n": np.array(2)})["y"], X[0] + np.float32(24))


@pytest.mark.parametrize("opset", [7, 10])
def test_a_mask_that_dropout_does_not_fill_has_the_dtype_of_its_opset(opset: int) -> None:
    proto = model(
        [helper.make_node("Dropout", ["x"], ["y", "mask"])], [info("x", ["N", 3, 4])],
        [info("y", ["N", 3, 4]), info("mask", ["N", 3, 4], FLOAT if opset < 10 else onnx.TensorProto.BOOL)],
        opset=opset, ir_version=3,
    )  # fmt: skip
    assert_same(list(run(read(proto), {"x": X}).values()), run_ort(proto, {"x": X}))


IMAGE = np.random.default_rng(1).normal(size=(1, 2, 5, 7)).astype(np.float32)

OF_OPSET_10: dict[str, tuple[str, dict[str, Any], list[float] | None]] = {
    "Clip": ("Clip", {"min": -0.5, "max": 0.75}, None),
    "Clip from below": ("Clip", {"min": -0.5}, None),
    "Clip from above": ("Clip", {"max": 0.75}, None),
    "Pad": ("Pad", {"pads": [0, 0, 1, 0, 0, 0, 2, 1]}, None),
    "Pad with a value": ("Pad", {"pads": [0, 0, 1, 0, 0, 0, 2, 1], "value": 2.0}, None),
    "Pad, reflected": ("Pad", {"pads": [0, 0, 1, 0, 0, 0, 2, 1], "mode": "reflect", "value": 2.0}, None),
    "Resize, linear": ("Resize", {"mode": "linear"}, [1, 1, 2, 0.6]),
    "Resize, larger": ("Resize", {"mode": "nearest"}, [1, 1, 2, 1.5]),
    "Resize, smaller": ("Resize", {"mode": "nearest"}, [1, 1, 0.5, 0.75]),
    "Resize, both": ("Resize", {}, [1, 1, 1.7, 0.6]),
    "Resize, neither": ("Resize", {}, [1, 1, 1, 1]),
}


@pytest.mark.parametrize(
    ("name", "computed"), [(n, c) for n, row in OF_OPSET_10.items() for c in (False, True) if row[2] or not c]
)
def test_forms_before_opset_11(name: str, computed: bool) -> None:
    """computed: whether the scales of a Resize are given at run time."""
    operator, attributes, scales = OF_OPSET_10[name]
    given = [] if scales is None else [array("s", scales)]
    node = helper.make_node(operator, ["x", *(["s"] if scales else [])], ["y"], **attributes)
    inputs = [info("x", IMAGE.shape), *([info("s", [4])] if computed else [])]
    feeds = {"x": IMAGE, **({"s": np.array(scales, np.float32)} if computed else {})}
    proto = model([node], inputs, [info("y", None)], [] if computed else given, opset=10, ir_version=5)
    assert_same(run(read(proto), feeds)["y"], run_ort(proto, feeds)[0], 1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("name", [n for n, row in OF_OPSET_10.items() if row[2] is None])
def test_numbers_that_were_attributes_are_of_the_dtype_of_the_data(name: str, dtype: Any) -> None:
    """Compare with float32, for which onnxruntime has kernels. A float64 that no float32 represents stays unchanged."""
    operator, attributes, _ = OF_OPSET_10[name]
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    x = IMAGE.astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    protos = [
        model([node], [info("x", x.shape, k)], [info("y", None, k)], opset=10, ir_version=5) for k in (kind, FLOAT)
    ]
    shared = read(protos[0])
    onnx.checker.check_model(ir.to_proto(shared), full_check=True)
    assert_same(run(shared, {"x": x})["y"], run_ort(protos[1], {"x": x.astype(np.float32)})[0].astype(dtype))


@pytest.mark.parametrize("spatial", [0, 1])
def test_a_batch_norm_of_opset_7_may_have_numbers_for_each_element(spatial: int) -> None:
    rng = np.random.default_rng(2)
    given = [array(n, rng.uniform(0.5, 2, (3,) if spatial else (3, 4))) for n in ("s", "b", "m", "v")]
    node = helper.make_node("BatchNormalization", list("xsbmv"), ["y"], spatial=spatial, epsilon=0.01)
    proto = model([node], [info("x", ["N", 3, 4])], [info("y", ["N", 3, 4])], given, opset=7, ir_version=4)
    assert_same(run(read(proto), {"x": X})["y"], run_ort(proto, {"x": X})[0], 1e-5)


@pytest.mark.parametrize(("name", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_opset_6(name: str, gates: int) -> None:
    """Compare with the same layer at opset 7, the oldest that onnxruntime supports."""
    rng = np.random.default_rng(3)
    given = [array("w", rng.normal(size=(1, gates * 5, 4))), array("r", rng.normal(size=(1, gates * 5, 5)))]
    protos = [
        model([helper.make_node(name, ["x", "w", "r"], ["y", "h"], hidden_size=5, **more)], [info("x", ["T", 3, 4])],
              [info("y", None), info("h", [1, 3, 5])], given, opset=opset, ir_version=4)
        for opset, more in ((6, {"output_sequence": 1}), (7, {}))
    ]  # fmt: skip
    assert_same(list(run(read(protos[0]), {"x": X}).values()), run_ort(protos[1], {"x": X}), 1e-5)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("ends", ["scales", "sizes"])
def test_coordinates_that_opset_13_took_away_are_written_in_others(ends: str, rounding: str) -> None:
    """For 6 to 7, 7 to 6 and others, coordinates are exactly whole or midpoints, but not in float32."""
    for wide, size in ((6, 7), (7, 6), (7, 2), (14, 19), (5, 10), (5, 5)):
        node = helper.make_node(
            "Resize", ["x", "r", "s", "t"][: 3 if ends == "scales" else 4], ["y"], nearest_mode=rounding,
            coordinate_transformation_mode="tf_half_pixel_for_nn",
        )  # fmt: skip
        scales = array("s", [1, 1, 2, size / wide] if ends == "scales" else [])
        given = [array("r", []), scales, *([array("t", [1, 2, 6, size], np.int64)] if ends == "sizes" else [])]
        proto = model([node], [info("x", [1, 2, 3, wide])], [info("y", None)], given, opset=11, ir_version=6)
        x = np.random.default_rng(0).normal(size=(1, 2, 3, wide)).astype(np.float32)
        shared = read(proto)
        assert {n.op_type for n in shared.graph} == {"Resize", "Slice"}
        (wanted,) = run_ort(proto, {"x": x})
        assert_same(run(shared, {"x": x})["y"], wanted)
        assert_same(run_ort(ir.to_proto(shared), {"x": x})[0], wanted)


def test_coordinates_of_scales_that_the_run_tells() -> None:
    node = helper.make_node(
        "Resize", ["x", "r", "s"], ["y"], coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"
    )
    inputs = [info("x", IMAGE.shape), info("s", [4])]
    proto = model([node], inputs, [info("y", None)], [array("r", [])], opset=11, ir_version=6)
    feeds = {"x": IMAGE, "s": np.array([1, 1, 2, 0.6], np.float32)}
    assert_same(run(read(proto), feeds)["y"], run_ort(proto, feeds)[0])


@pytest.mark.parametrize(
    ("module", "name"),
    [("swish", "test_swish"), ("attention", "test_attention_4d_causal"), ("softmax", "test_softmax_axis_1")],
)
def test_newer_opsets_come_down(module: str, name: str) -> None:
    case = node_test(module, name)
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    proto.opset_import[0].version = 25
    inputs, outputs = data_of(case)
    shared = read(proto)
    assert shared.graph.opset_imports[""] == OPSET
    got = run(shared, dict(zip([v.name for v in shared.graph.inputs], inputs, strict=True)))
    assert_same(next(iter(got.values())), outputs[0], 1e-4)


def test_an_operator_that_is_too_new_stays_and_is_named_where_it_cannot() -> None:
    case = node_test("cumprod", "test_cumprod_1d")
    shared = read(case.model)
    assert shared.graph.opset_imports[""] == case.model.opset_import[0].version > OPSET
    assert [n.op_type for n in shared.graph] == ["CumProd"]
    with pytest.raises(Unsupported, match=f"CumProd.*not in opset {OPSET}"):
        convert_opset(shared, OPSET)
