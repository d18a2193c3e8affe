"""Compares the numbers and words that two graphs hold, because inputs seldom read all of them.

A changed row of an embedding of 50,000 rows, a label of a table or a leaf of a tree shows only on inputs that reach it.
But both graphs are at hand: what one holds in its weights, integer constants and tables, the other holds as well, in
whatever order and under whatever name. A tensor of which some elements are missing on the other side was changed in
these places; one of which all are missing was folded or scaled, and shows on every input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import widened_array

_LEAST = 16
"""Elements of a tensor that is compared: smaller ones are shapes, axes and scales, which converters rearrange."""
_ROUNDED = 1e-5
"""Largest distance of two numbers at one place that is rounding, relative to the root mean square of the tensor."""
_CHANGED = 0.5
"""Largest share of missing elements of a tensor that was changed in places, rather than folded into others."""
_SAMPLE = 1024
"""Elements that are looked up first: where most of them are missing, all are taken to be."""


@dataclass(frozen=True)
class ChangedTensor:
    """A tensor of the first graph of which `missing` of `size` elements are nowhere in the second."""

    name: str
    size: int
    missing: int

    def __str__(self) -> str:
        return f"{self.missing:,} of {self.size:,} elements of {self.name!r}"


@dataclass(frozen=True)
class HeldNumbers:
    """How many tensors of the first graph were compared, which were changed in places, and how many folded."""

    tensors: int
    changed: tuple[ChangedTensor, ...] = ()
    folded: int = 0

    def __str__(self) -> str:
        if not self.changed and not self.folded:
            return f"same weights (all {self.tensors} compared)"
        parts = [f"differ in places: {self._of_all(len(self.changed))}"] if self.changed else []
        parts += [f"folded or rescaled: {self._of_all(self.folded)}"] if self.folded else []
        return f"weights {', '.join(parts)}"

    def _of_all(self, count: int) -> str:
        return f"{count} of {self.tensors} tensors"


def compare_held_numbers(left: ir.Model, right: ir.Model) -> HeldNumbers:
    """Compare what two graphs hold by content, in any order of elements and of tensors.

    Only tensors whose content is not on the other side are in memory together.
    """
    marks = Counter(_fingerprint(array) for _, array in held_arrays(right))
    tensors, rest = 0, []
    for name, array in held_arrays(left):
        tensors += 1
        if not marks[mark := _fingerprint(array)]:
            rest.append((name, array))
        else:
            marks[mark] -= 1
    if not rest:
        return HeldNumbers(tensors)
    others = _OtherSide([(name, array) for name, array in held_arrays(right) if marks[_fingerprint(array)] > 0])
    changed, folded = [], 0
    for name, array in rest:
        missing = others.missing(name, array)
        if missing > _CHANGED * np.count_nonzero(array):
            folded += 1
        elif missing:
            changed.append(ChangedTensor(name, array.size, missing))
    return HeldNumbers(tensors, tuple(changed), folded)


def held_arrays(model: ir.Model) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors of `_LEAST` elements and more that a graph and its subgraphs hold, with their names.

    These are weights, constants, and the tables of ONNX-ML's operators, such as the leaves of trees. Integers are
    int64, floats keep their dtype (bfloat16 as float64), words are objects.
    """
    for graph in model.graphs():
        for name, value in graph.initializers.items():
            if value.const_value is not None and value.const_value.size >= _LEAST:
                yield str(name), _content(value.const_value)
        for node in graph:
            for attribute in node.attributes.values():
                array = _table(attribute)
                if array is not None and array.size >= _LEAST:
                    yield f"{node.name}.{attribute.name}", array


def _content(tensor: ir.TensorProtocol) -> np.ndarray:
    if tensor.dtype == ir.DataType.STRING:
        return np.array([word.decode(errors="replace") for word in tensor.numpy().ravel()], object)
    array = tensor.numpy()
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag])
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    return array if array.dtype.kind == "f" else widened_array(array)


def _table(attribute: ir.Attr) -> np.ndarray | None:
    """Return what an attribute holds as an array; None for graphs, single values and references."""
    if attribute.is_ref() or attribute.value is None:
        return None
    if attribute.type == ir.AttributeType.TENSOR:
        return _content(attribute.value)
    if attribute.type == ir.AttributeType.STRINGS:
        return np.array(list(attribute.value), object)
    if attribute.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS):
        return np.asarray(attribute.value)
    return None


def _fingerprint(array: np.ndarray) -> tuple[object, ...]:
    """Return what tensors of the same elements in any order have in common: a sum of a hash of each element."""
    if array.dtype.kind == "O":
        return ("text", *sorted(map(str, array.ravel())))
    # The finalizer of splitmix64 (Steele, Lea and Flood, 2014). Sums of the bits themselves would not see signs.
    mixed = _bits(array)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return array.dtype.kind, array.size, int(mixed.sum(dtype=np.uint64))


def _bits(array: np.ndarray) -> np.ndarray:
    """Return numbers as uint64, the same for equal ones of any float dtype."""
    wide = array.astype(np.float64) + 0.0 if array.dtype.kind == "f" else array  # + 0: -0.0 equals 0.0
    return np.ascontiguousarray(wide).ravel().view(np.uint64)


class _OtherSide:
    """The tensors of the second graph whose content is not in the first, to look elements up among."""

    def __init__(self, tensors: Sequence[tuple[str, np.ndarray]]) -> None:
        self.tensors = tensors
        self._sorted: dict[str, np.ndarray] = {}

    def missing(self, name: str, array: np.ndarray) -> int:
        """Count the elements of a tensor that no tensor here has; all of them as soon as a sample shows that most are.

        Beside a tensor of the same name and shape, those that differ there by more than rounding.
        """
        kind = array.dtype.kind
        for other_name, other in self.tensors:
            if other_name == name and other.shape == array.shape and other.dtype.kind == kind == "f":
                return _differing(array, other)
        if kind == "O":
            known = {str(word) for _, other in self.tensors if other.dtype.kind == "O" for word in other.ravel()}
            return sum(str(word) not in known for word in array.ravel())
        bits = _bits(array)[np.isfinite(array).ravel()]
        sample = bits[:: max(1, bits.size // _SAMPLE)]
        if self._unknown(sample, kind) > _CHANGED * sample.size:
            return array.size
        return self._unknown(bits, kind)

    def _unknown(self, bits: np.ndarray, kind: str) -> int:
        pool = self._pool(kind)
        if not pool.size:
            return bits.size
        places = np.minimum(np.searchsorted(pool, bits), pool.size - 1)
        return int(np.count_nonzero(pool[places] != bits))

    def _pool(self, kind: str) -> np.ndarray:
        if kind not in self._sorted:
            same = [_bits(array) for _, array in self.tensors if array.dtype.kind == kind]
            self._sorted[kind] = np.sort(np.concatenate(same)) if same else np.zeros(0, np.uint64)
        return self._sorted[kind]


def _differing(one: np.ndarray, two: np.ndarray) -> int:
    """Count the finite elements that differ from those at the same place by more than rounding."""
    one, two = one.astype(np.float64), two.astype(np.float64)
    finite = np.isfinite(one)
    scale = np.sqrt(np.mean(np.square(one[finite]))) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(finite & ~(np.abs(one - two) <= _ROUNDED * scale)))
