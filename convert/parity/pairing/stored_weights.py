"""Puts the weights that a narrow target stores in the place of those that the shared graph has.

A file's layout, and often the order of its channels, is another than the graph's, and names tell nothing. But rounding
moves a weight by a small part of its size, and two weights of one network have nothing in common. So a weight is the
one whose numbers are nearest, under any order of its axes; or, where none is near, of its rows: gates of a recurrent
layer are reordered, and a dense layer behind a convolution is.
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
from convert.stored import StoredWeight

_NEAR = 0.5
"""A stored weight is at most so far from its source, relative to its root mean square; unrelated ones are 1.4 apart."""
_SAMPLE, _COLUMNS = 256, 64
"""So many elements of a weight, and of a row of one, are looked at to find its counterpart."""
_FEW = 4
"""Rows of fewer numbers may be near to others by chance."""
_ROUNDED = 1e-6
"""How far off numbers may be besides, relative to the largest of the weight: the scaling itself is in float32."""
_SHORT = 4
"""A number of so many bits is exact in any dtype."""
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)

Stored = tuple[np.ndarray, np.ndarray]
"""Numbers as they are stored, and how far each may be from its source."""


@dataclass
class PlacedWeights:
    """A graph that computes with stored weights.

    wrong: those that are not what their source is rounded to, in words. unpaired: the narrow weights of the target and
    the weights of the graph that have no counterpart; with any, the graph is not the target's. scalars: narrow numbers
    of the target whose place is not known, such as constants inside of an activation function.
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
            weight, found = np.hstack([both, none]), _counterpart(both, stored, used)  # some formats have one bias
            found = None if found is None else (np.hstack([found[0], none]), np.hstack([found[1], none]))
        if found is None:
            placed.unpaired += [str(name)] if np.ptp(weight) else []  # zeros and ones are left out, if not folded
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
        if numbers.size == 1 and other.scale is None and np.any(np.frexp(numbers)[0] * 2**_SHORT % 1):
            placed.scalars.append(other.name)
        alike = (stored[i].numbers() for i in used if stored[i].raw.size == numbers.size)
        if numbers.size > 1 and numbers.any() and not any(_has_same(numbers, each) for each in alike):
            placed.unpaired.append(other.name)
    return placed


def _has_same(one: np.ndarray, two: np.ndarray) -> bool:
    """Return whether two arrays have the same elements in some order, as transposed copies have."""
    return np.array_equal(np.sort(one.ravel()), np.sort(two.ravel()))


def _place_attributes(node: ir.Node, stored: Sequence[StoredWeight], used: set[int]) -> None:
    """Give a node the numbers of its attributes as they are stored, the scale of an Attention among them."""
    found = {a.name: a.as_float() for a in node.attributes.values() if a.type == ir.AttributeType.FLOAT}
    if node.op_type == "Attention" and "scale" not in found and node.inputs[0] is not None:
        heads = node.attributes.get_int("q_num_heads", 1)
        width = (known_dims(node.inputs[0]) or (None,))[-1]
        found |= {"scale": (heads / width) ** 0.5} if isinstance(width, int) else {}
    for name, number in found.items():
        if number and (stored_number := _whole(np.array(number), stored, used)) is not None:
            node.attributes[name] = ir.AttrFloat32(name, stored_number[0].item())


def _counterpart(weight: np.ndarray, stored: Sequence[StoredWeight], used: set[int]) -> Stored | None:
    """Return what is stored of a weight, in its shape; None where nothing is like it. Notes in `used` what it took."""
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
    """Return the nearest stored weight of the same sizes, in the shape of `weight`; None where none is near."""
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
                continue  # another number of the file
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
    """Return the sizes of an array without those of 1."""
    return tuple(n for n in array.shape if n > 1) or (1,)


def _by_rows(weight: np.ndarray, stored: Sequence[StoredWeight], used: set[int]) -> Stored | None:
    """Return each row of `weight`, along any of its axes, as the nearest row of all stored weights; None if not near.

    Rows of a few numbers may be near to any others by chance, and have to be within what is allowed.
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
    """Return for each row which of the others is nearest, by a sample of the columns."""
    columns = np.linspace(0, rows.shape[1] - 1, min(rows.shape[1], _COLUMNS)).astype(int)
    rows, others = rows[:, columns], others[:, columns]
    return np.argmin(np.sum(others**2, 1) - 2 * rows @ others.T, axis=1)
