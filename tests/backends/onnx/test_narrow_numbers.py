"""ONNX in 16, 8 and 4 bits: onnxruntime runs and verifies it, and operators that would overflow stay in float32."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from convert.backends import onnx as backend
from onnx import TensorProto, helper

import convert
from convert.errors import UsageError
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, PASS
from convert.parity.compare.narrow import NarrowOutput, compare_narrow
from convert.reference.quantized import simulate
from convert.request.options import Options
from convert.runtimes.onnx import run_file
from convert.runtimes.onnx_stored import storage_of
from tests.support.onnx_support import array, info, model, read

RNG = np.random.default_rng(0)
W = (RNG.normal(size=(64, 48)) / 8).astype(np.float32)
X = RNG.normal(size=(5, 64)).astype(np.float32)


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def dense() -> onnx.ModelProto:
    """A matrix product, a sum and two activations, with weights large enough to be narrowed."""
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c", "d"), node("Softmax", "d", "y")]
    return model(nodes, [info("x", ["n", 64])], [info("y", ["n", 48])], [array("w", W), array("b", W[0])])


def convolution() -> onnx.ModelProto:
    """A convolution, a dense layer and its transposed weights."""
    nodes = [
        node("Conv", "x k", "a", pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("Flatten", "b", "c"),
        node("Gemm", "c w s", "y", transB=1),
    ]
    kernel, w = RNG.normal(size=(4, 3, 3, 3)), RNG.normal(size=(10, 256)) / 16
    return model(nodes, [info("x", ["n", 3, 8, 8])], [info("y", ["n", 10])],
                 [array("k", kernel), array("w", w), array("s", w[:, 0])])  # fmt: skip


def written(proto: onnx.ModelProto, path: Path, opset: int = 20, **options: Any) -> tuple[Path, Report]:
    report = Report("test")
    extra = {
        "opset": opset,
        **{n: options.pop(n) for n in ("keep_io", "block_size", "zero_points", "accuracy_level") if n in options},
    }
    backend.write(read(proto), path, "onnx", Options(**options, extra=extra), report)
    return path, report


def dtypes_of(path: Path) -> dict[str, set[int]]:
    """Return the input dtypes of each operator of a file, as ONNX infers them."""
    proto = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True)
    known = {v.name: v.type.tensor_type.elem_type for v in (*proto.graph.value_info, *proto.graph.input)}
    known |= {v.name: v.data_type for v in proto.graph.initializer}
    return {n.op_type: {known[i] for i in n.input if known.get(i, 0) in (1, 10, 16)} for n in proto.graph.node}


def kept(proto: onnx.ModelProto, tmp_path: Path, dtype: str = "float16") -> tuple[str, Path]:
    path, report = written(proto, tmp_path / "m.onnx", dtype=dtype)
    return " ".join(n for n in report.notes if n.code == "kept-wide"), path


def one_input(nodes: list[onnx.NodeProto], *weights: onnx.TensorProto, shape: Any = ("n", 64)) -> onnx.ModelProto:
    return model(nodes, [info("x", list(shape))], [info("y", None)], weights)


# Nodes that float16 cannot compute: the graph, an input set, the words of the note, and the result of numpy.
POSITIONS = np.linspace(0, 5000, 64, dtype=np.float32)[None]
STAYING = {
    "overflow": (
        one_input([node("Mul", "x k", "a"), node("Mul", "a a", "b"), node("Sqrt", "b", "c"), node("Div", "c k", "y")],
                  array("k", np.float32(1000))),
        "Mul: numbers up to", np.abs,
    ),
    "angle": (
        one_input([node("Add", "x p", "a"), node("Mul", "a f", "b"), node("Cos", "b", "y")],
                  array("p", POSITIONS), array("f", np.float32(0.7))),
        "Cos: rounding moves", lambda x: np.cos((x + POSITIONS) * np.float64(np.float32(0.7))),
    ),
    "epsilon": (
        one_input([node("ReduceL2", "x last", "a"), node("Add", "a e", "b"), node("Div", "x b", "y")],
                  array("last", [-1], np.int64), array("e", np.float32(1e-12))),
        "Add: the number 1.0e-12", lambda x: x / (np.sqrt((x * x).sum(-1, keepdims=True)) + 1e-12),
    ),
    "mask": (
        one_input([node("Greater", "x z", "c"), node("Where", "c x m", "a"), node("Softmax", "a", "y")],
                  array("z", np.float32(0)), array("m", np.float32(-3.4e38))),
        "Where: numbers up to 3.4e+38",
        lambda x: np.where(x > 0, np.exp(x), 0) / np.where(x > 0, np.exp(x), 0).sum(-1, keepdims=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYING)
def test_what_float16_does_not_stand_stays_in_float32(name: str, tmp_path: Path) -> None:
    proto, told, wanted = STAYING[name]
    notes, path = kept(proto, tmp_path)
    assert told in notes
    x = X.astype(np.float16)
    got = run_file(path, [{"x": x}])[0]["y"]
    # Half a unit in the last place of float16 is 4.9e-4; an angle of 3,500 is 2e-4 off in float32, and cosines cross 0.
    np.testing.assert_allclose(
        got.astype(np.float64), wanted(x.astype(np.float64)), rtol=1e-3, atol=5e-4 if name == "angle" else 1e-6
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_positions_are_computed_in_float32_however_short_the_inputs_are_that_are_tried(
    dtype: str, tmp_path: Path
) -> None:
    """This concerns the angles of rotary embeddings and the buckets of relative positions, whose errors do not show at
    early positions.
    """
    nodes = [
        node("Cast", "p", "a", to=TensorProto.FLOAT), node("Unsqueeze", "a last", "b"), node("MatMul", "b f", "c"),
        node("Cos", "c", "d"), node("Mul", "x d", "e"),
        node("Log", "a", "g"), node("Mul", "g k", "h"), node("Cast", "h", "i", to=TensorProto.INT64),
        node("Gather", "table i", "j"), node("Add", "e j", "y"),
    ]  # fmt: skip
    frequencies = (10000.0 ** -np.linspace(0, 1, 64, dtype=np.float32))[None]
    table = np.arange(40 * 64, dtype=np.float32).reshape(40, 64) % 7
    weights = [array("f", frequencies), array("k", np.float32(4)), array("table", table), array("last", [-1], np.int64)]
    inputs = [info("x", ["n", 64]), info("p", ["n"], TensorProto.INT64)]
    path, report = written(model(nodes, inputs, [info("y", None)], weights), tmp_path / "m.onnx", dtype=dtype)
    assert any("it computes positions, sizes or counts" in note for note in report.notes)
    positions = np.arange(1, 4097, dtype=np.int64)
    x = np.ones((4096, 64), np.float16 if dtype == "float16" else np.float32)
    got = run_file(path, [{"x": x, "p": positions}])[0]["y"].astype(np.float64)
    buckets = (np.log(positions.astype(np.float32)) * np.float32(4)).astype(np.int64)
    wanted = np.cos(positions[:, None] * frequencies.astype(np.float64)) + table[buckets]
    # A unit in the last place at 8, with 11 and with 8 bits; angles of 4,096 are 2.4e-4 off in float32.
    np.testing.assert_allclose(got, wanted, atol=8e-3 if dtype == "float16" else 6.4e-2)


def test_what_stands_it_is_narrow_and_nothing_is_noted(tmp_path: Path) -> None:
    notes, path = kept(dense(), tmp_path)
    assert not notes
    assert set.union(*dtypes_of(path).values()) == {TensorProto.FLOAT16}
    assert path.stat().st_size < 0.6 * written(dense(), tmp_path / "full.onnx")[0].stat().st_size


@pytest.mark.parametrize("keep", [False, True])
def test_inputs_and_outputs_stay_float32_if_they_are_to(keep: bool, tmp_path: Path) -> None:
    path, _ = written(dense(), tmp_path / "m.onnx", dtype="float16", keep_io=keep)
    graph = onnx.load(path).graph
    ends = {v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    assert ends == {TensorProto.FLOAT if keep else TensorProto.FLOAT16}
    assert [v.name for v in (*graph.input, *graph.output)] == ["x", "y"]
    assert dtypes_of(path)["MatMul"] == {TensorProto.FLOAT16}


def test_an_output_beyond_float16_stays_float32(tmp_path: Path) -> None:
    _, path = kept(one_input([node("Mul", "x k", "y")], array("k", np.float32(1e6))), tmp_path)
    np.testing.assert_allclose(run_file(path, [{"x": X}])[0]["y"], X * 1e6, rtol=1e-3)


def test_branches_and_inputs_that_are_float32_by_definition_are_fed_float32(tmp_path: Path) -> None:
    """An If whose branches read a narrow value, and a Resize, whose scales are float32 for every dtype."""
    taken = helper.make_graph([node("Neg", "a", "t")], "t", [], [info("t", None)])
    other = helper.make_graph([node("Exp", "a", "e")], "e", [], [info("e", None)])
    nodes = [
        node("Relu", "x", "a"),
        node("If", "flag", "b", then_branch=taken, else_branch=other),
        node("Resize", "b roi scales", "y", mode="linear"),
    ]
    weights = [array("roi", []), array("scales", [1, 1, 2, 2])]
    flag = info("flag", [], TensorProto.BOOL)
    proto = model(nodes, [info("x", ["n", 1, 4, 4]), flag], [info("y", ["n", 1, 8, 8])], weights)
    notes, path = kept(proto, tmp_path)
    assert "If: it has graphs of its own" in notes
    x = np.abs(RNG.normal(size=(2, 1, 4, 4))).astype(np.float16)
    got = run_file(path, [{"x": x, "flag": np.array(True)}])[0]["y"]
    assert (got.dtype, got.shape) == (np.float16, (2, 1, 8, 8))
    np.testing.assert_allclose(got[..., 0, 0], -x[..., 0, 0], rtol=1e-3)


def test_bfloat16_stores_weights_and_names_the_kernels_that_lack(tmp_path: Path) -> None:
    notes, path = kept(dense(), tmp_path, "bfloat16")
    assert "MatMul: onnxruntime has no kernel" in notes
    assert storage_of(path) == "bfloat16"
    got = run_file(path, [{"x": X}])[0]["y"]
    assert got.dtype == np.float32
    stored = W.astype(ml_dtypes.bfloat16).astype(np.float64)  # the bias is small, so narrowing it would save nothing
    hidden = np.exp(np.maximum(X.astype(np.float64) @ stored + W[0].astype(np.float64), 0))
    np.testing.assert_allclose(got, hidden / hidden.sum(-1, keepdims=True), rtol=1e-5)


WAYS = {
    "float16 values": (dense, {"dtype": "float16"}),
    "bfloat16": (dense, {"dtype": "bfloat16"}),
    "int8 weights, activations by tensor": (convolution, {"quantize": "int8"}),
    "int8 steps": (convolution, {"quantize": "int8", "calibrate": {"x": RNG.normal(size=(20, 3, 8, 8))}}),
    "int4 weights in blocks of 16": (dense, {"quantize": "int4", "block_size": 16}),
    "int4 weights in blocks of 32": (convolution, {"quantize": "int4"}),
    "int4 weights in blocks of 128": (dense, {"quantize": "int4", "block_size": 128, "zero_points": True}),
    "int4 weights and int8 activations in blocks of 32": (dense, {"quantize": "int4", "accuracy_level": "4"}),
    "int8 weights in blocks of 32": (convolution, {"quantize": "int8-weights"}),
    "int8 weights in blocks of 64": (dense, {"quantize": "int8-weights", "block_size": 64, "zero_points": True}),
    "int8 weights and int8 activations in blocks of 32": (dense, {"quantize": "int8-weights", "accuracy_level": "4"}),
}


@pytest.mark.parametrize("stored", WAYS)
def test_the_verdict_takes_what_the_bits_do_and_no_more(stored: str, tmp_path: Path) -> None:
    """The file as written passes; one with other weights (10 % more, or 20 % more in 4 bits) fails."""
    make, options = WAYS[stored]
    proto = make()
    path, _ = written(proto, tmp_path / "m.onnx", **options)
    assert storage_of(path) == stored
    graph, samples = read(proto), options.get("calibrate")
    feed = {"x": samples["x"].astype(np.float32) if samples else X if make is dense else RNG.normal(size=(4, 3, 8, 8))}
    feed = {n: a.astype(np.float32) for n, a in feed.items()}
    narrowed = simulate(graph, [feed], stored)
    exact, rounded = ([o["y"] for o in side] for side in (narrowed.exact, narrowed.rounded))

    def verdict(file: Path) -> Any:
        got = run_file(file, [feed])[0]["y"].astype(np.float32)
        return compare_narrow("y", NarrowOutput(exact, [r.astype(np.float32) for r in rounded], [got]))

    row = verdict(path)
    assert row.status == PASS, row.reason
    changed = onnx.load(path)
    by = {t.name: t for t in changed.graph.initializer}
    name = max((n for n in by if by[n].data_type in (1, 10, 16) and n[0] == "w"), key=lambda n: np.prod(by[n].dims))
    tensor = onnx.numpy_helper.to_array(by[name])
    factor = np.asarray(2 if "int4" in stored else 1.1, tensor.dtype)
    by[name].CopyFrom(onnx.numpy_helper.from_array((tensor * factor).astype(tensor.dtype), name))
    onnx.save(changed, tmp_path / "changed.onnx")
    assert verdict(tmp_path / "changed.onnx").status == FAIL


@pytest.mark.slow
@pytest.mark.parametrize(("quantize", "level"), [("int8-weights", "0"), ("int8-weights", "4"), ("int4", "4")])
def test_wrong_scales_and_zero_points_of_blocks_are_found(quantize: str, level: str, tmp_path: Path) -> None:
    """A file with other scales or zero points is FAIL; one wrong block of 96 is no PASS."""
    onnx.save(dense(), tmp_path / "dense.onnx")
    options = {"quantize": quantize, "accuracy_level": level, "zero_points": True}
    done = convert.convert(tmp_path / "dense.onnx", "onnx", tmp_path / "narrow.onnx", **options)
    assert done.verdict.status == PASS, done.verdict.reason
    again = convert.verify(tmp_path / "dense.onnx", tmp_path / "narrow.onnx")
    assert again.verdict.status == PASS, again.verdict.reason

    def verdict(name: str, change: Callable[[np.ndarray], np.ndarray], count: int | None) -> str:
        changed = onnx.load(tmp_path / "narrow.onnx")
        tensor = next(t for t in changed.graph.initializer if t.name == name)
        numbers = onnx.numpy_helper.to_array(tensor).copy()
        numbers.flat[:count] = change(numbers.flat[:count])
        tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, name))
        onnx.save(changed, tmp_path / "changed.onnx")
        return convert.verify(tmp_path / "dense.onnx", tmp_path / "changed.onnx").verdict.status

    factor = np.float32(1.1 if quantize == "int8-weights" else 2)
    shift = np.uint8(4 if quantize == "int8-weights" else 0x44)
    assert verdict("w_scales", lambda scales: scales * factor, None) == FAIL
    assert verdict("w_zero_points", lambda zeros: zeros ^ shift, None) == FAIL
    assert verdict("w_scales", lambda scales: scales * factor, 1) != PASS
    assert verdict("w_zero_points", lambda zeros: zeros ^ shift, 1) != PASS


def test_every_weight_of_8_bits_has_a_scale_for_each_channel(tmp_path: Path) -> None:
    path, _ = written(convolution(), tmp_path / "m.onnx", **WAYS["int8 steps"][1])
    graph = onnx.load(path).graph
    assert {"QuantizeLinear", "DequantizeLinear", "Conv", "Gemm"} <= {n.op_type for n in graph.node}
    sizes = {tuple(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT}
    assert {(4,), (10,)} <= sizes


def test_numbers_that_mask_something_out_have_no_steps(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x w", "a"),
        node("Greater", "a z", "c"),
        node("Where", "c a m", "b"),
        node("Softmax", "b", "y"),
    ]
    proto = one_input(nodes, array("w", W), array("z", np.float32(0)), array("m", np.float32(-3.4e38)))
    path, report = written(proto, tmp_path / "m.onnx", quantize="int8", calibrate={"x": X})
    assert any("beyond 65504: Softmax, Where" in n for n in report.notes)
    assert storage_of(path) == "int8 steps"
    narrowed = simulate(read(proto), [{"x": X}], "int8 steps")
    got = run_file(path, [{"x": X}])[0]["y"]
    row = compare_narrow(
        "y", NarrowOutput([narrowed.exact[0]["y"]], [narrowed.rounded[0]["y"].astype(np.float32)], [got])
    )
    assert row.status == PASS, row.reason
    assert row.error < 0.05


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dtype": "float16", "opset": 12}, "takes opset 13"),
        ({"quantize": "int8", "opset": 11}, "takes opset 13"),
        ({"quantize": "int4", "calibrate": {"x": X}}, "takes no --calibrate"),
        ({"quantize": "int8-weights", "opset": 12}, "takes opset 13"),
        ({"quantize": "int8", "calibrate": {"z": X}}, "calibration data is for z"),
        ({"quantize": "int8", "calibrate": {"x": X[:, :3]}}, "has shape"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        written(dense(), tmp_path / "m.onnx", **options)
    assert not list(tmp_path.iterdir())


def test_a_model_without_weights_has_nothing_to_quantize(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no weights"):
        written(one_input([node("Relu", "x", "y")]), tmp_path / "m.onnx", quantize="int8")


@pytest.mark.slow
def test_converted_in_float16_the_report_says_so_and_verify_agrees(tmp_path: Path) -> None:
    onnx.save(dense(), tmp_path / "dense.onnx")
    report = convert.convert(tmp_path / "dense.onnx", "onnx", tmp_path / "half.onnx", dtype="float16")
    assert (report.verdict.status, report.verdict.stored) == (PASS, "float16 values")
    assert [t.dtype for t in (*report.inputs, *report.outputs)] == ["float16", "float16"]
    again = convert.verify(tmp_path / "dense.onnx", tmp_path / "half.onnx")
    assert again.verdict.status == PASS, again.verdict.reason


@pytest.mark.slow
def test_the_root_logger_of_a_program_stays_as_it_is(tmp_path: Path) -> None:
    """onnxruntime's quantizer for 4 bits sets the root logger up when it is imported, once in a process."""
    onnx.save(dense(), tmp_path / "dense.onnx")
    program = (
        "import convert, logging\n"
        "convert.convert('dense.onnx', 'onnx', 'narrow.onnx', quantize='int4', verify=False)\n"
        "assert (logging.root.handlers, logging.root.level) == ([], logging.WARNING), logging.root.handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_options_without_what_they_belong_to_are_noted(tmp_path: Path) -> None:
    _, report = written(dense(), tmp_path / "m.onnx", keep_io=True, block_size=64)
    assert report.notes == [
        "--keep-io changes nothing without --dtype",
        "--block-size changes nothing without --quantize int4 or int8-weights",
    ]


@pytest.mark.parametrize(("operator", "loads"), [("Sigmoid", False), ("Reshape", True)])
def test_a_model_in_bfloat16_that_onnxruntime_does_not_load_is_told(operator: str, loads: bool, tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, [6]) for n in ("x", "y")]
    inputs = "x" if operator == "Sigmoid" else "x shape"
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [6])
    proto = model([node(operator, inputs, "y")], ends[:1], ends[1:], [shape] if loads else [])
    path, report = written(proto, tmp_path / "y.onnx")
    told = [note for note in report.notes if note.code == "missing-kernels"]
    assert told == [] if loads else operator in told[0]
    try:
        onnxruntime.InferenceSession(str(path))
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        assert not loads
    else:
        assert loads
