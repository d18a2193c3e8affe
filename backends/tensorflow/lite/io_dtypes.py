"""Makes the inputs and outputs of a quantized TensorFlow Lite file integers, for devices without floating-point
arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from .file_objects import LiteFile

_SHIFT = 128
"""Added to the zero point of int8, so that uint8 represents the same real numbers."""


class NotInSteps(Exception):
    """Raised for inputs or outputs that are used by operators on real numbers; their names are its arguments."""


def set_io_dtypes(data: bytes, dtype: str) -> bytes:
    """Return a file whose float32 inputs and outputs are `int8` or `uint8`, with the scales that the operators give
    them.

    Raises `NotInSteps` for inputs and outputs that are not rounded to 8-bit steps.
    """
    file, lost = LiteFile(data), []
    for number, graph in enumerate(file.model.subgraphs):
        inputs, outputs = file.io_names(number)
        lost += [name for name, tensor in inputs.items() if not _set_input(file, number, graph, tensor, dtype)]
        replaced: dict[int, int] = {}
        for name, tensor in outputs.items():
            if graph.tensors[tensor].type != schema.TensorType.FLOAT32:
                continue
            maker = next((o for o in graph.operators if tensor in map(int, o.outputs)), None)
            if maker is not None and file.name(maker) == "CUSTOM":  # detections are real numbers
                continue
            if maker is None or file.name(maker) != "DEQUANTIZE" or not _is_int8(graph, maker.inputs[0]):
                lost.append(name)
                continue
            replaced[tensor] = int(maker.inputs[0])
            if dtype == "uint8":
                replaced[tensor] = _unsigned(file, number, graph, int(maker.inputs[0]))
                made = file.new_operator("QUANTIZE", [int(maker.inputs[0])], [replaced[tensor]], 2)
                graph.operators = [*graph.operators, made]
        file.replace_outputs(number, replaced)
    if lost:
        raise NotInSteps(*lost)
    for number in range(len(file.model.subgraphs)):
        file.drop_unused(number)
    return file.packed()


def _set_input(file: LiteFile, number: int, graph: Any, tensor: int, dtype: str) -> bool:
    """Make an input an integer tensor, in place; return False if impossible."""
    if graph.tensors[tensor].type != schema.TensorType.FLOAT32:
        return True
    readers = [o for o in graph.operators if tensor in map(int, o.inputs)]
    stored = [int(o.outputs[0]) for o in readers]
    if not readers or any(file.name(o) != "QUANTIZE" for o in readers) or not _is_int8(graph, stored[0]):
        return False
    steps = [(graph.tensors[t].quantization.scale[0], graph.tensors[t].quantization.zeroPoint[0]) for t in stored]
    if len(set(steps)) > 1:
        return False
    (scale, zero), *_ = steps
    shift = _SHIFT if dtype == "uint8" else 0
    graph.tensors[tensor].type = schema.TensorType.UINT8 if shift else schema.TensorType.INT8
    graph.tensors[tensor].quantization = file.parameters(np.array([scale]), int(zero) + shift)
    if not shift:  # no rounding is left to do
        graph.operators = [o for o in graph.operators if o not in readers]
        for operator in graph.operators:
            operator.inputs = [tensor if int(t) in stored else int(t) for t in operator.inputs]
    return True


def _is_int8(graph: Any, tensor: int) -> bool:
    return bool(graph.tensors[tensor].type == schema.TensorType.INT8)


def _unsigned(file: LiteFile, number: int, graph: Any, stored: int) -> int:
    """Return a uint8 tensor with the same real numbers."""
    old = graph.tensors[stored]
    made = file.add_like(number, f"{old.name.decode()}_uint8", stored)
    graph.tensors[made].type = schema.TensorType.UINT8
    zero = int(old.quantization.zeroPoint[0]) + _SHIFT
    graph.tensors[made].quantization = file.parameters(old.quantization.scale, zero)
    return made
