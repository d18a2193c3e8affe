"""PyTorch files that are broken, hostile or lack a description, on the command line: one paragraph, no output."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from convert import api
from convert.cli import cli
from tests.suites.hostile_files.pickle_files import sparse_tensors
from tests.support import hostile
from tests.support.pytorch_tools import FACTORY, Call, Own

ROOT = Path(__file__).resolve().parents[4]
FIXTURES = ROOT / "fixtures"


def refused(source: Path, code: int, words: str, folder: Path, *args: str) -> None:
    """Assert that `convert` refuses `source` with one paragraph and a hint, and leaves the existing output
    unchanged.
    """
    output = folder / "kept.onnx"
    output.write_bytes(hostile.OLD_ONNX)
    before = sorted(folder.iterdir())
    done = CliRunner().invoke(cli, [str(source), "-o", str(output), "--force", *args])
    assert done.exit_code == code, done.output
    assert words in " ".join(done.stderr.split())
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert output.read_bytes() == hostile.OLD_ONNX
    assert sorted(folder.iterdir()) == before


KINDS = [
    "mnist_cnn.pt",
    "mnist_cnn_state.pt",
    "mnist_cnn.safetensors",
    "mnist_cnn.pt2",
    "mnist_cnn_traced.pt",
]


@pytest.mark.parametrize("name", KINDS)
def test_a_truncated_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes((FIXTURES / name).read_bytes()[:-2000])
    refused(path, 5, name, tmp_path, "--model", FACTORY)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_with_changed_bytes(name: str, tmp_path: Path) -> None:
    """Any damage gives an error of convert's own; changes of weights cannot be detected."""
    for path in hostile.mutations(FIXTURES / name, tmp_path, 4):
        done = CliRunner().invoke(cli, [str(path), "-o", str(tmp_path / "m.onnx"), "--dry-run", "--model", FACTORY])
        assert done.exit_code in (0, 5), done.output
        assert "Traceback" not in done.stderr


def test_torchscript_with_damaged_debug_information(tmp_path: Path) -> None:
    """PyTorch reads this information when the line of a node is requested."""
    with (
        zipfile.ZipFile(FIXTURES / "mnist_cnn_scripted.pt") as old,
        zipfile.ZipFile(tmp_path / "m.pt", "w") as new,
    ):
        for entry in old.infolist():
            data = old.read(entry)
            new.writestr(entry, bytes(len(data)) if entry.filename.endswith(".debug_pkl") else data)
    refused(tmp_path / "m.pt", 5, "debug information", tmp_path)


def save_evil(path: Path, marker: Path, legacy: bool) -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    module.surprise = Call(open, str(marker), "w")
    torch.save(module, path, _use_new_zipfile_serialization=not legacy)


def save_own(path: Path, marker: Path, legacy: bool) -> None:
    torch.save(Own(), path, _use_new_zipfile_serialization=not legacy)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize(("save", "words"), [(save_evil, "open"), (save_own, "pytorch_tools.Own")])
def test_a_pickle_of_more_than_layers(
    save: Callable[[Path, Path, bool], None], words: str, legacy: bool, tmp_path: Path
) -> None:
    marker = tmp_path / "executed"
    save(tmp_path / "m.pt", marker, legacy)
    refused(tmp_path / "m.pt", 5, words, tmp_path)
    assert not marker.exists()


