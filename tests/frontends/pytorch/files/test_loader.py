"""Files that PyTorch wrote: each gives its numbers, and none executes its own code."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.runner import runner
from torch import nn

from convert.errors import BadInput, ResourceLimit, UnsafeInput, UsageError
from convert.files.sniff import sniff
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support import hostile
from tests.support.pytorch_tools import FACTORY, FILES, Call, Own, agrees, noise, read, run, shape_of

# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_mnist_network_gives_its_numbers(name: str, fixtures: Path) -> None:
    path = fixtures / name
    model = read(path, model=FACTORY)
    assert [shape_of(v) for v in model.graph.inputs] == [["batch", 1, 28, 28]]
    assert [(v.name, shape_of(v)) for v in model.graph.outputs] == [("output", ["batch", 10])]
    assert json.loads(model.metadata_props["convert.dims"]) == {"batch": [1, None]}
    for batch in (1, 3):
        feed = {"input": noise(batch, 1, 28, 28)}
        (want,) = runner.run(Source(sniff(path), path), [feed], precision="float32", options=Options(model=FACTORY))
        np.testing.assert_allclose(run(model, feed["input"])[0], want["output"], rtol=1e-5, atol=2e-5)


def test_what_was_assumed_is_said(fixtures: Path) -> None:
    report = Report("convert")
    read(fixtures / "mnist_cnn.pt", report=report)
    (note,) = report.notes
    assert "float32[batch,1,28,28]" in note
    assert "conv1" in note


@pytest.mark.parametrize("name", ["super_resolution.pt", "super_resolution.pt2"])
def test_a_fully_convolutional_network_takes_every_size(name: str, fixtures: Path) -> None:
    model = read(fixtures / name)
    assert shape_of(model.graph.inputs[0]) == ["batch", 1, "height", "width"]
    assert shape_of(model.graph.outputs[0]) == ["batch", 1, "3*height", "3*width"]
    module = frontend.load(Source("torch-module", fixtures / "super_resolution.pt"), Options())
    for size in ((1, 1, 5, 9), (2, 1, 31, 8)):
        agrees(module, model, noise(*size))


def test_a_pickle_of_own_classes_is_refused_and_names_them(tmp_path: Path) -> None:
    torch.save(Own(), tmp_path / "own.pt")
    with pytest.raises(UnsafeInput, match=r"Own.*execute code") as refused:
        read(tmp_path / "own.pt")
    assert "--trust" in refused.value.hint
    assert refused.value.exit_code == 5
    assert len(read(tmp_path / "own.pt", trust=True).graph.outputs) == 1


def test_a_pickle_that_calls_is_refused_before_it_runs(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    module = nn.Sequential(nn.Linear(2, 2))
    module.surprise = Call(open, str(mark), "w")
    torch.save(module, tmp_path / "evil.pt")
    with pytest.raises(UnsafeInput, match=r"open"):
        frontend.read(Source("torch-module", tmp_path / "evil.pt"), Options(), Report("convert"))
    assert not mark.exists()


def test_a_state_dict_that_calls_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    torch.save({"w": torch.ones(2), "x": Call(open, str(mark), "w")}, tmp_path / "evil.pt")
    with pytest.raises(BadInput):
        frontend.read(Source("torch-state-dict", tmp_path / "evil.pt"), Options(model=FACTORY), Report("convert"))
    assert not mark.exists()


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))),
        nn.Sequential(OrderedDict(module=nn.Linear(3, 3), relu=nn.ReLU())),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    ],
    ids=["nested", "named as an id is", "with a function"],
)
def test_a_module_saved_without_zip_is_read_without_trust(module: nn.Module, tmp_path: Path) -> None:
    torch.save({"model": module.eval(), "epoch": 3}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    loaded = frontend.load(Source(sniff(tmp_path / "old.pt"), tmp_path / "old.pt"), Options())
    assert str(loaded) == str(module)
    for (name, got), want in zip(loaded.state_dict().items(), module.state_dict().values(), strict=True):
        assert torch.equal(got, want), name


@pytest.mark.parametrize("write", [hostile.write_torch_zip, hostile.write_torch_legacy], ids=["zip", "legacy"])
def test_no_pickle_is_executed(tmp_path: Path, write: Callable[[Path, bytes], Path]) -> None:
    marker = tmp_path / "executed"
    for name, (data, suspect) in hostile.pickles(marker).items():
        path = write(tmp_path / "model.pt", data)
        for kind in ("torch-module", "torch-state-dict"):
            with pytest.raises(BadInput) as error:
                frontend.read(Source(kind, path), Options(model=FACTORY), Report("convert"))
            assert kind == "torch-state-dict" or suspect in error.value.message, name
            assert not marker.exists(), name


def test_the_class_in_a_persistent_id_is_held_to_the_allow_list(tmp_path: Path) -> None:
    """In a file without zip, a persistent id may name any class as a module's class."""
    marker = tmp_path / "executed"
    identity = hostile.MARK + hostile.text("module") + b"cos\nsystem\n" + hostile.text("f") + hostile.text("s") + b"t"
    call = hostile.text(hostile.touch(marker)) + hostile.TUPLE1 + hostile.REDUCE + hostile.STOP
    path = hostile.write_torch_legacy(tmp_path / "evil.pt", hostile.PROTO2 + identity + b"Q" + call)
    with pytest.raises(UnsafeInput, match=r"os\.system"):
        frontend.read(Source("torch-module", path), Options(), Report("convert"))
    with pytest.raises(BadInput):
        frontend.read(Source("torch-state-dict", path), Options(model=FACTORY), Report("convert"))
    assert not marker.exists()


