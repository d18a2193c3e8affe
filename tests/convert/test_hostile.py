"""The command line on each kind of broken or hostile file: one paragraph, exit code 5, nothing changed."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from convert.cli import cli
from tests.support import hostile

pytestmark = pytest.mark.not_core

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def refused(source: Path, folder: Path, *args: str, code: int = 5, kept: str = "") -> Result:
    """Assert that `source` is refused with one paragraph and a hint, and that the existing output stays unchanged.

    The output is a SavedModel named `kept`, or a file.
    """
    output = folder / (kept or "kept.onnx")
    if kept:
        shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", output)
    else:
        output.write_bytes(hostile.OLD_ONNX)
    before = _contents(folder)
    done = CliRunner().invoke(cli, [str(source), "-o", str(output), "--force", *args])
    assert done.exit_code == code, done.output
    assert done.stderr.count("error: ") == 1
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert _contents(folder) == before
    return done


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_a_git_lfs_pointer(tmp_path: Path) -> None:
    assert "git lfs pull" in refused(hostile.lfs_pointer(tmp_path / "m.pt"), tmp_path).stderr


@pytest.mark.parametrize("name", hostile.foreign_files())
def test_a_file_that_is_no_model(name: str, tmp_path: Path) -> None:
    content, _, hint = hostile.foreign_files()[name]
    (tmp_path / "m.pt").write_bytes(content)
    assert hint in " ".join(refused(tmp_path / "m.pt", tmp_path).stderr.split())


@pytest.mark.parametrize("kind", ["parent", "absolute", "backslash", "drive", "twice", "link", "bomb", "overlap"])
@pytest.mark.parametrize("name", ["mnist_cnn.pt", "mnist_cnn.pt2", "mnist_cnn.keras", "mnist_cnn_traced.pt"])
def test_a_hostile_archive(name: str, kind: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(FIXTURES / name) as archive:
        entries = [(n, archive.read(n)) for n in archive.namelist()]
    refused(hostile.hostile_zip(kind, tmp_path, entries), tmp_path)


@pytest.mark.parametrize("name", hostile.pickles(Path("marker")))
@pytest.mark.parametrize("write", [hostile.write_torch_zip, hostile.write_torch_legacy], ids=["zip", "legacy"])
def test_a_pickle_that_executes_code(name: str, write: Callable[[Path, bytes], Path], tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    data, _ = hostile.pickles(marker)[name]
    refused(write(tmp_path / "m.pt", data), tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["mnist_cnn.onnx", "super_resolution.onnx", "mnist_cnn.keras", "mnist_cnn_frozen.pb"]
)  # test_pytorch_hostile covers PyTorch's files
def test_a_truncated_file(name: str, tmp_path: Path) -> None:
    content = (FIXTURES / name).read_bytes()
    for length in (len(content) - 1, len(content) // 2, 100):
        (tmp_path / name).write_bytes(content[:length])
        refused(tmp_path / name, tmp_path)


@pytest.mark.parametrize(
    "member", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
def test_a_savedmodel_with_a_part_that_is_cut_or_missing(member: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", tmp_path / "m.savedmodel"))
    content = (folder / member).read_bytes()
    (folder / member).write_bytes(content[: len(content) // 2])
    refused(folder, tmp_path)
    (folder / member).unlink()
    refused(folder, tmp_path)


def test_a_savedmodel_with_a_link_that_leaves_it(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", tmp_path / "m.savedmodel"))
    hostile.leaving_link(folder / "variables" / "variables.index", tmp_path / "secret")
    refused(folder, tmp_path)


def test_a_frozen_graph_that_touches_files_or_python(tmp_path: Path) -> None:
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef.FromString((FIXTURES / "mnist_cnn_frozen.pb").read_bytes())
    last = graph.node[-1].name
    graph.node.add(name="read", op="ReadFile", input=[last])
    graph.node.add(name="call", op="PyFunc", input=["read"])
    (tmp_path / "m.pb").write_bytes(graph.SerializeToString())
    told = refused(tmp_path / "m.pb", tmp_path, "--outputs", "call").stderr
    assert "ReadFile" in told
    assert "PyFunc" in told


@pytest.mark.parametrize("name", ["Lambda", "TFSMLayer"])
def test_a_keras_configuration_that_names_code(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(FIXTURES / "mnist_cnn.keras") as old, zipfile.ZipFile(tmp_path / "m.keras", "w") as new:
        for member in old.namelist():
            data = old.read(member)
            if member == "config.json":
                config = json.loads(data)
                config["config"]["layers"].append({"module": "keras.layers", "class_name": name, "config": {}})
                data = json.dumps(config).encode()
            new.writestr(member, data)
    assert f"keras.layers.{name}" in refused(tmp_path / "m.keras", tmp_path).stderr


@pytest.mark.slow
def test_an_hdf5_file_that_links_to_others(tmp_path: Path) -> None:
    import h5py
    import keras

    keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]).save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file["model_weights"]["more"] = h5py.ExternalLink("/etc/passwd", "/")
    refused(tmp_path / "m.h5", tmp_path)


def _onnx(*, dims: tuple[int, ...] = (2,), location: str = "", body: tuple[str, ...] = ("Add",)) -> bytes:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    del weight.dims[:]
    weight.dims.extend(dims)
    if location:
        weight.ClearField("float_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    nodes = [
        helper.make_node(op, ["x", "w"] if i == 0 else [f"h{i}"], [f"h{i + 1}" if i < len(body) - 1 else "y"],
                         domain="" if op == "Add" else "mine", name=f"layer{i}")
        for i, op in enumerate(body)
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [weight])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


@pytest.mark.parametrize(
    "content",
    [
        _onnx(location="../secret"),
        _onnx(location="/etc/hostname"),
        _onnx(location="absent.bin"),
        _onnx(dims=(1 << 40,)),
    ],
    ids=["parent", "absolute", "absent", "size"],
)
def test_onnx_data_that_lie_elsewhere_or_lie_about_their_size(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(8))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(content)
    refused(folder / "m.onnx", tmp_path)


def test_onnx_functions_that_expand_without_end(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]

    def function(name: str, calls: str) -> onnx.FunctionProto:
        names = ["a", *(f"t{i}" for i in range(9)), "b"]
        nodes = [
            helper.make_node(calls, [names[i]], [names[i + 1]], domain="" if calls == "Relu" else "mine")
            for i in range(10)
        ]
        return helper.make_function("mine", name, ["a"], ["b"], nodes, imports)

    functions = [function("F0", "Relu"), *(function(f"F{i}", f"F{i - 1}") for i in range(1, 30))]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("F29", ["x"], ["y"], domain="mine")], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    refused(tmp_path / "m.onnx", tmp_path)


@pytest.mark.parametrize(("target", "kept"), [("tf", "kept.savedmodel"), ("caffe2", "kept.caffe2")])
def test_unsupported_operators_are_listed_all_at_once_by_the_backend(target: str, kept: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(_onnx(body=("Add", "Odd", "Strange", "Odd")))
    told = refused(tmp_path / "m.onnx", tmp_path, "--to", target, code=4, kept=kept).stderr
    for word in ("mine::Odd", "mine::Strange", "layer1", "layer2", "1 more like it"):
        assert word in told


FACTORY = """
import torch
from torch import nn


class Window(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x @ x.mT).abs()


class Fill(nn.Module):
    def forward(self, x):
        return torch.poisson(x @ x.mT)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(4, 4)
        self.window = Window()
        self.fill = Fill()

    def forward(self, x):
        return self.fill(self.window(self.front(x)))


def build():
    return Net()
"""


def test_unsupported_operators_are_listed_all_at_once_with_module_paths_by_the_frontend(tmp_path: Path) -> None:
    import torch

    (tmp_path / "odd_net.py").write_text(FACTORY)
    names = {"front.weight": torch.eye(4), "front.bias": torch.zeros(4)}
    torch.save(names, tmp_path / "m.pt")
    told = refused(
        tmp_path / "m.pt",
        tmp_path,
        "--model",
        f"{tmp_path / 'odd_net.py'}:build",
        "--input",
        "x:float32[2,4,4]",
        code=4,
    ).stderr
    for word in ("linalg_eigvals", "poisson", "window", "fill", "odd_net.py"):
        assert word in told, told


def test_a_disk_that_is_full_leaves_the_old_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from convert import plugin

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plugin.backend_for("onnx"), "write", full)
    assert "the disk is full" in refused(FIXTURES / "mnist_cnn.onnx", tmp_path, code=6).stderr