class Saves(nn.Module):
    """Writes a file from inside TorchScript, which has an operator for this."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = str(path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.path)
        return x


def test_torchscript_that_writes_files(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    torch.jit.script(Saves(marker)).save(str(tmp_path / "m.pt"))
    refused(tmp_path / "m.pt", 5, "calls save", tmp_path, "--input", "x:float32[2]")
    assert not marker.exists()


@pytest.mark.parametrize("args", [(), ("--trust",)])
def test_a_flipped_bit_is_noticed_in_files_that_are_trusted_too(args: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save(nn.Sequential(nn.Linear(4, 2)), path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("m/data/0")
    weights = data.index(b"m/data/0", entry.header_offset) + 200
    data[weights - weights % 64] ^= 1
    path.write_bytes(data)
    refused(path, 5, "has changed since it was written", tmp_path, "--input", "x:float32[2,4]", *args)


def test_weights_without_their_code(tmp_path: Path) -> None:
    for name in ("mnist_cnn_state.pt", "mnist_cnn.safetensors"):
        refused(FIXTURES / name, 2, "weights only", tmp_path)
        refused(FIXTURES / name, 2, "--model nowhere:build", tmp_path, "--model", "nowhere:build")


def test_weights_of_another_network(tmp_path: Path) -> None:
    torch.save(nn.Linear(3, 2).state_dict(), tmp_path / "other.pt")
    refused(tmp_path / "other.pt", 5, "missing:", tmp_path, "--model", FACTORY)
    state = torch.load(FIXTURES / "mnist_cnn_state.pt", weights_only=True)
    state["fc2.bias"] = torch.zeros(11)
    torch.save(state, tmp_path / "shape.pt")
    refused(tmp_path / "shape.pt", 5, "size mismatch for fc2.bias", tmp_path, "--model", FACTORY)


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("mnist_cnn.pt", "float32[batch,3,28,28]", "does not run on inputs as described"),
        ("mnist_cnn.pt", "input:float32[batch,784]", "does not run on inputs as described"),
        ("mnist_cnn.pt", "image:float32[batch,1,28,28]", "no input 'image'"),
        ("mnist_cnn_scripted.pt", "image:float32[batch,1,28,28]", "no input 'image'"),
        ("mnist_cnn.pt2", "image:float32[batch,1,28,28]", "no input 'image'"),
        ("mnist_cnn.pt2", "input:float32[batch,3,28,28]", "does not fit"),
        ("mnist_cnn.pt2", "input:int64[batch,1,28,28]", "does not fit"),
        ("mnist_cnn_scripted.pt", "input:float32[batch,3,28,28]", "does not run on inputs as described"),
    ],
)
def test_inputs_that_do_not_fit(name: str, spec: str, words: str, tmp_path: Path) -> None:
    refused(FIXTURES / name, 2, words, tmp_path, "--input", spec)


def _with_statement(folder: Path, statement: str) -> Path:
    """Return a scripted module whose forward begins with a statement."""
    scripted = FIXTURES / "mnist_cnn_scripted.pt"
    with zipfile.ZipFile(scripted) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    code = next(name for name in content if name.endswith("container.py"))
    content[code] = content[code].replace(b") -> Tensor:\n", b") -> Tensor:\n    " + statement.encode() + b"\n", 1)
    return hostile.write_zip(folder / "m.pt", list(content.items()))


@pytest.mark.parametrize("name", ["PythonOp", "FusionGroup", "IgnoredPythonOp", "rpc_async"])
def test_operators_that_pytorch_puts_into_graphs_itself(name: str, tmp_path: Path) -> None:
    """The first crashes PyTorch with SIGSEGV."""
    refused(_with_statement(tmp_path, f'_0 = ops.prim.{name}("x")'), 5, f"calls prim.{name}", tmp_path)


@pytest.mark.parametrize(
    "statement",
    ['_0 = getattr(ops, "image").write_file("x", input)', "_0 = ops", "_0 = ops.image", '_0 = ops.aten; _0.write("x")',
     '_0 = getattr(ops.prim, "rpc_async")("x")', '_0 = getattr(torch, "ops")'],
)  # fmt: skip
def test_operators_by_another_name_than_their_own(statement: str, tmp_path: Path) -> None:
    refused(_with_statement(tmp_path, statement), 5, "could act on files or the network", tmp_path)


def test_an_exported_program_of_other_operators_is_told_in_one_paragraph(tmp_path: Path, capfd: Any) -> None:
    """PyTorch logs the traceback besides."""
    with zipfile.ZipFile(FIXTURES / "mnist_cnn.pt2") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    place = next(name for name in content if name.endswith("models/model.json"))
    content[place] = content[place].replace(b"torch.ops.aten.relu.default", b"torch.ops.aten.gone.default")
    path = hostile.write_zip(tmp_path / "m.pt2", list(content.items()))
    refused(path, 5, "could not be read as an exported program", tmp_path)
    assert "Traceback" not in capfd.readouterr().err


def test_weights_of_an_exported_program_without_bytes(tmp_path: Path) -> None:
    """PyTorch silently uses zeros for them."""
    with zipfile.ZipFile(FIXTURES / "mnist_cnn.pt2") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["mnist_cnn/data/weights/weight_2"] = b""
    path = hostile.write_zip(tmp_path / "m.pt2", list(content.items()))
    refused(path, 5, "the values of conv2.weight are not in it", tmp_path)
    torch.export.save(torch.export.export(torch.nn.Linear(3, 0), (torch.ones(2, 3),)), path)
    api.inspect(path)  # a weight without elements has no bytes


@pytest.mark.parametrize("place", ["data/aotinductor/model/c.wrapper.so", "data/aotinductor/x/y.cpp"])
def test_libraries_in_an_exported_program_are_not_loaded(place: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(FIXTURES / "mnist_cnn.pt2") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content[f"mnist_cnn/{place}"] = b"\x7fELF"
    path = hostile.write_zip(tmp_path / "m.pt2", list(content.items()))
    refused(path, 5, "holds code that AOTInductor compiled", tmp_path)


@pytest.mark.parametrize("name", ["mnist_cnn_scripted.pt", "mnist_cnn_traced.pt"])
def test_debug_information_that_points_beyond_its_texts(name: str, tmp_path: Path) -> None:
    """PyTorch reads beyond the list, and crashes by SIGSEGV or shows what it finds."""
    with zipfile.ZipFile(FIXTURES / name) as archive:
        content = {entry: archive.read(entry) for entry in archive.namelist()}
    for entry in [e for e in content if e.endswith(".debug_pkl")]:
        first, _, rest = content[entry].partition(b"]")  # the first list of positions; then MARK and BININT1 of 1
        content[entry] = first + b"]" + rest.replace(b"(K", b"(K\xffK", 1)
    refused(hostile.write_zip(tmp_path / "m.pt", list(content.items())), 5, "source range begins in text 255", tmp_path)


@pytest.mark.parametrize("name", [name for name in sparse_tensors() if "size of" not in name])
def test_indices_of_sparse_weights_lie_inside(name: str, tmp_path: Path) -> None:
    data, storages = sparse_tensors()[name]
    path = hostile.write_torch_zip(tmp_path / "m.pt", data, storages)
    refused(path, 5, "could not be loaded: RuntimeError", tmp_path, "--model", FACTORY)


@pytest.mark.parametrize("table", ["_modules", "_parameters", "_buffers"])
def test_parts_of_a_module_that_are_no_table(table: str, tmp_path: Path) -> None:
    layer = nn.Linear(2, 2)
    layer.__dict__[table] = ["x"]
    torch.save(layer, tmp_path / "m.pt")
    refused(tmp_path / "m.pt", 5, "holds a module without its parts", tmp_path, "--input", "float32[1,2]")


@pytest.mark.parametrize(
    ("layer", "attribute", "value", "words"),
    [
        (nn.LSTM(4, 4), "hidden_size", False, "states of 0 features, and weights for 4"),
        (nn.LSTM(4, 4, proj_size=2), "proj_size", 3, "states of 3 features, and weights for 2"),
        (nn.LSTM(4, 4, proj_size=2), "hidden_size", 3, "states of 3 features, and weights for 4"),
        (nn.GRU(4, 4), "hidden_size", 8, "states of 8 features, and weights for 4"),
        (nn.RNN(4, 4), "hidden_size", 8, "states of 8 features, and weights for 4"),
        (nn.Conv1d(3, 4, 2), "dilation", (0,), "the dilation [0]"),
        (nn.ConvTranspose1d(3, 4, 2), "dilation", (0,), "the dilation [0]"),
    ],
)
def test_attributes_that_contradict_the_weights(
    layer: nn.Module, attribute: str, value: object, words: str, tmp_path: Path
) -> None:
    """PyTorch checks these attributes in the kernels only, or not at all: an LSTM without features ends the process."""
    layer.__dict__[attribute] = value
    torch.save(layer, tmp_path / "m.pt")
    refused(tmp_path / "m.pt", 5, words, tmp_path, "--input", "float32[2,3,4]")
