"""Stores weights of a TensorFlow Lite file in 8 bits; all arithmetic stays in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .file_objects import LiteFile

_LARGE = 1024
"""Smaller weights stay unchanged, as in TensorFlow's converter."""

_WEIGHTS: dict[str, tuple[tuple[int, int], ...]] = {
    **dict.fromkeys(("CONV_2D", "CONV_3D", "FULLY_CONNECTED", "TRANSPOSE_CONV"), ((1, 0),)),
    "DEPTHWISE_CONV_2D": ((1, 3),),
    "GATHER": ((0, 0),),
    "BATCH_MATMUL": ((1, -1),),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": tuple((place, 0) for place in range(1, 9)),
}
"""Places of weights among the inputs of operators, with the axis that has a scale for each index."""
_LAST = ("CONV_3D",)
"""Operators whose weight has its output channels last."""


def store_weights(data: bytes) -> bytes:
    """Return a file whose large weights are int8 with one scale per channel, each followed by a DEQUANTIZE."""

    def stored(file: LiteFile, operator: Any, place: int, content: np.ndarray) -> _Stored | None:
        axis = dict(_WEIGHTS.get(file.name(operator), ())).get(place)
        if axis is None or content.ndim < 2:
            return None
        return _rounded(content, content.ndim - 1 if axis < 0 or file.name(operator) in _LAST else axis)

    return _with_stored(data, stored)


def store_integers(data: bytes) -> bytes:
    """Return a file whose large constants of whole numbers are stored as int8 if they fit, each followed by a
    DEQUANTIZE.

    Weights of MatMulInteger and ConvInteger are such constants; they are not rounded.
    """

    def stored(file: LiteFile, operator: Any, place: int, content: np.ndarray) -> _Stored | None:
        least, most = content.min(), content.max()
        if most - least > _MOST - _LEAST or (content != np.round(content)).any():
            return None
        zero = int(np.clip(0, _LEAST - least, _MOST - most))
        return (content + zero).astype(np.int8), np.ones(1, np.float32), 0, zero

    return _with_stored(data, stored)


_Stored = tuple[np.ndarray, np.ndarray, int, int]
"""Integers, their scales, the axis of the scales, and the zero point."""
_LEAST, _MOST = -128, 127


def _with_stored(data: bytes, stored: Callable[[LiteFile, Any, int, np.ndarray], _Stored | None]) -> bytes:
    """Return a file with integers in place of large constants; `stored` gives the integers for an input of an
    operator.
    """
    file = LiteFile(data)
    for number, graph in enumerate(file.model.subgraphs):
        made: list[Any] = []
        numbers: dict[int, int] = {}
        for operator in graph.operators:
            for place, tensor in enumerate(map(int, operator.inputs if operator.inputs is not None else ())):
                content = None if tensor in numbers else file.constant(number, tensor)
                if content is None or not _is_large(content):
                    continue
                found = stored(file, operator, place, content)
                if found is not None:
                    numbers[tensor] = _add_stored(file, number, tensor, found, made)
            if operator.inputs is not None:
                operator.inputs = [numbers.get(int(t), int(t)) for t in operator.inputs]
        graph.operators = [*made, *graph.operators]
        file.drop_unused(number)
    return file.packed()


def _is_large(content: np.ndarray) -> bool:
    return bool(content.dtype == np.float32 and content.size >= _LARGE and np.isfinite(content).all())


def _rounded(content: np.ndarray, axis: int) -> _Stored:
    others = tuple(i for i in range(content.ndim) if i != axis)
    largest = np.abs(content).max(others, keepdims=True)
    scale = np.where(largest > 0, largest / _MOST, 1.0).astype(np.float32)
    return np.clip(np.round(content / scale), -_MOST, _MOST).astype(np.int8), scale.ravel(), axis, 0


def _add_stored(file: LiteFile, number: int, tensor: int, stored: _Stored, made: list[Any]) -> int:
    """Add a constant in 8 bits, and append its DEQUANTIZE to `made`; return the tensor of its real numbers."""
    name = file.model.subgraphs[number].tensors[tensor].name.decode()
    raw, scale, axis, zero = stored
    constant = file.add_constant(number, f"{name}_stored", raw, scale, axis, zero)
    wide = file.add_like(number, f"{name}_numbers", tensor)
    made.append(file.new_operator("DEQUANTIZE", [constant], [wide], 5 if scale.size > 1 else 2))
    return wide
