"""Folders of PyTorch code: their code may run only if the user trusts the folder."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name
from tests.suites.hostile_files.safetensors_files import safetensors_files

GOOD = FIXTURES / "mnist_cnn.onnx"


def _code(canary: Canary) -> str:
    return (
        f"open({str(canary.marker)!r}, 'w').close()\nimport torch\n\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x\n"
    )


def _plain(folder: Path, canary: Canary) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (folder / "model.py").write_text(_code(canary))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))


def _changes(folder: Path, canary: Canary) -> dict[str, Callable[[Path], object]]:
    """Return changes of a folder of code."""
    code = _code(canary)

    def instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
        def change(path: Path) -> None:
            (path / name).unlink(missing_ok=True)
            make(path / name)

        return change

    def link(target: str) -> Callable[[Path], object]:
        return lambda path: os.symlink(target, path)

    def compiled(path: Path) -> None:
        py_compile.compile(str(path / "model.py"), cfile=str(path / "__pycache__" / "model.cpython-311.pyc"),
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)  # fmt: skip
        (path / "model.py").write_text("")

    def modules(path: Path) -> None:
        for name in ("torch", "numpy", "safetensors", "sitecustomize", "usercustomize", "__init__", "conftest"):
            (path / f"{name}.py").write_text(code)
        (path / "model").mkdir()
        (path / "model" / "__init__.py").write_text(code)
        (path / "model.so").write_bytes(b"\x7fELF")

    def hugging(path: Path) -> None:
        config = {"model_type": "bert", "auto_map": {"AutoModel": "model.Model"}, "architectures": ["Model"]}
        (path / "config.json").write_text(json.dumps(config))

    (folder / "away.py").write_text(code)
    return {
        "code": lambda path: None,
        "code that is a link": instead("model.py", link("../away.py")),
        "code that is a device": instead("model.py", link("/dev/zero")),
        "code that is a pipe": instead("model.py", os.mkfifo),
        "code that is a folder": instead("model.py", Path.mkdir),
        "code that is nothing": instead("model.py", Path.touch),
        "weights that are a link": instead("model.safetensors", link("/etc/passwd")),
        "weights that are a device": instead("model.safetensors", link("/dev/zero")),
        "weights that are a pipe": instead("model.safetensors", os.mkfifo),
        "code that is compiled already": compiled,
        "modules beside it": modules,
        "a configuration beside it": hugging,
        "a SavedModel beside it": lambda path: (path / "saved_model.pb").write_bytes(b""),
        "names of control characters": lambda path: (path / "\x1b[31m\u202ex.py").write_text(code),
    }


def _named_by_code(canary: Canary) -> dict[str, onnx.ModelProto]:
    """Write good networks whose nodes, weights or values have names that would be code if a program contained them
    unchanged.
    """
    call = f"open({str(canary.marker)!r}, 'w')"
    names = [f"\n{call}\n", f'"""\n{call}\n"""', f"'+{call}+'", f"\\'+{call}#", f"a\r{call}", f"a\x0c{call}",
             f"{{{call}}}", f"a.b\n{call}.c", f"\u2028{call}", f"''', {call}, '''", f"x={call}", "__class__",
             "__init__", "forward", "training", "self", "state_dict", "nn", "torch", "F", "Tensor", "Model", "Block",
             "OUTPUT_NAMES", "__dict__", "import", "9" * 5000, "፩", "a/" * 100_000, "0." * 3000]  # fmt: skip
    found = {}
    for place in ("nodes", "paths", "values"):
        # `convert.files.protobuf_wire` looks at the first nodes only.
        nodes = [helper.make_node("Relu", [f"r{i}"], [f"r{i + 1}"], name=f"n{i}") for i in range(100)]
        weights, last = [], "r100"
        for i, name in enumerate(names):
            weight = f"w{i}" if place == "nodes" else f"{name}/{name}.weight" if place == "paths" else name
            weights.append(numpy_helper.from_array(np.eye(4, dtype=np.float32), weight))
            called = f"/layers.{i}/{name}/MatMul" if place == "paths" else name
            output = f"{name}{i}" if place == "values" else f"o{i}"
            nodes.append(helper.make_node("MatMul", [last, weight], [output], name=called, doc_string=name))
            nodes[-1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=name)
            last = output
        nodes.append(helper.make_node("Relu", [last], ["y"]))
        ends = [helper.make_tensor_value_info(end, 1, ["b", 4]) for end in ("r0", "y")]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
        found[place] = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return found


def code_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each of these folders, some with weights that lie, and the folder as the working directory."""
    for name, change in _changes(folder, canary).items():
        path = folder / file_name(name)
        path.mkdir()
        _plain(path, canary)
        change(path)
        yield Case(name, path, good=GOOD)
    lies = folder / "lies"
    lies.mkdir()
    for case in safetensors_files(lies, canary):
        path = folder / f"weights_{file_name(case.name)}"
        path.mkdir()
        _plain(path, canary)
        shutil.copy(case.path, path / "model.safetensors")
        yield Case(f"weights: {case.name}", path, good=GOOD)
    for name, model in _named_by_code(canary).items():
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        for target in ("torch-code", "torch-script", "torch", "keras"):
            words = ("--to", target, "-o", "written.keras" if target == "keras" else "written")
            yield Case(f"{name} called code, to {target}", path, words, path, verbs=("convert",))
    modules = folder / file_name("modules beside it")
    shutil.copy(GOOD, modules / "m.onnx")
    words = ("--to", "torch-code", "-o", "written")
    yield Case("a folder of code to be in", modules / "m.onnx", words, GOOD, here=modules, verbs=("convert",))