def test_weights_need_their_factory(fixtures: Path) -> None:
    with pytest.raises(UsageError, match="weights only") as error:
        read(fixtures / "mnist_cnn_state.pt")
    assert "--model" in error.value.hint


@pytest.mark.parametrize("model", ["nowhere.at_all:build", "fixtures.mnist_model:missing", "no_colon"])
def test_a_factory_that_is_not_there_is_a_usage_error(model: str, fixtures: Path) -> None:
    with pytest.raises(UsageError, match="--model"):
        read(fixtures / "mnist_cnn_state.pt", model=model)


def test_weights_of_another_network_list_what_does_not_fit(fixtures: Path, tmp_path: Path) -> None:
    state = torch.load(fixtures / "mnist_cnn_state.pt", weights_only=True)
    state["extra.weight"] = state.pop("fc2.weight")
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(BadInput, match=r"missing: fc2.weight; unexpected: extra.weight"):
        read(tmp_path / "other.pt", model=FACTORY)


def test_a_pickled_data_parallel_is_its_module(tmp_path: Path) -> None:
    """It is read without being trusted, as torch.nn's layers are."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    torch.save(torch.nn.DataParallel(net), tmp_path / "m.pt")
    graph = read(tmp_path / "m.pt", "input:float32[2,3]")
    agrees(net, graph, noise(2, 3))


def test_packed_weights_that_an_old_file_has_lost(tmp_path: Path) -> None:
    net = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(3, 4)), {torch.nn.Linear})
    torch.save(net, tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(BadInput, match="whose weights are not in it"):
        read(tmp_path / "m.pt", "input:float32[2,3]", trust=True)
    torch.save(net, tmp_path / "m.pt")
    agrees(net, read(tmp_path / "m.pt", "input:float32[2,3]", trust=True), noise(2, 3))


def test_a_data_parallel_without_a_module_is_damaged(tmp_path: Path) -> None:
    parallel = torch.nn.DataParallel(torch.nn.Linear(3, 4))
    del parallel.module
    torch.save(parallel, tmp_path / "m.pt")
    with pytest.raises(BadInput, match="DataParallel without a module"):
        read(tmp_path / "m.pt", "input:float32[2,3]")


def test_the_prefix_of_data_parallel_is_taken_off(fixtures: Path, tmp_path: Path) -> None:
    state = torch.load(fixtures / "mnist_cnn_state.pt", weights_only=True)
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}, "epoch": 3}, tmp_path / "parallel.pt")
    report = Report("convert")
    read(tmp_path / "parallel.pt", model=FACTORY, report=report)
    assert any("DataParallel" in note for note in report.notes)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def build(:\n", "SyntaxError"),
        ("raise ValueError('no data')\n", "failed with ValueError: no data"),
        ("def build():\n    raise RuntimeError('no data')\n", "failed with RuntimeError: no data, at "),
        ("build = 3\n", "is a int, and nothing to call"),
    ],
)
def test_what_a_factory_raises_is_told_as_its_own(code: str, told: str, fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(code)
    with pytest.raises(UsageError, match=told):
        read(fixtures / "mnist_cnn_state.pt", model=f"{tmp_path / 'net.py'}:build")


def test_a_factory_may_be_a_file(fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from fixtures.mnist_model import build as make\n")
    read(fixtures / "mnist_cnn_state.pt", model=f"{tmp_path / 'net.py'}:make")


# -- .pt2 --------------------------------------------------------------------------------------------------------------


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """Return a copy of a zip archive with the content of its members changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return target


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "[x for x in ().__class__.__bases__]",
        "Symbol.__init__",
        "open('x')",
    ],
)
def test_sizes_of_a_program_must_be_arithmetic(text: str, fixtures: Path, tmp_path: Path) -> None:
    def change(name: str, content: bytes) -> bytes:
        good = json.dumps("Symbol('s31', positive=True, integer=True)").encode()
        assert not name.endswith("model.json") or good in content
        return content.replace(good, json.dumps(text).encode())

    with pytest.raises(UnsafeInput, match="size"):
        read(rewritten(fixtures / "mnist_cnn.pt2", tmp_path / "evil.pt2", change))


