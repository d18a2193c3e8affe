"""`sniff` on real files of every kind, and on files and folders that hold no model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from convert.errors import BadInput, ConvertError, UnsafeInput
from convert.files import protobuf_wire
from convert.files.caffe2 import caffe2_pb2
from convert.files.sniff import KINDS, sniff
from tests.support import hostile
from tests.support.work import at_most_calls

FIXTURES = {
    "mnist_cnn.pt": "torch-module",
    "super_resolution.pt": "torch-module",
    "mnist_cnn_state.pt": "torch-state-dict",
    "mnist_cnn_checkpoint.pt": "torch-state-dict",
    "mnist_cnn_traced.pt": "torchscript",
    "mnist_cnn_scripted.pt": "torchscript",
    "mnist_cnn.pt2": "torch-export",
    "super_resolution.pt2": "torch-export",
    "mnist_cnn.safetensors": "safetensors",
    "mnist_cnn.onnx": "onnx",
    "super_resolution.onnx": "onnx",
    "mnist_cnn.keras": "keras",
    "mnist_cnn_frozen.pb": "frozen-graph",
    "mnist_cnn.savedmodel": "savedmodel",
}


def kind_or_error(path: Path) -> str:
    """Return the kind of a broken file (its frontend will report the fault), or "" after a clear error."""
    try:
        with at_most_calls(1_000_000):
            return sniff(path)
    except ConvertError as error:
        raised = error
    assert raised.exit_code == 5
    assert raised.hint
    assert "\n" not in raised.message
    return ""


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures(fixtures: Path, name: str) -> None:
    assert sniff(fixtures / name) == FIXTURES[name]
    assert FIXTURES[name] in KINDS


def test_the_suffix_decides_nothing(fixtures: Path, tmp_path: Path) -> None:
    for index, (name, kind) in enumerate(FIXTURES.items()):
        if (fixtures / name).is_file():
            copy = tmp_path / f"{index}.jpeg"
            copy.write_bytes((fixtures / name).read_bytes())
            assert sniff(copy) == kind


def test_a_link_to_a_model_is_that_model(fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(fixtures / "mnist_cnn.onnx")
    assert sniff(tmp_path / "link") == "onnx"


def _torch_files(folder: Path) -> dict[Path, str]:
    """Return files of torch.save with their kinds, or with a part of the error if they hold no model."""
    import torch

    class Wrapped(torch.nn.Module):
        pass

    Wrapped.__module__, Wrapped.__qualname__ = __name__, "Wrapped"
    globals()["Wrapped"] = Wrapped
    layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    weights = layers.state_dict()
    optimizer = torch.optim.Adam(layers.parameters())
    layers(torch.ones(2, 2)).sum().backward()
    optimizer.step()
    things = {
        "module": (layers, "torch-module"),
        "custom": (Wrapped(), "torch-module"),
        "nested_module": ({"epoch": 1, "model": layers, "weights": None}, "torch-module"),
        "state": (weights, "torch-state-dict"),
        "plain_dict": (dict(weights), "torch-state-dict"),
        "parameters": (dict(layers.named_parameters()), "torch-state-dict"),
        "checkpoint": ({"state_dict": weights, "optimizer": optimizer.state_dict(), "epoch": 3}, "torch-state-dict"),
        "with_loss": ({"loss": torch.nn.CrossEntropyLoss(), "model": weights}, "torch-state-dict"),
        "deep": ({"state": {"model": {"net": weights}}}, "torch-state-dict"),
        "half": ({k: v.half() for k, v in weights.items()}, "torch-state-dict"),
        "optimizer": (optimizer.state_dict(), "a dict with the keys state, param_groups"),
        "tensor": (torch.ones(3), "a single tensor"),
        "list": ([torch.ones(3)], "a list"),
        "nothing": ({}, "an empty dict"),
        "number": (7, "a int"),
    }
    found = {}
    for name, (thing, kind) in things.items():
        for form in ("zip", "legacy"):
            path = folder / f"{name}.{form}"
            torch.save(thing, path, _use_new_zipfile_serialization=form == "zip")
            found[path] = kind
    return found


@pytest.mark.not_core
@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
def test_files_of_torch_save(tmp_path: Path) -> None:
    for path, kind in _torch_files(tmp_path).items():
        if kind in KINDS:
            assert sniff(path) == kind, path
        else:
            with pytest.raises(BadInput, match=kind):
                sniff(path)


@pytest.mark.slow
@pytest.mark.not_core
def test_tensorflow_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keras
    import tensorflow as tf

    monkeypatch.chdir(tmp_path)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.set_weights([np.ones((4, 3)), np.ones(3)])  # the checkpoint begins with the same bytes each time
    model.save("model.keras")
    model.save("model.h5")
    Path("model.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    tf.train.Checkpoint(model=model).save("two/weights")
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
        tf.matmul(x, tf.compat.v1.get_variable("w", [4, 3], initializer=tf.ones_initializer()), name="y")
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, "one/model.ckpt")
    Path("graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    Path("graph.pbtxt").write_text(str(graph.as_graph_def()))
    expected = {"model.keras": "keras", "model.h5": "keras-h5", "model.tflite": "tflite", "one": "tf-meta",
                "one/model.ckpt.meta": "tf-meta", "graph.pb": "frozen-graph"}  # fmt: skip
    assert {name: sniff(Path(name)) for name in expected} == expected
    errors = {"one/model.ckpt": "name of a TensorFlow checkpoint", "two": "weights and no graph",
              "one/model.ckpt.index": "part of a TensorFlow checkpoint", "graph.pbtxt": "protobuf text",
              "one/model.ckpt.data-00000-of-00001": "part of a TensorFlow checkpoint"}  # fmt: skip
    for name, words in errors.items():
        with pytest.raises(BadInput, match=words):
            sniff(Path(name))
    for name in ("model.h5", "model.tflite", "one/model.ckpt.meta", "graph.pb"):
        for copy in hostile.truncations(Path(name), tmp_path):
            assert kind_or_error(copy) in ("", sniff(Path(name)))


def _caffe2_folder(folder: Path) -> Path:
    folder.mkdir()
    init = caffe2_pb2.NetDef(name="init")
    init.op.add(type="GivenTensorFill", output=["w"]).arg.add(name="values", floats=[1.0, 2.0])
    predict = caffe2_pb2.NetDef(name="predict", external_input=["x", "w"], external_output=["y"])
    predict.op.add(type="Mul", input=["x", "w"], output=["y"])
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    return folder


def test_caffe2(tmp_path: Path) -> None:
    folder = _caffe2_folder(tmp_path / "net")
    assert sniff(folder) == "caffe2"
    with pytest.raises(BadInput, match="one of the two nets") as raised:
        sniff(folder / "predict_net.pb")
    assert "folder" in raised.value.hint
    (folder / "init_net.pb").write_bytes((folder / "init_net.pb").read_bytes()[:-3])
    with pytest.raises(BadInput, match=r"init_net\.pb is truncated"):
        sniff(folder)
    (folder / "init_net.pb").unlink()
    with pytest.raises(BadInput, match="one of a Caffe2 model's nets"):
        sniff(folder)


@pytest.mark.parametrize("character", ["\n", "\r", "\x01", "\x1b", "\x7f", "\x00"])
def test_names_in_onnx_hold_any_character(tmp_path: Path, character: str) -> None:
    names = [name + character for name in "xynpg"]
    node = onnx.helper.make_node("Relu", names[:1], names[1:2], name=names[2])
    ends = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in names[:2]]
    graph = onnx.helper.make_graph([node], names[4], ends[:1], ends[1:])
    (path := tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph, producer_name=names[3]).SerializeToString())
    assert sniff(path) == "onnx"


def test_every_message_of_onnx_own_test_data_is_told_apart() -> None:
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    models = sorted(data.rglob("*.onnx"))
    tensors = [path for path in sorted(data.rglob("*.pb")) if path.stat().st_size]
    assert len(models) > 100
    assert len(tensors) > 100
    assert {protobuf_wire.message_in(path) for path in models} == {"ONNX ModelProto"}
    assert {protobuf_wire.message_in(path) for path in tensors} == {"ONNX TensorProto"}


def test_parts_of_models_say_what_they_are(fixtures: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(onnx.load(fixtures / "mnist_cnn.onnx").graph.SerializeToString())
    with pytest.raises(BadInput, match="graph without its model"):
        sniff(part)
    part.write_bytes(onnx.helper.make_tensor("t", 1, [2], [1.0, 2.0]).SerializeToString())
    with pytest.raises(BadInput, match="single ONNX tensor"):
        sniff(part)
    with pytest.raises(BadInput, match="graph of a SavedModel") as raised:
        sniff(fixtures / "mnist_cnn.savedmodel" / "saved_model.pb")
    assert str(fixtures / "mnist_cnn.savedmodel") in raised.value.hint
    with pytest.raises(BadInput, match=r"NumPy arrays \(\.npz\)"):
        sniff(fixtures / "digits_test.npz")


@pytest.mark.parametrize("name", hostile.foreign_files())
def test_foreign_files(tmp_path: Path, name: str) -> None:
    content, words, hint = hostile.foreign_files()[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(BadInput) as raised:
        sniff(path)
    assert words in raised.value.message
    assert hint in raised.value.hint
    assert str(path) in raised.value.message
    assert raised.value.exit_code == 5


def test_paths_that_are_no_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.onnx").write_bytes(b"x")
    cases = {"empty": "is empty", "pipe": "neither a file nor a folder", "dangling": "which is not there",
             "folder": "holds a.onnx", "missing": "there is no file", "missing/file": "there is no file",
             "nul\0": "cannot be read", "x" * 300: "cannot be read"}  # fmt: skip
    for name, words in cases.items():
        with pytest.raises(BadInput, match=words) as raised:
            sniff(tmp_path / name)
        assert raised.value.hint


def test_hugging_face_folders(fixtures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / "main"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(BadInput, match="no PyTorch weights"):
        sniff(folder)
    (folder / "encoder_model.onnx").touch()
    with pytest.raises(BadInput) as raised:
        sniff(folder)
    assert f"one of the models in it: {folder / 'encoder_model.onnx'}" in raised.value.hint
    weights = folder / "model.safetensors"
    hostile.lfs_pointer(weights)
    with pytest.raises(BadInput, match="Git-LFS pointer to 102,400,000 bytes"):
        sniff(folder)
    weights.unlink()
    blob = tmp_path / "blob"
    blob.write_bytes((fixtures / "mnist_cnn.safetensors").read_bytes())
    weights.symlink_to(blob)  # as in the hub's cache, where snapshots/<revision> links to blobs
    assert sniff(folder) == "hf-folder"
    index = folder / "model.safetensors.index.json"
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    index.write_text(json.dumps({"weight_map": {f"w{i}": name for i, name in enumerate(names)}}))
    (folder / names[1]).symlink_to(blob)
    with pytest.raises(BadInput, match=r"lacks 2 of the 3 files of weights that .* names: model-00001-of-00003"):
        sniff(folder)
    index.unlink()
    weights.unlink()
    with pytest.raises(BadInput, match=r"lacks model.safetensors.index.json, which says what is in model-00002-of"):
        sniff(folder)
    weights.symlink_to(fixtures / "mnist_cnn.safetensors")
    with pytest.raises(UnsafeInput, match="outside of the model's folder"):
        sniff(folder)


def test_names_of_functions_in_onnx(tmp_path: Path) -> None:
    """PyTorch 2.4 calls functions `aten_add|folded_0`."""
    node = onnx.helper.make_node("aten_add|folded_0", ["x"], ["y"], domain="pkg.onnxscript.torch_lib")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert sniff(tmp_path / "m.onnx") == "onnx"


def test_other_archives(tmp_path: Path) -> None:
    cases = {
        "pack.zip": ([("model.onnx", b"x"), ("readme.txt", b"x")], "zip archive that holds model.onnx"),
        "package.zip": ([("m/data.pkl", b"\x80\x02."), ("m/.data/extern_modules", b"")], "torch.package"),
        "weightless.zip": ([("config.json", b"{}"), ("metadata.json", b"{}")], "without weights"),
        "compiled.zip": ([("m/archive_format", b"pt2"), ("m/data/aotinductor/model/x.so", b"")], "AOTInductor"),
        "other.zip": ([("m/archive_format", b"pt3"), ("m/models/model.json", b"")], "format 'pt3'"),
        "empty.zip": ([], "empty zip"),
    }
    for name, (entries, words) in cases.items():
        with pytest.raises(BadInput, match=words):
            sniff(hostile.write_zip(tmp_path / name, entries))
    older = [("version", b"4.0"), ("serialized_exported_program.json", b"{}"), ("serialized_state_dict.pt", b"")]
    assert sniff(hostile.write_zip(tmp_path / "older.pt2", older)) == "torch-export"
    first = [("m/version", b"1"), ("m/model.json", b"{}"), ("m/code/m.py", b""), ("m/tensors/0", b"")]
    assert sniff(hostile.write_zip(tmp_path / "first.pt", first)) == "torchscript"
    with pytest.raises(UnsafeInput, match="which PyTorch does not write"):
        sniff(hostile.write_zip(tmp_path / "odd.pt", [*first, ("m/data.bin", b"")]))


def test_sniffing_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import convert.files.sniff; import convert.files.pickle_scan\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'convert'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("length", [128, 384, 640, 896, 1152, 1408])
def test_headers_of_safetensors_that_begin_like_pickles(length: int, tmp_path: Path) -> None:
    """A file begins with the length of its header; these begin with the opcode PROTO and a protocol from 0 to 5."""
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + header.ljust(length) + bytes(4))
    assert sniff(path) == "safetensors"
