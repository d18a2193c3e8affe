"""Compare the weights of two artefacts: if they differ, that explains why the outputs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import widened_array
from convert.outcome.verdict import WeightDifference

# Weights closer than this were rounded during conversion, not changed.
_ROUNDED = 1e-5
_MOST_NAMED = 5


def describe_weights(left: ir.Model, right: ir.Model, names: tuple[str, str]) -> str:
    """Describe how the floating weights of two graphs differ; '' if each has an equal counterpart.

    Weights with the same numbers in any order are equal, because readers and writers transpose them. The others are
    paired by name, and by size if both sides have equally many of that size.
    """
    sides = _weights(left), _weights(right)
    ours, theirs = _comparable(*sides), _comparable(*reversed(sides))
    total = len(ours)
    for name in sorted(ours.keys() & theirs.keys()):
        if _distance(ours[name], theirs[name]) <= _ROUNDED:
            del ours[name], theirs[name]
    marks = {_fingerprint(a): n for n, a in theirs.items()}
    for name, array in list(ours.items()):
        if (same := marks.pop(_fingerprint(array), None)) is not None:
            del ours[name], theirs[same]
    differing = {}
    for name, array in list(ours.items()):
        sizes = [n for n, a in theirs.items() if a.size == array.size]
        alike = sum(a.size == array.size for a in ours.values())
        other = name if name in sizes else sizes[0] if sizes and len(sizes) == alike else None
        if other is not None:
            apart = _apart(array, theirs[other], *_shapes(sides, name, other))
            far = _distance(array, theirs.pop(other)) > _ROUNDED
            del ours[name]
            if far:
                differing[name] = f" by {_rms(apart) / _size(array):.2g} of its size"
    if not ours and not differing:
        return ""
    lines = [n + text for n, text in (differing | dict.fromkeys(ours, "")).items()]
    more = f" and {len(lines) - _MOST_NAMED} more" if len(lines) > _MOST_NAMED else ""
    text = f"weights differ: {len(lines)} of {total} tensors ({', '.join(lines[:_MOST_NAMED])}{more})"
    if ours:
        text += f", {len(ours)} without a counterpart in {names[1]}, which may have folded or rearranged them"
    return text


def weight_differences(left: ir.Model, right: ir.Model, most: int = 10) -> list[WeightDifference]:
    """Return the floating weights that have the same name and size in both graphs and differ, the worst first."""
    sides = _weights(left), _weights(right)
    ours, theirs = _comparable(*sides), _comparable(*reversed(sides))
    found = []
    for name in ours.keys() & theirs.keys():
        a, b = ours[name], theirs[name]
        if a.size != b.size or _distance(a, b) <= _ROUNDED:
            continue
        scale, shapes = _size(a), _shapes(sides, name, name)
        apart = _apart(a, b, *shapes)
        count = int(np.count_nonzero(apart > _ROUNDED * scale)) if shapes[0] == shapes[1] else None
        found.append(WeightDifference(name, shapes[0], a.size, _rms(apart) / scale, float(apart.max()) / scale, count))
    return sorted(found, key=lambda w: (-w.distance, w.name))[:most]


def _weights(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    found: dict[str, ir.TensorProtocol] = {}
    for graph in model.graphs():
        tensors = {str(n): v.const_value for n, v in graph.initializers.items()}
        for node in graph:
            if node.op_type == "Constant" and not node.domain and node.outputs[0].const_value is None:
                tensors[str(node.outputs[0].name)] = ir.convenience.get_const_tensor(node.outputs[0])
        found |= {n: t for n, t in tensors.items() if t is not None and t.dtype.is_floating_point() and t.size}
    return found


def _comparable(own: Mapping[str, ir.TensorProtocol], other: Mapping[str, ir.TensorProtocol]) -> dict[str, np.ndarray]:
    """Return the weights with more than one number, and single numbers that the other side has under the same name."""
    return {n: np.ravel(_array(t)) for n, t in own.items() if t.size > 1 or (n in other and other[n].size == 1)}


def _array(tensor: ir.TensorProtocol) -> np.ndarray:
    return widened_array(tensor.numpy()).astype(np.float32)


def _fingerprint(array: np.ndarray) -> tuple[int, int, int]:
    """Return an order-independent fingerprint: size, and the sums of the bits and of their squares modulo 2**64."""
    bits = (array + np.float32(0)).view(np.uint32).astype(np.uint64)  # + 0: -0.0 is 0.0
    return array.size, int(bits.sum(dtype=np.uint64)), int((bits * bits).sum(dtype=np.uint64))


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the distance of two weights in any order, relative to the rms of the first; infinite for other sizes."""
    if a.size != b.size:
        return np.inf
    direct = _rms(a - b)
    apart = direct if direct == 0 else min(direct, _rms(np.sort(a) - np.sort(b)))
    return apart / _size(a)


def _apart(a: np.ndarray, b: np.ndarray, *shapes: tuple[int, ...]) -> np.ndarray:
    """Return the distances between the numbers of two weights, for messages.

    Weights of one shape are compared in place; square ones also transposed, if that is nearer. Weights of different
    shapes are compared in sorted order.
    """
    if shapes[0] != shapes[1]:
        return np.abs(np.sort(a) - np.sort(b))
    apart = np.abs(a - b)
    if len(shapes[0]) == 2 and shapes[0][0] == shapes[0][1]:
        turned = np.abs(a - np.ravel(b.reshape(shapes[0]).T))
        return min(apart, turned, key=_rms)
    return apart


def _shapes(sides: Sequence[Mapping[str, ir.TensorProtocol]], left: str, right: str) -> list[tuple[int, ...]]:
    return [tuple(tensors[name].shape.numpy()) for tensors, name in zip(sides, (left, right), strict=True)]


def _size(array: np.ndarray) -> float:
    """Return the rms of an array, at least the smallest normal float32."""
    return max(_rms(array), float(np.finfo(np.float32).tiny))


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))
