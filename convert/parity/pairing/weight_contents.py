"""Compare the numbers and strings that two graphs contain, because inputs seldom reach all of them.

A changed row of an embedding of 50,000 rows, a label of a table or a leaf of a tree shows only on inputs that reach it.
But both graphs are available: everything in the weights, integer constants and tables of one must be in the other, in
any order and under any name. If some elements of a tensor are missing on the other side, the tensor was changed there.
If all are missing, it was folded or scaled, which shows on every input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx_ir as ir

from convert.graph.ensembles import is_ensemble, numbers_of_ensemble
from convert.graph.scaled_weights import scaled_weights
from convert.graph.tensors import widened_array
from convert.graph.values import is_used
from convert.outcome.verdict import INCONCLUSIVE, Finding, Verdict
from convert.parity.pairing.attribute_changes import changed_attributes

_LEAST = 16
"""Smallest size of a tensor that is compared: smaller ones are shapes, axes and scales, which converters rearrange."""
_ROUNDED = 1e-5
"""Largest distance of two numbers at one index that counts as rounding, relative to the rms of the tensor."""
_CHANGED = 0.5
"""Largest share of missing elements in a tensor that was changed in places; others were folded."""
_BLOCK = 1 << 16
"""Elements that are hashed at a time, as many as fit in a core's cache. Larger tensors are sampled."""
_SAMPLED = np.uint64(15)
"""A sample has the hashes in which these bits are 0: one of sixteen, and the same ones on both sides."""
_FEW, _MANY = 8, 1024
"""At most `_MANY` hashes of a sample are looked up; if it has fewer than `_FEW`, all hashes of the tensor are."""


@dataclass(frozen=True)
class ChangedTensor:
    """A tensor of the first graph with `missing` of `size` elements that the second graph does not have."""

    name: str
    size: int
    missing: int

    def __str__(self) -> str:
        return f"{self.missing:,} of {self.size:,} elements of {self.name!r}"


@dataclass(frozen=True)
class WeightContents:
    """Tensors of the first graph: how many were compared, which changed in places, and how many were folded."""

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


def judge_weights(verdict: Verdict, graph: ir.Model, other: ir.Model, name: str) -> Verdict:
    """Return the verdict after comparing the weights of source and target: INCONCLUSIVE if one changed in places.

    Changed epsilons and axes have the same effect. graph: the source's. other: the target's. name: how the target is
    called. A verdict on narrower numbers is returned as it is.
    """
    if verdict.stored:
        return verdict
    compared = compare_weight_contents(graph, other)
    verdict = replace(verdict, weights_summary=str(compared) if compared.tensors else "")
    if compared.changed:
        reason = f"{compared.changed[0]} are not in {name}, which no drawn input shows: {compared}"
        verdict = verdict.after(Finding(INCONCLUSIVE, reason))
    if changed := changed_attributes(graph, other):
        reason = f"{changed[0]}, which {name} does not have, and no drawn input shows it"
        verdict = verdict.after(Finding(INCONCLUSIVE, reason))
    return verdict


def compare_weight_contents(left: ir.Model, right: ir.Model) -> WeightContents:
    """Compare the tensors of two graphs by content, in any order of elements and of tensors.

    Tensors with the same name and content are read once on each side. The others are hashed, and those that seem to be
    changed in places are read once more.
    """
    ours, theirs = readers_by_name(left), readers_by_name(right)
    same = {name for name in ours.keys() & theirs.keys() if _is_same(ours[name](), theirs[name]())}
    if len(same) == len(ours):
        return WeightContents(len(ours))
    mine = {name: _Mark.of(read()) for name, read in ours.items() if name not in same}
    others = {name: _Mark.of(read()) for name, read in theirs.items()}
    marks = Counter(mark.fingerprint for name, mark in others.items() if name not in same)
    rest = {}
    for name, mark in mine.items():
        if marks[mark.fingerprint]:
            marks[mark.fingerprint] -= 1
        else:
            rest[name] = mark
    known = np.sort(np.concatenate([np.zeros(0, np.uint64), *(mark.hashes for mark in others.values())]))
    seeming = {name for name, mark in rest.items() if mark.looks_like(others.get(name)) or mark.is_mostly_in(known)}
    if not seeming:
        return WeightContents(len(ours), folded=len(rest))
    left_over = [n for n, mark in others.items() if n not in same and marks[mark.fingerprint] > 0]
    other_side = _OtherSide({name: theirs[name]() for name in left_over})
    missing = {name: other_side.missing(name, ours[name]()) for name in ours if name in seeming}
    changed = tuple(
        ChangedTensor(name, size, count)
        for name, count in missing.items()
        if 0 < count <= _CHANGED * (size := ours[name]().size)
    )
    equal = sum(not count for count in missing.values())
    return WeightContents(len(ours), changed, len(rest) - len(changed) - equal)


def _is_same(one: np.ndarray, two: np.ndarray) -> bool:
    """Return whether two arrays are equal; NaN equals NaN."""
    return one.dtype == two.dtype and np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


