"""Files that change between two opens: the checked content must be the content that is loaded, or must do no harm."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name, members, stored
from tests.suites.hostile_files.keras_files import KERAS
from tests.suites.hostile_files.onnx_files import Info, Node, external, model_of
from tests.suites.hostile_files.torchscript_files import exported_files, torchscript_files
from tests.support.hostile import pickles, write_torch_zip

REPEATS = 3


def _pairs(folder: Path, canary: Canary) -> Iterator[tuple[str, Path, Path]]:
    """Return pairs of a good model and the file that takes its place."""
    module = FIXTURES / "mnist_cnn.pt"
    for name in ("os.system", "eval", "in the state of a layer"):
        (data, _) = pickles(canary.marker)[name]
        yield f"a pickle, {name}", module, write_torch_zip(folder / f"{file_name(name)}.pt", data)
    yield "a module and a program", module, FIXTURES / "mnist_cnn_scripted.pt"
    yield "a module and a folder", module, FIXTURES / "mnist_cnn.savedmodel"
    (folder / "scripts").mkdir()
    for case in torchscript_files(folder / "scripts", canary):
        if "__setstate__: aten" in case.name or "__setstate__: a text" in case.name:
            yield f"a script, {case.name}", case.good, case.path
    (folder / "programs").mkdir()
    for case in exported_files(folder / "programs", canary):
        if case.name.startswith("names: a") or case.name in ("target: os.system", "sizes: code as a size"):
            yield f"a program, {case.name}", case.good, case.path
    config = json.loads(members(KERAS)["config.json"])
    code = {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "defaults": None, "closure": None}}
    config["config"]["layers"].append({"module": "keras.layers", "class_name": "Lambda", "registered_name": None,
                                       "config": {"name": "x", "function": code}})  # fmt: skip
    evil = members(KERAS) | {"config.json": json.dumps(config).encode()}
    yield "a Keras file", KERAS, stored(folder / "lambda.keras", evil)
    graph = FIXTURES / "mnist_cnn_frozen.pb"
    (folder / "other.pb").write_bytes(graph.read_bytes().replace(b"MatMul", b"Send__"))
    yield "a frozen graph", graph, folder / "other.pb"
    yield "a pipe", FIXTURES / "mnist_cnn.onnx", _pipe(folder)
    yield "a device", FIXTURES / "mnist_cnn.onnx", Path("/dev/zero")
    cut = folder / "cut.pt"
    cut.write_bytes(module.read_bytes()[:50_000])
    yield "half a file", module, cut


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _inside(folder: Path, canary: Canary) -> Iterator[tuple[str, Path, Path, Path, Path]]:
    """Return models with a link in or beside them, its first target and its other target."""
    secret = folder / "secret"
    secret.write_bytes(bytes(8))
    beside = folder / "beside"
    beside.mkdir()
    (beside / "w.bin").write_bytes(bytes(8))
    (beside / "m.onnx").write_bytes(external("w").SerializeToString())
    yield "data that goes up", beside / "m.onnx", beside / "w", Path("w.bin"), Path("../secret")
    for name in ("/dev/zero", "/etc/passwd"):
        place = Path(shutil.copytree(beside, folder / f"beside_{file_name(name)}", symlinks=True))
        yield f"data of {name}", place / "m.onnx", place / "w", Path("w.bin"), Path(name)
    saved = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", folder / "saved"))
    (saved / "saved_model.pb").rename(saved / "good.pb")
    (saved / "other.pb").write_bytes(
        (saved / "good.pb").read_bytes().replace(b"StatefulPartitionedCall", b"WriteFile" + b"_" * 14)
    )
    yield "a SavedModel's graph", saved, saved / "saved_model.pb", Path("good.pb"), Path("other.pb")


def _cut(folder: Path) -> Iterator[tuple[str, Path, Path, Path]]:
    """Return large models, with the file that is truncated in place while they are read, and a copy of it.

    A mapped file that is truncated ends the process by SIGBUS where a read is an error.
    """
    import torch

    size = 1 << 21
    weight = model_of([Node("Add", ["x", "w"], ["y"])], {"w": np.ones(size, "f4")}, [Info("x", 1, [size])])
    onnx.save(weight, folder / "whole.onnx")
    onnx.save(weight, folder / "apart.onnx", save_as_external_data=True, location="apart.data")
    yield "ONNX", folder / "whole.onnx", folder / "whole.onnx", FIXTURES / "mnist_cnn.onnx"
    yield "external data", folder / "apart.onnx", folder / "apart.data", FIXTURES / "mnist_cnn.onnx"
    layer = torch.nn.Linear(1 << 10, 1 << 11).eval()
    torch.save(layer, folder / "layer.pt")
    torch.jit.script(layer).save(str(folder / "script.pt"))
    torch.export.save(torch.export.export(layer, (torch.ones(2, 1 << 10),)), folder / "program.pt2")
    for name in ("layer.pt", "script.pt", "program.pt2"):
        yield name, folder / name, folder / name, FIXTURES / "mnist_cnn.pt"
    for name in ("mnist_cnn.keras", "mnist_cnn_frozen.pb"):
        copy = Path(shutil.copy(FIXTURES / name, folder / f"cut_{name}"))
        yield name, copy, copy, FIXTURES / name
    saved = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", folder / "cut_saved"))
    data = saved / "variables" / "variables.data-00000-of-00001"
    yield "a SavedModel's variables", saved, data, FIXTURES / "mnist_cnn.savedmodel"


def swapped_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Return each pair several times, because the moment at which a file changes is random."""
    verbs = ("inspect", "convert", "source", "target")
    for name, first, other in _pairs(folder, canary):
        for turn in range(REPEATS):
            path = folder / f"{file_name(name)}_{turn}{first.suffix}"
            os.symlink(first, path)
            yield Case(f"{name}, turn {turn}", path, good=first, verbs=verbs, swap=(path, other))
    for name, model, link, first, other in _inside(folder, canary):
        if not link.exists():
            os.symlink(first, link)
        yield Case(name, model, good=FIXTURES / "mnist_cnn.onnx", verbs=verbs, swap=(link, other))
    (folder / "cut").mkdir()
    for name, model, file, good in _cut(folder / "cut"):
        copy = Path(shutil.copy(file, f"{file}.whole"))
        words = ("--input", "float32[2,1024]") if model.name in ("layer.pt", "script.pt") else ()
        for turn in range(REPEATS):
            yield Case(f"cut: {name}, turn {turn}", model, words, good, verbs=verbs, swap=(file, copy))
