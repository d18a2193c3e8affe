"""Find boundary values of inputs: constants that a graph compares them with, keys of tables, thresholds of trees.

Random tokens are almost never the padding token, and random words are in no vocabulary. Random numbers always take one
path through a tree with thresholds in the thousands. Without boundary values, the other paths would not be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph.ensembles import is_ensemble, thresholds
from convert.graph.metadata import RANGE_KEY
from convert.graph.values import constant
from convert.parity.inputs.special import reaches_shapes

_PASSING = frozenset(
    {
        "Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice", "Split",
        "Gather", "GatherElements", "GatherND", "Tile",
    }
)  # fmt: skip
_COMPARING = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"})
_STEPS = {"Round": (-1.5, -0.5, 0.5, 1.5, 2.5), "Floor": (-1.0, 0.0, 2.0), "Ceil": (-1.0, 0.0, 2.0)}
"""Numbers at which rounding modes differ: halves, which random numbers never are, and integers."""
_KEYS = ("keys_strings", "keys_int64s", "keys_floats", "keys_tensor", "cats_strings", "cats_int64s", "pool_strings",
         "pool_int64s", "stopwords", "string_vocabulary", "int64_vocabulary")  # fmt: skip
_MOST = 1024
"""Most keys of a table that are used, spread evenly over all of them."""
_SHARE = 5
"""One in this many elements becomes a boundary value; half of the strings do, because no other is in a table."""
_WIDE = 2.0**31 - 2**8
"""Smallest bound that counts as saturation to int32: the largest float32 below 2**31 is 128 less."""
_LARGEST, _USUAL = 1e6, 16.0
"""Numbers above the first are limits of dtypes. Numbers above the second would hide the other elements."""


def uses_of_content(value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Yield every use of an input's elements, also behind moves and casts, as a node and the index of its input."""
    seen: set[int] = set()
    queue = [value]
    while queue:
        current = queue.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for node, index in current.uses():
            yield node, index
            passing = (node.op_type in _PASSING and index == 0) or node.op_type == "Concat"
            if passing or _is_choice(node, index) or _is_saturation(node, current):
                queue += node.outputs


def _is_choice(node: ir.Node, index: int) -> bool:
    return node.op_type == "Where" and index > 0


def _is_saturation(node: ir.Node, value: ir.Value) -> bool:
    """Return whether a node clamps a float to the range of int32 or int64, as saturating Casts are written."""
    if node.op_type not in ("Max", "Min", "Clip"):
        return False
    limits = [constant(v) for v in node.inputs if v is not None and v is not value]
    return all(t is not None and t.size == 1 and abs(float(t.numpy().reshape(()))) >= _WIDE for t in limits)


def may_be_negative(value: ir.Value) -> bool:
    """Return whether an input's integers may be negative: no indices, sizes or exponents, and no noted range."""
    signed = value.dtype is not None and value.dtype.is_integer() and value.dtype.is_signed()
    if not signed or RANGE_KEY in value.metadata_props or reaches_shapes(value):
        return False
    seen, queue = {id(value)}, [value]
    while queue:
        for node, _ in queue.pop().uses():
            if node.op_type in _NOT_NEGATIVE or node.op_type.startswith("Scatter"):
                return False
            whole = [v for v in node.outputs if v.dtype is None or v.dtype.is_integer()]
            queue += [v for v in whole if id(v) not in seen]
            seen |= set(map(id, whole))
    return True


_NOT_NEGATIVE = frozenset({"Gather", "GatherElements", "GatherND", "OneHot", "TensorScatter", "BitShift", "Pow"})


COUNTERPART_KEY = "convert.counterpart"
"""Key in the `meta` of an input for the input of the target's graph that it is compared with."""


def boundary_values(value: ir.Value, beside: bool = True) -> list[Any]:
    """Return the numbers or strings that an input is compared with or looked up among, in either graph, sorted.

    beside: whether to add two neighbours of each number: the adjacent integers, or for floats, the number plus and
    minus half of its size (at least a half).
    """
    steps = (-1, 0, 1) if beside else (0,)
    found: set[Any] = set()
    counterpart = value.meta.get(COUNTERPART_KEY)
    for each in (value,) if counterpart is None else (value, counterpart):
        for node, index in uses_of_content(each):
            found.update(_compared(node, index), _keys(node))
    if value.dtype == ir.DataType.STRING:
        return sorted(w for w in found if isinstance(w, str))
    numbers = [n for n in found if not isinstance(n, str) and np.isfinite(n)]
    if value.dtype is not None and value.dtype.is_integer():
        return sorted({int(n) + step for n in numbers if n == int(n) for step in steps})
    near = {n + step * max(abs(n), 1.0) / 2 for n in map(float, numbers) for step in steps}
    return sorted(n for n in near if abs(n) <= _LARGEST)


