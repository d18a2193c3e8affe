"""The file layouts of a Caffe2 model and the profiles of its net all give ONNX Runtime's numbers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends import caffe2
from convert.backends.caffe2.executor.executor import execute
from convert.backends.caffe2.writer import writer
from convert.frontends import caffe2 as frontend
from convert.frontends.caffe2.runner import runner
from google.protobuf import text_format

from convert.errors import BadInput, Unsupported
from convert.files.caffe2 import caffe2_pb2 as pb
from convert.files.caffe2.folder import read_folder
from convert.files.caffe2.minidb import read_minidb
from convert.files.caffe2.netdef import net_of
from convert.files.sniff import sniff
from convert.graph import Graph
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source

needs_caffe2 = pytest.mark.skipif(
    not os.environ.get("CONVERT_CAFFE2_PYTHON"), reason="needs a real Caffe2: set CONVERT_CAFFE2_PYTHON"
)
LAYOUTS = ("nets", "metanet", "mobile", "database")


def residual() -> ir.Model:
    """Convolutions with the operators after them in residual networks: ReLU, addition, both, one output used twice."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return (random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["batch", 3, 16, 16])
    stem = g.Relu(g.Conv(x, weight(8, 3, 3, 3), weight(8, 1)[:, 0], pads=[1, 1, 1, 1]))
    pooled = g.MaxPool(stem, kernel_shape=[2, 2], strides=[2, 2])
    branch = g.Relu(g.Conv(pooled, weight(8, 8, 3, 3), weight(8, 1)[:, 0], pads=[1, 1, 1, 1]))
    joined = g.Relu(g.Add(g.Conv(branch, weight(8, 8, 1, 1)), pooled))
    wide = g.Conv(joined, weight(8, 8, 1, 1), weight(8, 1)[:, 0])
    once_more = g.Add(joined, g.Conv(g.Sigmoid(wide), weight(8, 8, 1, 1)))
    g.output(g.ReduceMean(once_more, [2, 3], keepdims=0), "mean")
    g.output(wide, "wide")
    return g.model()