def test_sizes_of_a_program_must_be_quick_to_compute(fixtures: Path, tmp_path: Path) -> None:
    good, huge = json.dumps("Symbol('s31', positive=True, integer=True)").encode(), json.dumps("9**9**9").encode()
    path = rewritten(
        fixtures / "mnist_cnn.pt2", tmp_path / "evil.pt2", lambda name, content: content.replace(good, huge)
    )
    with pytest.raises(ResourceLimit, match="takes too long to compute"):
        read(path)


@pytest.mark.parametrize("target", ["torch.os.system", "torchx.os.system", "math.x.y"])
def test_a_program_calls_operators_only(target: str, fixtures: Path, tmp_path: Path) -> None:
    path = rewritten(
        fixtures / "mnist_cnn.pt2",
        tmp_path / "evil.pt2",
        lambda name, content: content.replace(b"torch.ops.aten.relu.default", target.encode()),
    )
    with pytest.raises(UnsafeInput, match=target):
        read(path)


def test_pickles_inside_a_program_are_not_executed(fixtures: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    evil = tmp_path / "evil.bin"
    torch.save((Call(open, str(mark), "w"),), evil)
    path = rewritten(
        fixtures / "mnist_cnn.pt2",
        tmp_path / "evil.pt2",
        lambda name, content: evil.read_bytes() if "sample_inputs" in name else content,
    )
    with pytest.raises(BadInput):
        read(path)
    assert not mark.exists()


def test_pickled_objects_inside_a_program_are_refused(fixtures: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    config = {
        "config": {"evil": {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}}
    }

    def change(name: str, content: bytes) -> bytes:
        return json.dumps(config).encode() if name.endswith("model_constants_config.json") else content

    path = rewritten(fixtures / "mnist_cnn.pt2", tmp_path / "evil.pt2", change)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("mnist_cnn/data/constants/opaque_obj_0", pickle.dumps(Call(open, str(mark), "w")))
    with pytest.raises(UnsafeInput, match="pickled object"):
        read(path)
    assert not mark.exists()


def test_an_archive_that_pytorch_cannot_load_says_what_made_it(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()
    torch.jit.optimize_for_inference(torch.jit.script(layers)).save(tmp_path / "m.pt")
    with pytest.raises(RuntimeError):
        torch.jit.load(tmp_path / "m.pt")
    with pytest.raises(BadInput, match="optimize_for_inference"):
        read(tmp_path / "m.pt", "input:float32[1,1,5,5]")


class Flat(nn.Module):
    """A module that asks for a shape, which PyTorch 1.4 wrote as `ops.prim.shape(x)`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], -1) * len(x.shape)


def with_old_name(path: Path, operator: str) -> None:
    """Write Flat as TorchScript that calls an operator where it asks for the shape."""
    torch.jit.script(Flat()).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist() if "debug" not in info.filename}
    (code,) = (name for name in members if name.endswith(".py"))
    assert b"torch.size(x)" in members[code]
    members[code] = members[code].replace(b"torch.size(x)", f"ops.prim.{operator}(x)".encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_operators_by_the_names_of_old_archives(tmp_path: Path) -> None:
    with_old_name(tmp_path / "old.pt", "shape")
    feed = noise(2, 3, 4)
    model = read(tmp_path / "old.pt", "x:float32[2,3,4]")
    np.testing.assert_array_equal(run(model, feed)[0], feed.reshape(2, 12) * 3)


def test_an_operator_that_pytorch_does_not_have_is_refused(tmp_path: Path) -> None:
    with_old_name(tmp_path / "old.pt", "size_of_nothing")
    with pytest.raises(BadInput, match="size_of_nothing"):
        read(tmp_path / "old.pt", "x:float32[2,3,4]")