def _compared(node: ir.Node, index: int) -> list[Any]:
    """Return the constants that a node compares this input with."""
    if node.domain:
        return [node.attributes["threshold"].value] if "threshold" in node.attributes else []
    if node.op_type in ("Cast", "NonZero"):
        return [0.0] if node.op_type == "NonZero" or node.outputs[0].dtype == ir.DataType.BOOL else []
    if node.op_type in _STEPS:
        return list(_STEPS[node.op_type])
    if node.op_type not in _COMPARING and not (node.op_type == "Clip" and index == 0):
        return []
    tensors = map(constant, node.inputs)
    return [item for t in tensors if t is not None and t.size <= _MOST for item in _items(t)]


def _keys(node: ir.Node) -> list[Any]:
    """Return the lookup keys of a node that maps its single input through a table; [] for other nodes."""
    items: list[Any] = []
    for name in _KEYS:
        content = node.attributes[name].value if name in node.attributes else ()
        items += _items(content) if hasattr(content, "dtype") else list(content)
    step = max(1, len(items) // _MOST)
    return [item.decode(errors="replace") if isinstance(item, bytes) else item for item in items[::step]]


def _items(tensor: Any) -> list[Any]:
    if isinstance(tensor, ir.StringTensor):
        return [item.decode(errors="replace") for item in tensor.string_data()]
    items: list[Any] = np.asarray(tensor.numpy()).ravel().tolist()
    return items


def mix_boundary_values(value: ir.Value, array: np.ndarray, seed: int, end: int | None = None) -> np.ndarray:
    """Return the array with some elements replaced by boundary values; unchanged if none are known.

    end: one more than the largest integer that the input may have, if known. Then 0 and `end` - 1 are boundary values
    too.

    - The first set of inputs (seed 0) has boundary values for strings only; large numbers appear in every third set.
    - A single element takes each boundary value in turn.
    - In masks, some rows are true everywhere or nowhere.
    - In floating arrays of rank 3 or more, some whole rows are set, as masks of steps require.
    - Half of the values that a tree reads are sampled near its thresholds.
    - Inputs of Unique get some elements twice.
    """
    words, floating = array.dtype.kind == "O", array.dtype.kind == "f"
    if not array.size or not (words or seed):
        return array
    rng = np.random.default_rng([17, seed])
    changed = array.copy()
    if array.dtype.kind == "b" or (end == 2 and array.size > 1):
        return _with_whole_rows(changed, rng)
    if floating and array.ndim:
        _mix_thresholds(value, changed, rng)
        if any(node.op_type == "Unique" for node, _ in uses_of_content(value)):
            again = rng.permutation(array.ravel()).reshape(array.shape)
            changed = np.where(rng.random(array.shape) < 1 / _SHARE, again, changed)
    pool = [*boundary_values(value), *([0, end - 1] if end else [])]
    if array.dtype.kind in "iu":
        ends = np.iinfo(array.dtype)
        low, high = (0, end - 1) if end else (1, int(_USUAL)) if reaches_shapes(value) else (ends.min, ends.max)
        pool = [n for n in pool if max(low, ends.min) <= n <= min(high, ends.max)]
    elif not words and seed % 3 != 2:
        pool = [n for n in pool if abs(n) <= _USUAL]
    if not pool:
        return changed
    if array.size == 1:  # a mode or a word: use each value in turn, because random choice might miss some
        first = [v for v in boundary_values(value, beside=False) if v in pool]
        in_turn = [*first, *(v for v in pool if v not in first)]
        return np.full_like(array, in_turn[(seed - 1) % len(in_turn)])
    share = 2 if words else _SHARE
    drawn = np.array(pool, None if array.dtype.kind in "iu" else object)[rng.integers(0, len(pool), array.shape)]
    chosen = rng.random(array.shape) < 1 / share
    if floating and array.ndim > 2:  # padded steps have one number in all elements
        rows = rng.random((*array.shape[:-1], 1)) < 1 / share
        chosen = (chosen & (rng.random(array.shape) < 1 / share)) | rows
        drawn = np.where(rows, drawn[..., :1], drawn)
    return np.where(chosen, drawn, changed).astype(array.dtype)


def _with_whole_rows(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a mask with some rows of only true (or 1) and some of only false, which random masks almost never have."""
    rows = array.reshape(-1, array.shape[-1])
    if len(rows) > 2:
        order = rng.permutation(len(rows))
        some = max(1, len(rows) // (2 * _SHARE))
        rows[order[:some]], rows[order[some : 2 * some]] = True, False
    return rows.reshape(array.shape)


def _mix_thresholds(value: ir.Value, array: np.ndarray, rng: np.random.Generator) -> None:
    """Replace half of the numbers of each feature that a tree reads, in place, by thresholds and numbers near them."""
    for node, index in uses_of_content(value):
        if not is_ensemble(node) or index:
            continue
        features, values = thresholds(node)
        for feature in range(array.shape[-1]):
            mine = values[features == feature].astype(np.float64)
            if mine.size:
                around = rng.choice(mine, array.shape[:-1])
                spread = max(float(np.std(mine)), float(np.abs(mine).max()) / 8, 2.0**-10)
                around = around + spread * rng.standard_normal(around.shape) * (rng.random(around.shape) < 0.5)
                taken = rng.random(around.shape) < 0.5
                array[..., feature] = np.where(taken, around, array[..., feature])
