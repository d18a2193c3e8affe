"""ONNX models whose metadata of this project (`convert.dims` and others) is false, huge or names unknown values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from convert.graph.metadata import CHANNELS_LAST
from tests.suites.hostile_files.case import Canary, Case, file_name

_MOST = 1 << 62
_DEEP = "[" * 100_000 + "]" * 100_000


def _model(notes: dict[str, str], nodes: list[onnx.NodeProto] | None = None) -> onnx.ModelProto:
    """Return y = -x with an integer input i and a state s, and with the notes in every place that can have them."""
    nodes = nodes or [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["s"], ["s_next"])]
    x, y, s, after = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y", "s", "s_next")
    )
    dims = ["batch", "a", "b", "c", "d"] if any("a + b" in text for text in notes.values()) else ["batch"]
    i = helper.make_tensor_value_info("i", TensorProto.INT64, dims)
    graph = helper.make_graph(nodes, "g", [x, s, i], [y, after])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(CHANNELS_LAST, 1)], ir_version=10
    )
    for key, value in notes.items():
        for place in (model, model.graph, model.graph.input[2], model.graph.node[0]):
            place.metadata_props.add(key=key, value=value)
    return model


def _texts(shell: str) -> dict[str, str]:
    """Return the hostile contents of each metadata key."""
    values: dict[str, Any] = {
        "a size that calls": [shell], "nothing": None, "a number": 5, "a text": "x", "a size of 2^62": {"batch": _MOST},
        "sizes below zero": {"batch": [-5, -9]}, "bounds of 2^62": {"batch": [_MOST, _MOST]},
        "bounds the other way round": {"batch": [9, 1]}, "bounds of texts": {"batch": [shell, shell]},
        "powers": ["batch ** 9 ** 9 ** 9 == 0"], "a division by zero": ["batch % 0 == 0", "batch // 0 == 1"],
        "a shift": ["1 << batch << 99999999 == 0"], "a product of 2^62": [f"batch * {_MOST} * {_MOST} == 0"],
        "no condition that can be met": ["batch == batch + 1"],
        "a condition on five dims": ["batch + a + b + c + d == 0"], "20,000 conditions": ["batch % 8 == 0"] * 20_000,
        "a long condition": ["+".join(["batch"] * 20_000) + " == 0"],
        "deep parentheses": ["(" * 5000 + "batch" + ")" * 5000 + " == 0"],
        "an attribute": ["batch.__class__.__mro__[1] == 0"], "a range of 2^62": [-_MOST, _MOST],
        "a range the other way round": [9, 1, "descending"], "a range of names": ["gone", "batch"],
        "numbers that are none": {"batch": float("nan"), "x": float("inf")},
        "a state": {"s": ["w", "s_next", 1e400]}, "a state of 2^62": {"s": ["w", "s_next", [[0.0] * 1000] * 1000]},
        "a state of another output": {"s": ["w", "y", 0]}, "a state that is not there": {"gone": ["w", "gone", 0]},
        "a state of control characters": {"s": ["\u202e\x1b[31m", "s_next", None]}, "nhwc": "nhwc",
        "control characters": "\u202e\x1b[31m\n",
    }  # fmt: skip
    raw = {"deep": _DEEP, "no JSON": "{", "a number of 10^5 digits": "9" * 100_000, "nhwc alone": "nhwc",
           "a megabyte": "x" * (1 << 20), "a path": "/etc/passwd", "markup": "<img src=x onerror=alert(1)>",
           "one name twice": '{"batch": [1, 2], "batch": [3, 4]}'}  # fmt: skip
    return {name: json.dumps(value) for name, value in values.items()} | raw


def notes_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each metadata note that the frontend parses with each hostile content, and a file with all of them
    at once.
    """
    others = ("operator", "module", "source", "initial", "mode", "layout", "size_check", "dim", "exact",
              "non_trainable", "files", "companions")  # fmt: skip
    shell = f"__import__('os').system('touch {canary.marker}')"
    for keys in (others, *((key,) for key in ("dims", "guards", "range", "state"))):
        for name, text in _texts(shell).items():
            about = keys[0] if len(keys) == 1 else "others"
            path = folder / f"{about}_{file_name(name)}.onnx"
            path.write_bytes(_model({f"convert.{key}": text for key in keys}).SerializeToString())
            yield Case(f"{about}: {name}", path, verbs=() if keys is others else ("convert",))
    for operator in ("Conv", "MaxPool", "Neg", "Odd"):
        node = helper.make_node(operator, ["x"], ["y"], domain=CHANNELS_LAST)
        path = folder / f"channels_last_{operator}.onnx"
        path.write_bytes(_model({}, [node, helper.make_node("Identity", ["s"], ["s_next"])]).SerializeToString())
        yield Case(f"channels last: {operator}", path)
