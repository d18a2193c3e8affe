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

from convert.graph.scaled_weights import scaled_weights
from convert.graph.tensors import widened_array
from convert.verdict import INCONCLUSIVE, Verdict

_LEAST = 16
"""Elements of a tensor that is compared: smaller ones are shapes, axes and scales, which converters rearrange."""
_ROUNDED = 1e-5
"""Largest distance of two numbers at one place that is rounding, relative to the root mean square of the tensor."""
_CHANGED = 0.5
"""Largest share of missing elements of a tensor that was changed in places, rather than folded into others."""
_BLOCK = 1 << 16
"""Elements that are hashed at a time, as many as stay in a core's cache. Of larger tensors a sample is remembered:"""
_SAMPLED = np.uint64(15)
"""the hashes without these bits, one of sixteen, and the same ones on both sides."""
_FEW, _MANY = 8, 1024
"""So many hashes of a sample are looked up; where there are fewer, all of the tensor's."""


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


def hold_weights(verdict: Verdict, graph: ir.Model, other: ir.Model, name: str) -> None:
    """Compare what source and target hold, in place: a weight that was changed in places is never PASS.

    graph: of the source. other: of the target, which is called `name`. Narrower numbers are not compared.
    """
    if verdict.stored:
        return
    compared = compare_held_numbers(graph, other)
    verdict.weights_summary = str(compared) if compared.tensors else ""
    if compared.changed:
        reason = f"{compared.changed[0]} are not in {name}, which no drawn input shows: {compared}"
        verdict.lower(INCONCLUSIVE, reason)


def compare_held_numbers(left: ir.Model, right: ir.Model) -> HeldNumbers:
    """Compare what two graphs hold by content, in any order of elements and of tensors.

    Each tensor is hashed once on either side; those that seem to have been changed in places are read once more.
    """
    ours = {name: _Mark.of(array) for name, array in held_arrays(left)}
    theirs = {name: _Mark.of(array) for name, array in held_arrays(right)}
    marks = Counter(mark.fingerprint for mark in theirs.values())
    rest = {}
    for name, mark in ours.items():
        if marks[mark.fingerprint]:
            marks[mark.fingerprint] -= 1
        else:
            rest[name] = mark
    known = np.sort(np.concatenate([np.zeros(0, np.uint64), *(mark.hashes for mark in theirs.values())]))
    seeming = {name for name, mark in rest.items() if mark.looks_like(theirs.get(name)) or mark.is_mostly_in(known)}
    if not seeming:
        return HeldNumbers(len(ours), folded=len(rest))
    others = _OtherSide([(n, array) for n, array in held_arrays(right) if marks[theirs[n].fingerprint] > 0])
    missing = {n: (array.size, others.missing(n, array)) for n, array in held_arrays(left) if n in seeming}
    changed = tuple(ChangedTensor(n, *counts) for n, counts in missing.items() if 0 < counts[1] <= _CHANGED * counts[0])
    same = sum(not count for _, count in missing.values())
    return HeldNumbers(len(ours), changed, len(rest) - len(changed) - same)


@dataclass(frozen=True)
class _Mark:
    """A tensor in short: a fingerprint that does not depend on the order of its elements, and hashes of these.

    hashes: of all elements of a tensor of up to `_BLOCK`, of a sample of a larger one.
    """

    fingerprint: tuple[object, ...]
    hashes: np.ndarray
    shape: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray) -> _Mark:
        flat, total, hashes = array.reshape(-1), 0, []
        for first in range(0, flat.size, _BLOCK):
            found = _hashes(_bits(flat[first : first + _BLOCK]))
            total = (total + int(found.sum(dtype=np.uint64))) % 2**64
            hashes.append(found if flat.size <= _BLOCK else _sampled(found))
        return _Mark((array.dtype.kind, array.size, total), np.concatenate(hashes), array.shape)

    def looks_like(self, other: _Mark | None) -> bool:
        """Return whether another tensor, of the same name, is of this kind and shape."""
        return other is not None and (other.fingerprint[0], other.shape) == (self.fingerprint[0], self.shape)

    def is_mostly_in(self, known: np.ndarray) -> bool:
        """Return whether most elements are among those of the sorted hashes."""
        sample = _sampled(self.hashes)
        sample = sample[:_MANY] if sample.size >= _FEW else self.hashes
        return _count_missing(sample, known) <= _CHANGED * sample.size


def held_arrays(model: ir.Model) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors of `_LEAST` elements and more that a graph and its subgraphs hold, with their names.

    These are weights, constants, and the tables of ONNX-ML's operators, such as the leaves of trees. Integers are
    int64, floats keep their dtype (bfloat16 as float64), words are objects. Of weights that are kept as integers with
    scales it is the numbers that they stand for: another format may have these in float32.
    """
    scaled = scaled_weights(model)
    readers = {use.node for weight in scaled for use in weight.uses()}
    scales = {value for node in readers if node.op_type == "DequantizeLinear" for value in node.inputs[1:]}
    for graph in model.graphs():
        for name, value in graph.initializers.items():
            if value.const_value is None or value.const_value.size < _LEAST or value in scales:
                continue
            yield str(name), scaled[value].numbers() if value in scaled else _content(value.const_value)
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


def _bits(array: np.ndarray) -> np.ndarray:
    """Return elements as uint64, the same for equal ones: numbers of any float dtype, integers, words."""
    if array.dtype.kind == "O":
        return np.fromiter((hash(str(word)) for word in array.ravel()), np.int64, array.size).view(np.uint64)
    wide = array.astype(np.float64) + 0.0 if array.dtype.kind == "f" else array  # + 0: -0.0 equals 0.0
    return np.ascontiguousarray(wide).ravel().view(np.uint64)


def _hashes(bits: np.ndarray) -> np.ndarray:
    """Return a hash of each element, whose sums differ where those of the bits themselves would not.

    The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
    """
    mixed = bits
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _sampled(hashes: np.ndarray) -> np.ndarray:
    return hashes[(hashes & _SAMPLED) == 0]


def _count_missing(wanted: np.ndarray, known: np.ndarray) -> int:
    """Count the numbers that are not among the sorted others."""
    if not known.size:
        return wanted.size
    places = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return int(np.count_nonzero(known[places] != wanted))


class _OtherSide:
    """The tensors of the second graph whose content is not in the first, to look elements up among."""

    def __init__(self, tensors: Sequence[tuple[str, np.ndarray]]) -> None:
        self.tensors = tensors
        self._sorted: dict[str, np.ndarray] = {}

    def missing(self, name: str, array: np.ndarray) -> int:
        """Count the elements of a tensor that no tensor here has.

        Beside a tensor of the same name and shape, those that differ there by more than rounding.
        """
        kind = array.dtype.kind
        for other_name, other in self.tensors:
            if other_name == name and other.shape == array.shape and other.dtype.kind == kind == "f":
                return _differing(array, other)
        if kind not in self._sorted:
            same = [_bits(other) for _, other in self.tensors if other.dtype.kind == kind]
            self._sorted[kind] = np.sort(np.concatenate(same)) if same else np.zeros(0, np.uint64)
        finite = np.isfinite(array).ravel() if kind == "f" else slice(None)
        return _count_missing(_bits(array)[finite], self._sorted[kind])


def _differing(one: np.ndarray, two: np.ndarray) -> int:
    """Count the finite elements that differ from those at the same place by more than rounding."""
    one, two = one.astype(np.float64), two.astype(np.float64)
    finite = np.isfinite(one)
    scale = np.sqrt(np.mean(np.square(one[finite]))) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(finite & ~(np.abs(one - two) <= _ROUNDED * scale)))