@dataclass(frozen=True)
class _Mark:
    """Summary of a tensor: an order-independent fingerprint, and hashes of its elements.

    hashes: of all elements of a tensor with up to `_BLOCK` elements, of a sample of a larger one.
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
        """Return whether another tensor, with the same name, has the same kind and shape."""
        return other is not None and (other.fingerprint[0], other.shape) == (self.fingerprint[0], self.shape)

    def is_mostly_in(self, known: np.ndarray) -> bool:
        """Return whether most elements are among those of the sorted hashes."""
        sample = _sampled(self.hashes)
        sample = sample[:_MANY] if sample.size >= _FEW else self.hashes
        return _count_missing(sample, known) <= _CHANGED * sample.size


def readers_by_name(model: ir.Model) -> dict[str, Callable[[], np.ndarray]]:
    """Return functions that read the tensors of a graph and its subgraphs by name, at least `_LEAST` elements each.

    The tensors are weights, constants, and the tables of ONNX-ML's operators, such as the leaves of trees. Integers are
    read as int64, floats in their dtype (bfloat16 as float64), strings as objects. Weights stored as integers with
    scales are read as the real numbers that they represent, because another format may have these in float32. Weights
    that no node reads are left out: those of a recurrent layer were joined to others.
    """
    scaled, found = scaled_weights(model), dict[str, Callable[[], np.ndarray]]()
    readers = {use.node for weight in scaled for use in weight.uses()}
    scales = {value for node in readers if node.op_type == "DequantizeLinear" for value in node.inputs[1:]}
    for graph in model.graphs():
        for name, value in graph.initializers.items():
            if value.const_value is None or value.const_value.size < _LEAST or value in scales or not is_used(value):
                continue
            found[str(name)] = scaled[value].numbers if value in scaled else partial(_content, value.const_value)
        for node in graph:
            for name, array in _tables(node).items():
                if array.size >= _LEAST:
                    found[f"{node.name}.{name}"] = partial(np.asarray, array)
    return found


def _content(tensor: ir.TensorProtocol) -> np.ndarray:
    if tensor.dtype == ir.DataType.STRING:
        return np.array([word.decode(errors="replace") for word in tensor.numpy().ravel()], object)
    array = tensor.numpy()
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag])
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    return array if array.dtype.kind == "f" else widened_array(array)


def _tables(node: ir.Node) -> dict[str, np.ndarray]:
    """Return the numbers and strings that a node holds, by name."""
    if is_ensemble(node):
        return numbers_of_ensemble(node)
    arrays = {attribute.name: _table(attribute) for attribute in node.attributes.values()}
    return {name: array for name, array in arrays.items() if array is not None}


def _table(attribute: ir.Attr) -> np.ndarray | None:
    """Return the content of an attribute as an array; None for graphs, single values and references."""
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
    """Return elements as uint64, equal for equal elements: floats of any dtype, integers, strings."""
    if array.dtype.kind == "O":
        return np.fromiter((hash(str(word)) for word in array.ravel()), np.int64, array.size).view(np.uint64)
    wide = array.astype(np.float64) + 0.0 if array.dtype.kind == "f" else array  # + 0: -0.0 equals 0.0
    return np.ascontiguousarray(wide).ravel().view(np.uint64)


def _hashes(bits: np.ndarray) -> np.ndarray:
    """Return a hash of each element. Sums of hashes differ where sums of the bits themselves might be equal.

    This is the finalizer of splitmix64 (Steele, Lea and Flood, 2014).
    """
    mixed = bits
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _sampled(hashes: np.ndarray) -> np.ndarray:
    return hashes[(hashes & _SAMPLED) == 0]


def _count_missing(wanted: np.ndarray, known: np.ndarray) -> int:
    """Return how many of the numbers are not in the sorted array."""
    if not known.size:
        return wanted.size
    places = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return int(np.count_nonzero(known[places] != wanted))


class _OtherSide:
    """Tensors of the second graph whose content is not in the first, for looking up elements."""

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        self.tensors = tensors
        self._sorted: dict[str, np.ndarray] = {}

    def missing(self, name: str, array: np.ndarray) -> int:
        """Return how many elements of a tensor are in no tensor here.

        If a floating tensor of the same name and shape is here, count the elements that differ from it by more than
        rounding.
        """
        kind = array.dtype.kind
        other = self.tensors.get(name)
        if other is not None and other.shape == array.shape and other.dtype.kind == kind == "f":
            return _differing(array, other)
        if kind not in self._sorted:
            same = [_bits(other) for other in self.tensors.values() if other.dtype.kind == kind]
            self._sorted[kind] = np.sort(np.concatenate(same)) if same else np.zeros(0, np.uint64)
        finite = np.isfinite(array).ravel() if kind == "f" else slice(None)
        return _count_missing(_bits(array)[finite], self._sorted[kind])


def _differing(one: np.ndarray, two: np.ndarray) -> int:
    """Return how many finite elements differ from those at the same index by more than rounding."""
    one, two = one.astype(np.float64), two.astype(np.float64)
    finite = np.isfinite(one)
    scale = np.sqrt(np.mean(np.square(one[finite]))) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(finite & ~(np.abs(one - two) <= _ROUNDED * scale)))
