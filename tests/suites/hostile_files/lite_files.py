"""TensorFlow Lite files with offsets beyond the end, circular subgraphs, and operators that are no builtins."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import Canary, Case, file_name
from tests.suites.hostile_files.lite_operators import lite_operator, operator_files


def _model(change: Any = None, operator: str = "NEG", custom: str = "", shape: tuple[int, ...] = (2,)) -> bytes:
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers = 3, [schema.BufferT()]
    graph.tensors = []
    for name in ("x", "y"):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), 0, 0
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs = [0], [1]
    node = schema.OperatorT()
    node.inputs, node.outputs, node.opcodeIndex = [0], [1], 0
    code = schema.OperatorCodeT()
    code.builtinCode, code.version = getattr(schema.BuiltinOperator, operator), 1
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    if custom:
        code.customCode, node.customOptions = custom, list(b"touch x")
    graph.operators, model.subgraphs, model.operatorCodes = [node], [graph], [code]
    if change is not None:
        change(model, schema)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _calls_itself(model: Any, schema: Any) -> None:
    node = model.subgraphs[0].operators[0]
    node.builtinOptionsType = schema.BuiltinOptions.WhileOptions
    node.builtinOptions = schema.WhileOptionsT()
    node.builtinOptions.condSubgraphIndex = node.builtinOptions.bodySubgraphIndex = 0


def _calls_nothing(model: Any, schema: Any) -> None:
    _calls_itself(model, schema)
    model.subgraphs[0].operators[0].builtinOptions.condSubgraphIndex = 1 << 30


def _set(place: str, name: str, value: Any) -> Any:
    def change(model: Any, schema: Any) -> None:
        graph = model.subgraphs[0]
        target = {"model": model, "graph": graph, "node": graph.operators[0], "tensor": graph.tensors[0],
                  "code": model.operatorCodes[0], "buffer": model.buffers[0]}[place]  # fmt: skip
        setattr(target, name, value)

    return change


def lite_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write changed copies of a file with one Neg, and files of other operators."""
    good = _model()
    files = {
        "a Flex operator": _model(operator="CUSTOM", custom="FlexWriteFile"),
        "a Flex operator of Python": _model(operator="CUSTOM", custom="FlexPyFunc"),
        "a custom operator": _model(operator="CUSTOM", custom="Shell"),
        "a custom name with control characters": _model(operator="CUSTOM", custom="a\u202e\x1b[31m\n"),
        "a subgraph of itself": _model(_calls_itself, operator="WHILE"),
        "a subgraph that is not there": _model(_calls_nothing, operator="WHILE"),
        "dims of 2^30": _model(shape=(1 << 30, 1 << 30, 4)),
        "dims below zero": _model(shape=(-2, -3)),
        "an input that is not there": _model(_set("graph", "inputs", [7])),
        "an output below zero": _model(_set("graph", "outputs", [-1])),
        "a tensor of the node that is not there": _model(_set("node", "inputs", [1 << 30])),
        "a code that is not there": _model(_set("node", "opcodeIndex", 99)),
        "a buffer that is not there": _model(_set("tensor", "buffer", 1 << 30)),
        "a buffer elsewhere": _model(_set("buffer", "offset", 1 << 50)),
        "a buffer of 2^62": _model(_set("buffer", "size", 1 << 62)),
        "a dtype that is not there": _model(_set("tensor", "type", 120)),
        "a builtin that is not there": _model(_set("code", "builtinCode", 30_000)),
        "a version of 2^31": _model(_set("model", "version", 2**31)),
        "no subgraphs": _model(_set("model", "subgraphs", [])),
        "a name with control characters": _model(_set("tensor", "name", "x\u202e\x1b[2J\n")),
        "a root beyond the end": struct.pack("<I", 1 << 31) + good[4:],
        "a root in itself": struct.pack("<I", 0) + good[4:],
        "cut off": good[: len(good) // 2],
        "only a head": good[:8],
        "zeros behind a head": good[:8] + bytes(100_000),
        "ones behind a head": good[:8] + b"\xff" * 100_000,
    }
    (folder / "good.tflite").write_bytes(good)
    for name, content in files.items():
        path = folder / f"{file_name(name)}.tflite"
        path.write_bytes(content)
        yield Case(name, path, good=folder / "good.tflite")
    (folder / "like.tflite").write_bytes(lite_operator())
    for name, make in operator_files().items():
        path = folder / f"{file_name(name)}.tflite"
        path.write_bytes(make())
        yield Case(name, path, good=folder / "like.tflite")
