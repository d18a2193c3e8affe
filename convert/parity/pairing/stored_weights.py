"""Replace the weights of the shared graph by those that a narrow target stores.

The layout of a file, and often the order of its channels, differs from the graph's, and names do not help. But rounding
moves a weight by a small part of its size, and two weights of one network are unrelated. The counterpart of a weight is
therefore the stored weight with the nearest numbers, under any order of its axes.

If none is near, the counterpart is searched row by row, because some rows are reordered. Examples are the gates of a
recurrent layer, and the inputs of a dense layer after a convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import widened_array
from convert.graph.values import known_dims
from convert.parity.magnitudes import rms
from convert.request.stored import StoredWeight

_NEAR = 0.5
"""Largest distance of a stored weight from its source, relative to its rms; unrelated weights are 1.4 apart."""
_SAMPLE, _COLUMNS = 256, 64
"""Number of elements of a weight, and of a row of one, that are compared to find its counterpart."""
_FEW = 4
"""Rows of fewer numbers than this may be near others by chance."""
_ROUNDED = 1e-6
"""Additional tolerance, relative to the largest number of the weight: the scaling itself is in float32."""
_SHORT = 4
"""Numbers whose mantissa has at most this many bits are exact in any dtype."""
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)

Stored = tuple[np.ndarray, np.ndarray]
"""Numbers as stored, and the allowed distance of each from its source."""


@dataclass
class PlacedWeights:
    """A graph that computes with stored weights.

    - wrong: descriptions of weights that are not the rounded source.
    - unpaired: narrow weights of the target, and weights of the graph, without a counterpart. If there are any, the
      graph is not the target's.
    - scalars: narrow numbers of the target whose place is not known, such as constants inside an activation function.
    """

    model: ir.Model
    wrong: list[str] = field(default_factory=list)
    unpaired: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)


def place_weights(model: ir.Model, stored: Sequence[StoredWeight]) -> PlacedWeights:
    """Replace the floating initializers of `model`, in place, by their counterparts among `stored`."""
    placed, used = PlacedWeights(model), set[int]()
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype not in _FLOATS or not value.uses():
            continue
        weight = widened_array(tensor.numpy())
        found = _counterpart(weight, stored, used)
        if found is None and any(use.idx == 3 and use.node.op_type in ("LSTM", "RNN") for use in value.uses()):
            both, none = weight.reshape(len(weight), 2, -1).sum(1), np.zeros((len(weight), weight.shape[1] // 2))
            weight, found = np.hstack([both, none]), _counterpart(both, stored, used)  # some formats store one bias
            found = None if found is None else (np.hstack([found[0], none]), np.hstack([found[1], none]))
        if found is None:
            placed.unpaired += [str(name)] if np.ptp(weight) else []  # formats may drop constant weights
            continue
        numbers, allowed = found
        apart, least = np.abs(numbers - weight), _ROUNDED * np.abs(weight).max()
        if wrong := int(np.count_nonzero(apart > 1.001 * allowed + least)):
            steps = float((apart / (2 * allowed + least)).max())
            placed.wrong.append(f"{wrong:,} of {weight.size:,} elements of {name!r}, by up to {steps:.2g} steps")
        value.const_value = ir.tensor(numbers.astype(tensor.numpy().dtype), name=tensor.name)
    for node in model.graph:
        _place_attributes(node, stored, used)
    for index, other in enumerate(stored):
        numbers = other.numbers() if index not in used and other.is_narrow else np.zeros(1)
        if numbers.size == 1 and other.scale is None and not _is_short(numbers.item()):
            placed.scalars.append(other.name)
        alike = (stored[i].numbers() for i in used if stored[i].raw.size == numbers.size)
        if numbers.size > 1 and numbers.any() and not any(_has_same(numbers, each) for each in alike):
            placed.unpaired.append(other.name)
    return placed


def _is_short(number: float) -> bool:
    """Return whether any dtype has this number exactly: infinite, NaN, or with a mantissa of at most `_SHORT` bits."""
    return not np.isfinite(number) or float(np.frexp(number)[0] * 2**_SHORT).is_integer()


def _has_same(one: np.ndarray, two: np.ndarray) -> bool:
    """Return whether two arrays have the same elements in some order, like transposed copies."""
    return np.array_equal(np.sort(one.ravel()), np.sort(two.ravel()))


def _place_attributes(node: ir.Node, stored: Sequence[StoredWeight], used: set[int]) -> None:
    """Replace the floating attributes of a node, including the default scale of Attention, by the stored numbers."""
    found = {a.name: a.as_float() for a in node.attributes.values() if a.type == ir.AttributeType.FLOAT}
    if node.op_type == "Attention" and "scale" not in found and node.inputs[0] is not None:
        heads = node.attributes.get_int("q_num_heads", 1)
        width = (known_dims(node.inputs[0]) or (None,))[-1]
        found |= {"scale": (heads / width) ** 0.5} if isinstance(width, int) else {}
    for name, number in found.items():
        if number and (stored_number := _whole(np.array(number), stored, used)) is not None:
            node.attributes[name] = ir.AttrFloat32(name, stored_number[0].item())


def _counterpart(weight: np.ndarray, stored: Sequence[StoredWeight], used: set[int]) -> Stored | None:
    """Return the stored numbers of a weight, in its shape; None if none are similar. Adds what it takes to `used`."""
    if not weight.any():
        return weight, np.zeros(weight.shape)
    found = _whole(weight, stored, used)
    if found is None and weight.size > 1:
        found = _by_rows(weight, stored, used)
    if found is None and weight.ndim > 1 and len(weight) == 2:  # the two directions of a recurrent layer
        parts = [_counterpart(part, stored, used) for part in weight]
        if parts[0] is not None and parts[1] is not None:
            return np.stack([parts[0][0], parts[1][0]]), np.stack([parts[0][1], parts[1][1]])
    return found


def _whole(weight: np.ndarray, stored: Sequence[StoredWeight], used: set[int]) -> Stored | None:
    """Return the nearest stored weight with the same sizes, in the shape of `weight`; None if none is near."""
    plain = weight.reshape(_sizes(weight))
    places = np.unravel_index(np.linspace(0, plain.size - 1, min(plain.size, _SAMPLE)).astype(int), plain.shape)
    best, chosen = _NEAR, None
    for index, other in enumerate(stored):
        if weight.size == 1 and other.scale is not None:
            continue
        for turned in _orders(other, plain.shape):
            sample = turned.moved(lambda array: array[places])
            distance = rms(sample.numbers() - plain[places]) / rms(plain[places])
            if weight.size == 1 and distance > sample.allowed().item() / abs(weight.item()) + _ROUNDED:
                continue  # an unrelated number of the file
            if distance < best:
                best, chosen = distance, (index, turned)
    if chosen is None:
        return None
    used.add(chosen[0])
    return chosen[1].numbers().reshape(weight.shape), chosen[1].allowed().reshape(weight.shape)


def _orders(weight: StoredWeight, shape: tuple[int, ...]) -> Iterator[StoredWeight]:
    """Yield the weight in each order of its axes that gives this shape."""
    sizes = _sizes(weight.raw)
    for order in permutations(range(len(sizes))):
        if tuple(sizes[i] for i in order) == shape:
            yield weight.moved(lambda array, order=order: array.reshape(sizes).transpose(order))  # type: ignore[misc]


def _sizes(array: np.ndarray) -> tuple[int, ...]:
    """Return the shape of an array without dims of size 1, and (1,) for a scalar."""
    return tuple(n for n in array.shape if n > 1) or (1,)


def _by_rows(weight: np.ndarray, stored: Sequence[StoredWeight], used: set[int]) -> Stored | None:
    """Replace each row of `weight`, along any of its axes, by the nearest stored row; return None if they are not near.

    Rows of a few numbers may be near others by chance, and must be within the allowed distance.
    """
    plain = weight.reshape(_sizes(weight))
    for axis in range(plain.ndim):
        rows = np.moveaxis(plain, axis, 0)
        pool = [
            (index, turned)
            for index, other in enumerate(stored)
            for count in set(other.raw.shape)
            if other.raw.size == count * rows[0].size > 1
            for turned in _orders(other, (count, *rows.shape[1:]))
        ]
        if not pool:
            continue
        numbers, allowed = (np.concatenate(a) for a in zip(*((w.numbers(), w.allowed()) for _, w in pool), strict=True))
        nearest = _nearest(rows.reshape(len(rows), -1), numbers.reshape(len(numbers), -1))
        found, may = numbers[nearest], np.broadcast_to(allowed, numbers.shape)[nearest]
        is_close = rows[0].size >= _FEW or (np.abs(found - rows) <= may + _ROUNDED).all()
        if is_close and rms(found - rows) <= _NEAR * rms(rows):
            ends = np.cumsum([len(w.raw) for _, w in pool])
            used.update(pool[i][0] for i in set(np.searchsorted(ends, nearest, side="right").tolist()))
            found, may = (np.moveaxis(a, 0, axis).reshape(weight.shape) for a in (found, may))
            return found, may
    return None


def _nearest(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the index of the nearest of `others` for each row, by a sample of the columns."""
    columns = np.linspace(0, rows.shape[1] - 1, min(rows.shape[1], _COLUMNS)).astype(int)
    rows, others = rows[:, columns], others[:, columns]
    return np.argmin(np.sum(others**2, 1) - 2 * rows @ others.T, axis=1)
