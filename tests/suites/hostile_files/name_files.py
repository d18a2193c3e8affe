"""Models with names of 100 kB, names that differ by the case of letters, and 10,000 outputs, for every format."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name, members, stored
from tests.suites.hostile_files.onnx_files import Info, Node, external, model_of

LONG = "x" * 100_000
FORMATS = {"onnx": "m.onnx", "torch": "m.pt2", "torch-script": "m.pt", "torch-code": "m", "tf": "m.savedmodel",
           "tf-frozen": "m.pb", "keras": "m.keras", "tflite": "m.tflite", "caffe2": "m.caffe2"}  # fmt: skip
_ODD = ("k", "K", "\u212a", "\u00df", "\u1e9e", "ss", "i", "\u0130", "i\u0307", "\u0131")
"""Letters that fold to others: the Kelvin sign, the sharp s, and the i with and without a dot."""


def _long() -> dict[str, Any]:
    """Return ONNX models with a long name in each place that has names."""
    two = np.ones(2, "f4")
    add = Node("Add", ["x", "w"], ["y"])
    found = {
        "an input": model_of([Node("Neg", [LONG], ["y"])], inputs=[Info(LONG, 1, [2])]),
        "an output": model_of([Node("Neg", ["x"], [LONG])], outputs=[Info(LONG, 1, None)]),
        "a value": model_of([Node("Neg", ["x"], [LONG]), Node("Neg", [LONG], ["y"])]),
        "a weight": model_of([Node("Add", ["x", LONG], ["y"])], {LONG: two}),
        "a node": model_of([Node("Neg", ["x"], ["y"], name=LONG)]),
        "parts of a node": model_of([Node("Neg", ["x"], ["y"], name="/".join("abcdefgh" * 6_000))]),
        "an operator": model_of([Node(LONG, ["x"], ["y"])]),
        "a domain": model_of([Node("Neg", ["x"], ["y"], domain=LONG)]),
        "a dim": model_of([Node("Neg", ["x"], ["y"])], inputs=[Info("x", 1, [LONG])]),
        "an attribute": model_of([Node("LeakyRelu", ["x"], ["y"], **{LONG: 1.0})]),
        "a graph": model_of([add], {"w": two}),
        "metadata": model_of([add], {"w": two}),
        "a description": model_of([add], {"w": two}),
        "a function": model_of([Node(LONG, ["x"], ["y"], domain="mine")], functions=[helper.make_function(
            "mine", LONG, ["a"], ["b"], [Node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 20)])]),
        "external data": external(LONG),
        "a thousand inputs": model_of([Node("Sum", [f"{i}{LONG[:5000]}" for i in range(1000)], ["y"])],
                                      inputs=[Info(f"{i}{LONG[:5000]}", 1, [2]) for i in range(1000)]),
    }  # fmt: skip
    found["a graph"].graph.name = LONG
    found["a description"].graph.doc_string = found["a description"].doc_string = LONG * 10
    found["metadata"].metadata_props.add(key=LONG, value=LONG)
    return found


def _letters() -> dict[str, Any]:
    """Return ONNX models whose names are one name where the case of letters does not count."""
    one, two = np.ones(2, "f4"), np.full(2, 2, "f4")
    return {
        "inputs": model_of([Node("Sub", ["x", "X"], ["y"])], inputs=[Info("x", 1, [2]), Info("X", 1, [2])]),
        "outputs": model_of([Node("Neg", ["x"], ["y"]), Node("Exp", ["x"], ["Y"])],
                            outputs=[Info("y", 1, None), Info("Y", 1, None)]),
        "weights": model_of([Node("Add", ["x", "w"], ["z"]), Node("Mul", ["z", "W"], ["y"])], {"w": one, "W": two}),
        "nodes": model_of([Node("Neg", ["x"], ["z"], name="Node"), Node("Neg", ["z"], ["y"], name="nODE")]),
        "dims": model_of([Node("Concat", ["x", "X"], ["y"], axis=0)],
                         inputs=[Info("x", 1, ["n"]), Info("X", 1, ["N"])]),
        "letters of other lengths": model_of(
            [Node("Sum", [*_ODD], ["y"])], inputs=[Info(name, 1, [2]) for name in _ODD]),
        "combined and composed": model_of(
            [Node("Sub", ["\u00e9", "e\u0301"], ["y"])], inputs=[Info("\u00e9", 1, [2]), Info("e\u0301", 1, [2])]),
    }  # fmt: skip


def _outputs() -> dict[str, Any]:
    """Return ONNX models with 10,000 outputs: of their own, equal ones, inputs that are outputs, constants."""
    names = [f"o{i}" for i in range(10_000)]
    infos = [Info(name, 1, None) for name in names]
    picked = [Node("Gather", ["x", f"i{i}"], [name], axis=0) for i, name in enumerate(names)]
    return {
        "10,000 outputs": model_of(picked, {f"i{i}": np.array([i % 2]) for i in range(10_000)}, outputs=infos),
        "10,000 outputs that are equal": model_of([Node("Neg", ["x"], [name]) for name in names], outputs=infos),
        "10,000 outputs that are an input": model_of(
            [Node("Identity", ["x"], [name]) for name in names], outputs=infos),
        "10,000 outputs that are constants": model_of(
            [Node("Constant", [], [name], value_float=float(i)) for i, name in enumerate(names)], outputs=infos),
        "10,000 outputs in a chain": model_of(
            [Node("Neg", [names[i - 1] if i else "x"], [name]) for i, name in enumerate(names)], outputs=infos),
        "one output 10,000 times": model_of([Node("Neg", ["x"], ["o"])], outputs=[Info("o", 1, None)] * 10_000),
    }  # fmt: skip


def _of_other_formats(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Write files of other formats with a long name, or names that differ by case; each with the good one."""
    from tensorflow.core.framework import graph_pb2

    good = FIXTURES / "mnist_cnn_frozen.pb"
    for place in (
        "a node",
        "a device",
        "an operator",
        "a function",
        "an attribute",
        "two nodes of one name in letters",
    ):
        graph = graph_pb2.GraphDef.FromString(good.read_bytes())
        if place == "a function":
            graph.library.function.add().signature.name = LONG
        elif place == "an attribute":
            graph.node[-1].attr[LONG].s = LONG.encode()
        elif place.startswith("two"):
            graph.node[1].name = graph.node[0].name.upper()
        else:
            setattr(graph.node[-1], {"a node": "name", "a device": "device", "an operator": "op"}[place], LONG)
        path = folder / f"tensorflow_{file_name(place)}.pb"
        path.write_bytes(graph.SerializeToString())
        yield f"TensorFlow: {place}", path, good
    keras = FIXTURES / "mnist_cnn.keras"
    for place in ("a layer", "a class", "two layers of one name in letters"):
        parts = members(keras)
        config = json.loads(parts["config.json"])
        layers = config["config"]["layers"]
        if place == "a class":
            layers[-1]["class_name"] = LONG
        else:
            layers[-1]["config"]["name"] = LONG if place == "a layer" else layers[-2]["config"]["name"].upper()
        path = stored(folder / f"keras_{file_name(place)}.keras", parts | {"config.json": json.dumps(config).encode()})
        yield f"Keras: {place}", path, keras
    header = {LONG: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "W": {"dtype": "F32", "shape": [1],
              "data_offsets": [4, 8]}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}}  # fmt: skip
    text = json.dumps(header).encode()
    (folder / "names.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(12))
    yield "safetensors: a weight", folder / "names.safetensors", FIXTURES / "mnist_cnn.pt"
    module = FIXTURES / "mnist_cnn.pt"
    parts = members(module)
    first = next(iter(parts))
    upper = parts | {first.upper(): b"\x80\x02}."}
    yield "PyTorch: two entries of one name in letters", stored(folder / "letters.pt", upper), module


def name_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write the models, and convert those of ONNX to every format."""
    good = folder / "good.onnx"
    good.write_bytes(model_of([Node("Neg", ["x"], ["y"])]).SerializeToString())
    groups = {"long": _long(), "letters": _letters(), "outputs": _outputs()}
    for group, models in groups.items():
        for name, model in models.items():
            path = folder / f"{group}_{file_name(name)}.onnx"
            path.write_bytes(model.SerializeToString())
            yield Case(f"{group}: {name}", path, good=good)
            for form, output in FORMATS.items():
                words = ("--to", form, "-o", output, "--no-verify")
                yield Case(f"{group}: {name}, to {form}", path, words, good, verbs=("convert",))
    letters = external("W.bin")
    letters.graph.initializer.add().CopyFrom(external("w.bin").graph.initializer[0])
    letters.graph.initializer[1].name = "v"
    letters.graph.node.add().CopyFrom(Node("Identity", ["v"], ["z"]))
    (folder / "w.bin").write_bytes(bytes(8))
    (folder / "W.bin").write_bytes(bytes([0, 0, 128, 63] * 2))
    (folder / "files.onnx").write_bytes(letters.SerializeToString())
    yield Case("letters: external data", folder / "files.onnx", good=good)
    for name, path, original in _of_other_formats(folder):
        yield Case(name, path, ("--input", "float32[1,1,28,28]") if path.suffix == ".pt" else (), original)
