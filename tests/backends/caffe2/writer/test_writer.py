"""The Caffe2 backend writes nets that the real Caffe2 reads, and refuses the rest."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends import caffe2
from convert.backends.caffe2.writer.fills import fill_operators
from convert.backends.caffe2.writer.minidb import write_tensor
from convert.frontends import onnx as onnx_frontend
from convert.frontends.caffe2.runner import runner
from google.protobuf import text_format

from convert.errors import BadInput, ConvertError, Unsupported
from convert.files.caffe2 import caffe2_pb2 as pb
from convert.files.caffe2.folder import read_folder
from convert.graph import Graph
from convert.graph.tensors import lazy_tensor
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source

needs_caffe2 = pytest.mark.skipif(
    not os.environ.get("CONVERT_CAFFE2_PYTHON"), reason="needs a real Caffe2: set CONVERT_CAFFE2_PYTHON"
)


def written(model: ir.Model, folder: Path, name: str = "model") -> Path:
    path = folder / f"{name}.caffe2"
    caffe2.write(model, path, "caffe2", Options(), Report("convert"))
    return path


def read(path: Path) -> pb.NetDef:
    return pb.NetDef.FromString(path.read_bytes())


def run(path: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    (outputs,) = runner.run(Source("caffe2", path), [feeds], precision="float32", options=Options())
    return outputs


def convolution(weights_first: bool = False) -> ir.Model:
    """A model with two inputs, one of them used by the second operator only, and two weights."""
    g = Graph()
    a = g.input("a", ir.DataType.FLOAT, ["batch", 3, 8, 8])
    b = g.input("b", ir.DataType.FLOAT, ["batch", 4, 1, 1])
    w = g.const(np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32), name="w")
    bias = g.const(np.arange(4, dtype=np.float32), name="bias")
    y = g.Conv(a, w, bias)
    g.output(g.Mul(b, y) if weights_first else g.Mul(y, b), "product")
    g.output(g.GlobalAveragePool(y), "mean")
    return g.model()


def test_files_are_complete_and_their_text_says_the_same(tmp_path: Path) -> None:
    path = written(convolution(), tmp_path)
    assert sorted(p.name for p in path.iterdir()) == [
        "init_net.pb", "init_net.pbtxt", "predict_net.pb", "predict_net.pbtxt",
    ]  # fmt: skip
    for name in ("init_net", "predict_net"):
        assert text_format.Parse((path / f"{name}.pbtxt").read_text(), pb.NetDef()) == read(path / f"{name}.pb")


def test_data_inputs_come_first_and_the_lists_are_complete(tmp_path: Path) -> None:
    path = written(convolution(weights_first=True), tmp_path)
    init, predict = read(path / "init_net.pb"), read(path / "predict_net.pb")
    assert list(predict.external_input) == ["a", "b", "w", "bias"]
    assert list(predict.external_output) == ["product", "mean"]
    assert list(init.external_output) == ["w", "bias"]
    made = {o for op in predict.op for o in op.output}
    assert {i for op in predict.op for i in op.input} - made <= set(predict.external_input)
    assert all(op.name == "" for op in (*init.op, *predict.op))


def test_an_unused_input_stays_an_input(tmp_path: Path) -> None:
    g = Graph()
    x, unused = (g.input(name, ir.DataType.FLOAT, [2]) for name in ("x", "unused"))
    g.output(g.Relu(x), "y")
    assert unused.name == "unused"
    assert list(read(written(g.model(), tmp_path) / "predict_net.pb").external_input) == ["x", "unused"]


def test_the_signature_is_kept_for_who_reads_the_net_again(tmp_path: Path) -> None:
    predict = read(written(convolution(), tmp_path) / "predict_net.pb")
    kept = {arg.name: [s.decode() for s in arg.strings] for arg in predict.arg}
    assert kept["convert_inputs"] == ["a:float32[batch,3,8,8]", "b:float32[batch,4,1,1]"]
    assert kept["convert_outputs"][1] == "mean:float32[batch,4,1,1]"


@pytest.mark.parametrize(
    ("name", "dim", "wanted"),
    [
        ("x", "batch size", "dim_batch_size"),
        ("x", "past + new", "dim_past___new"),
        ("x", "past+new", "past+new"),
        ("x", "a,b", "dim_a_b"),
        ("x", "1", "dim_1"),
        ("x", "a=1..2", "dim_a_1__2"),
        ("x", "a]:b[", "dim_a__b_"),
        ("x", "ü", "dim__"),
        ("x[0]", "n", "n"),
        ("a:b", "n", "n"),
        ("x:float32[3]", "n", "n"),
        (" x", "n", "n"),
        ("[1,2]", "n", "n"),
        ("a\nb", "n", "n"),
    ],
)
def test_any_names_of_inputs_and_dims_can_be_read_again(tmp_path: Path, name: str, dim: str, wanted: str) -> None:
    g = Graph()
    x, other = g.input(name, ir.DataType.FLOAT, [dim, 3]), g.input("other", ir.DataType.FLOAT, [dim, 3])
    g.output(g.Add(x, other), "y")
    path = written(g.model(), tmp_path)
    described = read_folder(path).described_inputs()
    assert {n: [str(d) for d in spec.shape or ()] for n, spec in described.items()} == {
        name: [wanted, "3"], "other": [wanted, "3"]
    }  # fmt: skip


def test_everything_that_caffe2_lacks_is_listed_at_once(tmp_path: Path) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [2, 3])
    d = g.ImageDecoder(g.input("m", ir.DataType.UINT8, ["bytes"]))
    g.output(g.Add(d, d), "pixels")
    g.output(g.Cast(x, to=ir.DataType.BFLOAT16), "narrow")
    for name in ("one", "two"):
        g.output(g.StringConcat(g.input(f"{name}_s", ir.DataType.STRING, [1]), ["!"]), name)
    with pytest.raises(Unsupported) as caught:
        written(g.model(), tmp_path)
    text = str(caught.value)
    for part in ("ImageDecoder", "StringConcat", "bfloat16", "string", "and 1 more like it"):
        assert part in text
    assert list(tmp_path.iterdir()) == []


def test_attributes_that_no_rule_handles_are_all_listed_too() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["n", 2, "h", "w"])
    g.output(g.MaxPool(x, kernel_shape=[2, 2], dilations=[2, 2]), "a")
    g.output(g.Exp(g.Cast(x, to=ir.DataType.DOUBLE)), "b")
    model = g.model()
    before = str(model)
    with pytest.raises(Unsupported) as caught:
        caffe2.check(model, "caffe2", Options())
    assert len(caught.value.problems) == 2
    assert str(model) == before


def test_weights_past_the_limit_of_a_message_are_no_obstacle() -> None:
    """Weights beyond the limit of a message go to a database beside the nets (`test_layouts.py`). Checking does not
    read them.
    """
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["n", 1 << 15])
    huge = lazy_tensor(ir.DataType.FLOAT, [1 << 15, 1 << 15], lambda: pytest.fail("the weights were read"))
    g.output(g.MatMul(x, g.const(huge)), "y")
    caffe2.check(g.model(), "caffe2", Options())


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_transposed_weights_are_written_in_their_own_order(dtype: type, tmp_path: Path) -> None:
    """Large matrices are written some rows at a time, whichever of their axes is contiguous."""
    shape = (1500, 1100) if dtype == np.float32 else (12, 7)
    matrix = np.arange(shape[0] * shape[1]).astype(dtype).reshape(shape).T
    tensor = lazy_tensor(ir.DataType.from_numpy(np.dtype(dtype)), matrix.shape, lambda: matrix, "w")
    with (tmp_path / "fills.pb").open("wb") as fills, (tmp_path / "records").open("wb") as records:
        sizes = sum(fill.write(fills) for fill in fill_operators("w", tensor)), write_tensor(records, "w", tensor)
    assert sizes == ((tmp_path / "fills.pb").stat().st_size, (tmp_path / "records").stat().st_size)
    (op,) = pb.NetDef.FromString((tmp_path / "fills.pb").read_bytes()).op
    values = next(argument for argument in op.arg if argument.name == "values")
    np.testing.assert_array_equal(np.array(values.floats or values.ints, dtype), matrix.ravel())
    again = tmp_path / "again"
    with again.open("wb") as file:
        write_tensor(file, "w", ir.tensor(np.ascontiguousarray(matrix)))
    assert again.read_bytes() == (tmp_path / "records").read_bytes()


def test_float64_is_refused_by_the_runner() -> None:
    with pytest.raises(Unsupported, match="float64"):
        runner.run(Source("caffe2", Path()), [], precision="float64", options=Options())


def test_a_folder_without_nets_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"init_net\.pb"):
        run(tmp_path, {})


@pytest.mark.caffe2
@needs_caffe2
class TestRealCaffe2:
    """Facts that only the real Caffe2 can confirm."""

    def test_our_field_numbers_and_types_are_its_own(self) -> None:
        theirs = json.loads(_python(_DESCRIBE))
        checked = 0
        for message, fields in _described(pb.DESCRIPTOR.message_types_by_name.values()).items():
            for name, described in fields.items():
                assert theirs[message][name] == described, f"{message}.{name}"
                checked += 1
        assert checked > 70

    @pytest.mark.slow
    def test_weights_of_every_dtype_arrive_exactly(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        info = {kind: np.iinfo(kind) for kind in ("int8", "uint8", "int16", "uint16", "int32", "int64")}
        weights: dict[str, np.ndarray] = {kind: np.array([i.min, 0, 7, i.max], kind) for kind, i in info.items()}
        weights["bool"] = np.array([True, False])
        weights["float32"] = np.array([0.0, -0.0, 1e-45, 3.4e38, np.inf, -np.inf, np.nan, 0.1], np.float32)
        weights["float16"] = rng.normal(size=(2, 3)).astype(np.float16)
        odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1 / 3, -1e-300, 1e300, 5e-324]
        weights["float64"] = np.array([*odd, *rng.normal(size=50)])
        weights["scalar"] = np.array(2.5, np.float32)
        weights["empty"] = np.zeros((0, 3), np.float32)
        g = Graph()
        g.output(g.Relu(g.input("x", ir.DataType.FLOAT, [1])), "y")
        for name, array in weights.items():
            g.output(g.const(array, name=f"w_{name}"), name)
        got = run(written(g.model(), tmp_path), {"x": np.ones(1, np.float32)})
        for name, array in weights.items():
            assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
            assert got[name].tobytes() == array.tobytes(), name

    @pytest.mark.slow
    def test_the_predictor_binds_inputs_by_position(self, tmp_path: Path) -> None:
        path = written(convolution(weights_first=True), tmp_path)
        rng = np.random.default_rng(1)
        a, b = (rng.normal(size=s).astype(np.float32) for s in ((2, 3, 8, 8), (2, 4, 1, 1)))
        np.savez(tmp_path / "in.npz", a=a, b=b)
        _python(_PREDICT, str(path), str(tmp_path))
        want = run(path, {"a": a, "b": b})
        with np.load(tmp_path / "out.npz") as got:
            np.testing.assert_array_equal(got["arr_0"], want["product"])
            np.testing.assert_array_equal(got["arr_1"], want["mean"])

    @pytest.mark.slow
    def test_a_net_that_kills_the_process_says_so_and_spares_the_others(self, tmp_path: Path) -> None:
        g = Graph()
        a, b = (g.input(name, ir.DataType.INT32, ["n"]) for name in "ab")
        g.output(g.Div(a, b), "y")
        path = written(g.model(), tmp_path)
        feeds: list[dict[str, Any]] = [{"a": np.array([6], np.int32), "b": np.array([d], np.int32)} for d in (3, 0, 2)]
        three, death, two = runner.run_jobs([runner.Job(path, feed) for feed in feeds])
        assert not isinstance(three, ConvertError)
        assert not isinstance(two, ConvertError)
        assert (three["y"].tolist(), two["y"].tolist()) == ([2], [3])
        assert isinstance(death, ConvertError)
        assert "died" in str(death)
        assert "division by zero" in str(death)

    @pytest.mark.slow
    def test_branches_of_an_if(self, tmp_path: Path) -> None:
        g = Graph()
        x, flag = g.input("x", ir.DataType.FLOAT, ["n", 3]), g.input("flag", ir.DataType.BOOL, [])
        w = g.const(np.arange(3, dtype=np.float32), name="w")
        then, other = g.body("then"), g.body("else")
        then.output(then.Add(then.Relu(x), w), "then_y")
        other.output(other.Neg(x), "else_y")
        y = g.If(flag, then_branch=then, else_branch=other)
        g.output(g.facts(y, ir.DataType.FLOAT, ["n", 3]), "y")
        path = written(g.model(), tmp_path)
        data = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
        got = [run(path, {"x": data, "flag": np.array(flag)})["y"] for flag in (True, False)]
        np.testing.assert_array_equal(got[0], np.maximum(data, 0) + np.arange(3, dtype=np.float32))
        np.testing.assert_array_equal(got[1], -data)

    @pytest.mark.slow
    def test_wrong_inputs_are_an_error_with_its_message(self, tmp_path: Path) -> None:
        path = written(convolution(), tmp_path)
        with pytest.raises(ConvertError, match="the net takes"):
            run(path, {"a": np.zeros((1, 3, 8, 8), np.float32)})

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("file", "shapes"),
        [
            ("mnist_cnn.onnx", [(1, 1, 28, 28), (5, 1, 28, 28)]),
            ("super_resolution.onnx", [(1, 1, 7, 12), (3, 1, 1, 1), (2, 1, 20, 9)]),
        ],
    )
    def test_fixtures_keep_their_dynamic_dims(
        self, file: str, shapes: list[tuple[int, ...]], fixtures: Path, tmp_path: Path
    ) -> None:
        source = Source("onnx", fixtures / file)
        path = written(onnx_frontend.read(source, Options(), Report("convert")), tmp_path)
        session = onnxruntime.InferenceSession(fixtures / file)
        (name,) = (i.name for i in session.get_inputs())
        for shape in shapes:
            feeds = {name: np.random.default_rng(0).random(shape, dtype=np.float32)}
            (want,), (got,) = session.run(None, feeds), run(path, feeds).values()
            assert got.shape == want.shape
            # Both round in float32, so their difference is a few roundings of the result's size.
            assert np.sqrt(np.mean((got - want) ** 2)) <= 8 * 2.0**-24 * np.sqrt(np.mean(want**2))


_DESCRIBE = """
import json, sys
from caffe2.proto import caffe2_pb2, metanet_pb2
def fields(message):
    return {f.name: [f.number, f.type, f.label == f.LABEL_REPEATED] for f in message.fields}
print(json.dumps({m.name: fields(m) for module in (caffe2_pb2, metanet_pb2)
                  for m in module.DESCRIPTOR.message_types_by_name.values()}))
"""

_PREDICT = """
import sys
import numpy as np
from caffe2.python import workspace
init, predict = (open(sys.argv[1] + "/" + name, "rb").read() for name in ("init_net.pb", "predict_net.pb"))
with np.load(sys.argv[2] + "/in.npz") as data:
    outputs = workspace.Predictor(init, predict).run([data["a"], data["b"]])
np.savez(sys.argv[2] + "/out.npz", *outputs)
"""


def _described(messages: Any) -> dict[str, dict[str, list[Any]]]:
    return {message.name: {f.name: [f.number, f.type, _repeated(f)] for f in message.fields} for message in messages}


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _python(code: str, *arguments: str) -> str:
    command = [os.environ["CONVERT_CAFFE2_PYTHON"], "-I", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