def many_dtypes() -> ir.Model:
    """Weights of every dtype that Caffe2 has, one of them with more elements than a database record holds."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [3])
    for dtype in ("float64", "int32", "int64", "int16", "int8", "uint8", "uint16", "bool", "float16"):
        content = np.array([1, 0, 1.5 if dtype.startswith("float") else 100]).astype(dtype)
        value = g.const(content, name=f"w_{dtype}")
        g.output(g.Add(x, g.Cast(value, to=ir.DataType.FLOAT)), dtype)
    long = np.arange(1_200_000, dtype=np.float32)
    g.output(g.Add(x, g.Slice(g.const(long, name="long"), [1_100_000], [1_100_003])), "sliced")
    return g.model()


FEEDS = {
    "residual": {"x": np.random.default_rng(1).normal(size=(2, 3, 16, 16)).astype(np.float32)},
    "many_dtypes": {"x": np.array([0.5, -1, 2], np.float32)},
}
MODELS = {"residual": residual, "many_dtypes": many_dtypes}


def written(name: str, folder: Path, layout: str = "nets", profile: str = "plain") -> Path:
    path = folder / f"{name}.caffe2"
    options = Options(extra={"profile": profile, "caffe2_layout": layout.replace("database", "nets")})
    caffe2.write(MODELS[name](), path, "caffe2", options, Report("convert"))
    return path


def expected(name: str) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(ir.to_proto(MODELS[name]()).SerializeToString())
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, FEEDS[name]), strict=True))


# NNPACK multiplies 3×3 kernels by Winograd's transforms of 8×8 tiles. Their entries reach 21/4 and 1/180, and enlarge
# the rounding errors of the sums that they are applied to.
_WINOGRAD = 8


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray], enlarged: int = 1) -> None:
    assert list(got) == list(want)
    for name, array in want.items():
        # A few roundings of the result's size.
        bound = enlarged * 16 * 2.0**-24 * np.sqrt(np.mean(array.astype(np.float64) ** 2))
        assert got[name].shape == array.shape
        assert np.abs(got[name] - array).max() <= bound


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODELS)
def test_every_layout_holds_the_same_model(
    layout: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layout == "database":
        monkeypatch.setattr(writer, "_LARGEST", 100)  # as if the weights were too large for a message
    path = written(name, tmp_path, layout)
    assert sniff(path) == "caffe2"
    assert (path / "weights.minidb").exists() == (layout == "database")
    want = expected(name)
    (got,) = execute(path, [FEEDS[name]])
    assert_close(got, want)
    graph = frontend.read(Source("caffe2", path), Options(), Report("convert"))
    session = onnxruntime.InferenceSession(ir.to_proto(graph).SerializeToString())
    assert_close(dict(zip(want, session.run(list(want), FEEDS[name]), strict=True)), want)
    if runner.available():
        return
    (real,) = runner.run(Source("caffe2", path), [FEEDS[name]], precision="float32", options=Options())
    assert_close(real, want)


def test_a_mobile_net_fills_its_inputs_and_still_knows_them(tmp_path: Path) -> None:
    path = written("residual", tmp_path, "mobile")
    init = net_of(pb.NetDef.FromString((path / "init_net.pb").read_bytes()))
    assert "x" in init.written_blobs()
    assert read_folder(path).inputs == ("x",)


def test_the_metanet_is_one_database(tmp_path: Path) -> None:
    path = written("residual", tmp_path, "metanet")
    assert sorted(p.name for p in path.iterdir()) == ["predict_net.pbtxt", "predictor.minidb"]
    blobs = read_minidb(path / "predictor.minidb")
    meta = blobs["!!META_NET_DEF"]
    assert isinstance(meta, bytes)
    entries = {entry.key: list(entry.value) for entry in pb.MetaNetDef.FromString(meta).blobs}
    assert entries["INPUTS_BLOB_TYPE"] == ["x"]
    assert entries["OUTPUTS_BLOB_TYPE"] == ["mean", "wide"]
    assert set(entries["PARAMETERS_BLOB_TYPE"]) == set(blobs) - {"!!META_NET_DEF"}


@pytest.mark.parametrize("cut", [3, 9, 200])
def test_a_truncated_database_is_bad_input(cut: int, tmp_path: Path) -> None:
    path = written("residual", tmp_path, "metanet")
    file = path / "predictor.minidb"
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(BadInput):
        read_folder(path)


def test_a_net_may_not_load_from_elsewhere(tmp_path: Path) -> None:
    path = written("residual", tmp_path)
    init = pb.NetDef()
    load = init.op.add(type="Load", output=["w"])
    for key, value in (("db", "../other.minidb"), ("db_type", "minidb")):
        load.arg.add(name=key, s=value.encode())
    (path / "init_net.pb").write_bytes(init.SerializeToString())
    with pytest.raises(BadInput, match="not a file in it"):
        read_folder(path)


def operators(path: Path) -> list[str]:
    net = text_format.Parse((path / "predict_net.pbtxt").read_text(), pb.NetDef())
    return [op.type + (f" {op.engine}" if op.engine else "") for op in net.op]


def test_ideep_fuses_and_copies_at_the_boundary_only(tmp_path: Path) -> None:
    made = operators(written("residual", tmp_path, profile="ideep"))
    assert made.count("ConvFusion") == 4
    assert "Add" not in made
    # The input, the result of Sigmoid, the blob that it reads, and both ends.
    assert made.count("CopyCPUToIDEEP") == 2
    assert made.count("CopyIDEEPToCPU") == 2


def test_nnpack_is_an_engine(tmp_path: Path) -> None:
    made = operators(written("residual", tmp_path, profile="nnpack"))
    assert made.count("Conv NNPACK") == 5


@pytest.mark.slow
@needs_caffe2
@pytest.mark.caffe2
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("profile", ["nnpack", "ideep"])
def test_profiles_on_the_real_caffe2(
    profile: str, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layout == "database":
        monkeypatch.setattr(writer, "_LARGEST", 100)
    path = written("residual", tmp_path, layout, profile)
    (real,) = runner.run(Source("caffe2", path), [FEEDS["residual"]], precision="float32", options=Options())
    assert_close(real, expected("residual"), _WINOGRAD if profile == "nnpack" else 1)


def test_a_fused_net_is_read_back(tmp_path: Path) -> None:
    path = written("residual", tmp_path, profile="ideep")
    graph = frontend.read(Source("caffe2", path), Options(), Report("convert"))
    session = onnxruntime.InferenceSession(ir.to_proto(graph).SerializeToString())
    want = expected("residual")
    assert_close(dict(zip(want, session.run(list(want), FEEDS["residual"]), strict=True)), want)


def beyond_plain() -> ir.Model:
    """Return a graph of operators that become ATen operators if sizes are unknown."""
    g = Graph()
    matrices = g.input("matrices", ir.DataType.FLOAT, ["batch", "n", "n"])
    g.output(g.Det(matrices), "det")
    g.output(g.CumSum(matrices, 1), "sums")
    images = g.input("images", ir.DataType.FLOAT, ["batch", 2, "h", "w"])
    grid = g.input("grid", ir.DataType.FLOAT, ["batch", 3, 3, 2])
    for mode in ("linear", "nearest", "cubic"):
        g.output(g.GridSample(images, grid, mode=mode, padding_mode="border", align_corners=1), mode)
    return g.model()


@pytest.mark.slow
@needs_caffe2
@pytest.mark.caffe2
def test_aten_takes_sizes_that_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    feeds = {
        "matrices": random.normal(size=(2, 4, 4)).astype(np.float32),
        "images": random.normal(size=(2, 2, 5, 6)).astype(np.float32),
        "grid": random.uniform(-1.2, 1.2, (2, 3, 3, 2)).astype(np.float32),
    }
    monkeypatch.setitem(MODELS, "beyond_plain", beyond_plain)
    monkeypatch.setitem(FEEDS, "beyond_plain", feeds)
    with pytest.raises(Unsupported, match="Det"):
        written("beyond_plain", tmp_path / "plain")
    path = written("beyond_plain", tmp_path, profile="aten")
    assert set(operators(path)) == {"ATen"}
    with pytest.raises(Unsupported, match="CONVERT_CAFFE2_PYTHON"):
        execute(path, [feeds])
    (real,) = runner.run(Source("caffe2", path), [feeds], precision="float32", options=Options())
    assert_close(real, expected("beyond_plain"))
