"""Finds the nodes that cannot be computed in a 16-bit dtype, from a float64 run instead of a list of operators.

Each node is computed twice: on exact inputs, and on inputs rounded to the dtype. A node stays in float32 if its numbers
do not fit into the dtype, or if its result changes by far more than rounding explains. The nodes that feed it stay in
float32, too. So the angle of position 1,000 stays (its cosine would be arbitrary), and so does a norm's epsilon that
would round to 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.activity import check_time
from convert.graph.values import constant, is_random_node, known_dims
from convert.passes.to_float64 import widen_model
from convert.reference.control import CONTROL
from convert.reference.executor import Executor, input_arrays, read_values

_DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
_MARGIN = 4.0
"""Safety factor: other inputs may produce values this many times as large."""
_ROUNDINGS = 32.0
"""Largest acceptable error of a result, in roundings, relative to its root mean square."""
_ROUNDS = 12
_MANY = 1 << 16
"""Elements from which on an array is tested for a faster way of rounding."""

Feeds = Sequence[Mapping[str, np.ndarray]]


def wide_outputs(model: ir.Model, feeds: Feeds, dtype: str) -> dict[str, str]:
    """Return the nodes that must stay in float32, as the names of their first outputs, each with the reason.

    `model` must be at the canonical opset, in float32, and is not modified. `dtype` is `float16` or `bfloat16`. Raises
    as the reference executor does.
    """
    wide = widen_model(model)
    return _wide_outputs(wide, feeds, _DTYPES[dtype])


def half_precision_outputs(model: ir.Model, feeds: Feeds, dtype: str) -> list[dict[str, np.ndarray]]:
    """Return the float64 outputs of `model` with every value rounded to `dtype`.

    Nodes that must stay in float32 are not rounded.
    """
    wide = widen_model(model)
    kept = _wide_outputs(wide, feeds, _DTYPES[dtype])
    names = {str(v.name) for n in wide.graph if n.outputs and n.outputs[0].name in kept for v in n.outputs}
    found = []
    for feed in feeds:
        executor = _Rounded(_DTYPES[dtype], names)
        with np.errstate(all="ignore"):
            results = executor.graph(wide.graph, input_arrays(wide.graph, feed))
        found.append({str(v.name): x for v, x in zip(wide.graph.outputs, results, strict=True)})
    return found


def unbounded_outputs(model: ir.Model, feeds: Feeds) -> set[str]:
    """Return the nodes with unbounded inputs or outputs, as the names of their first outputs.

    256 steps cannot represent such numbers.

    Unbounded means infinite, or beyond the range of float16; such numbers usually are masks. `model` and exceptions are
    as for `wide_outputs`.
    """
    wide = widen_model(model)
    found: set[str] = set()
    for feed in feeds:
        sizes = _Sizes()
        with np.errstate(all="ignore"):
            sizes.graph(wide.graph, input_arrays(wide.graph, feed))
        found |= sizes.unbounded
    return found


def is_unbounded(array: np.ndarray) -> bool:
    """Return whether an array has infinities, or numbers beyond the range of float16."""
    return bool((np.abs(array) > np.finfo(np.float16).max).any())


def rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the array rounded to `dtype`, in its own dtype."""
    if array.dtype == np.float64 and array.size > _MANY:
        # numpy rounds float32 with the processor's instruction, in a fraction of the time; weights are of float32.
        single = array.astype(np.float32)
        if np.array_equal(single, array):
            return single.astype(dtype).astype(array.dtype)
    return array.astype(dtype).astype(array.dtype)


def largest_finite(dtype: str) -> float:
    """Return the largest finite number of `float16` or `bfloat16`."""
    return float(ml_dtypes.finfo(_DTYPES[dtype]).max)


def _wide_outputs(wide: ir.Model, feeds: Feeds, dtype: np.dtype) -> dict[str, str]:
    kept = _counting_nodes(wide.graph)
    for round_ in range(_ROUNDS):
        found: dict[str, str] = {}
        for feed in feeds:
            probe = _Probe(dtype, kept, every=round_ == 0)
            with np.errstate(all="ignore"):
                probe.run(wide.graph, input_arrays(wide.graph, feed))
            found = {**probe.found, **found}
        new = {name: reason for name, reason in found.items() if name not in kept}
        for node in wide.graph:
            name = _name(node)
            if name in found and found[name].startswith(_MOVED):
                for feeder in _feeders(node, kept):
                    if _name(feeder) not in {**kept, **new}:
                        new[_name(feeder)] = f"it feeds {node.op_type}"
        if not new:
            break
        kept.update(new)
    return kept


def _counting_nodes(graph: ir.Graph) -> dict[str, str]:
    """Return the nodes that compute only with constants and with integers cast to floats, with the reason.

    The integers have at least 16 bits.

    These are positions, sizes and counts, which grow with the user's inputs. float16 represents integers up to 2,048
    only, bfloat16 up to 256, and the inputs that are tried are short.
    """
    found: dict[str, str] = {}
    counts: set[ir.Value] = set()
    fixed: set[ir.Value] = set()
    for node in graph:
        floats = [v for v in node.inputs if v is not None and v.dtype in _FLOATS]
        if node.op_type == "Cast" and node.inputs[0] is not None and node.inputs[0].dtype in _INTEGERS:
            is_count = node.outputs[0].dtype in _FLOATS
        else:
            able = node.op_type in _COUNTING or _is_outer_product(node)
            if node.domain or not able or not all(v in counts or v in fixed or constant(v) is not None for v in floats):
                continue
            is_count = any(v in counts for v in floats)
        (counts if is_count else fixed).update(v for v in node.outputs if v.dtype in _FLOATS)
        if is_count:
            found[_name(node)] = "it computes positions, sizes or counts"
    return found


def _is_outer_product(node: ir.Node) -> bool:
    left = node.inputs[0] if node.op_type == "MatMul" else None
    dims = None if left is None else known_dims(left)
    return dims is not None and dims[-1:] == (1,)


_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_INTEGERS = (
    ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64,
    ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64,
)  # fmt: skip
_COUNTING = frozenset(
    {"Abs", "Add", "Ceil", "Clip", "Cos", "Div", "Exp", "Floor", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Pow"}
    | {"Reciprocal", "Round", "Sign", "Sin", "Sqrt", "Sub", "Where", "CumSum", "Range", "Cast"}
    | {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
    | {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Concat", "Expand", "Flatten", "Gather", "Identity", "Pad"}
    | {"Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)

_MOVED = "rounding moves"


class _Sizes(Executor):
    """A reference executor that records the nodes with unbounded inputs or outputs."""

    def __init__(self) -> None:
        super().__init__(set(), False)
        self.unbounded: set[str] = set()

    def _run(self, node: ir.Node) -> None:
        inputs = [self.get(v) for v in node.inputs] if self.depth == 1 else []
        super()._run(node)
        if self.depth == 1 and node.outputs:
            arrays = [*inputs, *(self.values[v] for v in node.outputs if v in self.values)]
            if any(_floats(a) and is_unbounded(a) for a in arrays):
                self.unbounded.add(_name(node))


class _Rounded(Executor):
    """A reference executor that rounds the values of the outermost graph, except those that stay wide."""

    def __init__(self, dtype: np.dtype, wide: set[str]) -> None:
        super().__init__(set(), False)
        self.dtype, self.wide = dtype, wide

    def get(self, value: ir.Value | None) -> Any:
        array = super().get(value)
        if value is None or value.const_value is None or not _floats(array) or self._only_wide(value):
            return array
        return self._fitting(array)

    def _only_wide(self, value: ir.Value) -> bool:
        """Return whether only nodes that stay wide read a constant."""
        return all(use.node.outputs[0].name in self.wide for use in value.uses())

    def _store(self, value: ir.Value, array: Any) -> None:
        if self.depth == 1 and _floats(array) and value.name not in self.wide:
            array = self._fitting(array)
        super()._store(value, array)

    def _fitting(self, array: np.ndarray) -> np.ndarray:
        """Return the array rounded; numbers that the dtype cannot represent stay, as in an artefact."""
        narrow = rounded(array, self.dtype)
        return np.where(np.isfinite(array) & ~np.isfinite(narrow), array, narrow)


class _Probe(Executor):
    """A reference executor that evaluates each node of the outermost graph a second time, with rounded inputs."""

    def __init__(self, dtype: np.dtype, wide: Mapping[str, str], *, every: bool = True) -> None:
        """every: False evaluates nodes that stay wide only. The others depend on exact inputs alone, so that the first
        run has found what there is.
        """
        super().__init__(set(), False)
        self.dtype, self.wide, self.every_node = dtype, wide, every
        self.inside: dict[ir.Value, Any] = {}
        """Values between nodes that stay wide: computed from rounded inputs, but not rounded themselves."""
        self.found: dict[str, str] = {}
        self.fetched: dict[ir.Value, Any] = {}
        """The inputs of the current node: reading a weight widens it, which takes long."""
        self.unit = float(ml_dtypes.finfo(dtype).eps) / 2
        self.largest = float(ml_dtypes.finfo(dtype).max)

    def run(self, graph: ir.Graph, inputs: Sequence[np.ndarray]) -> None:
        """Evaluate the nodes on these inputs; without `every`, only those that nodes that stay wide need."""
        needed = set(graph if self.every_node else _needed(graph, self.wide))
        self.depth = 1
        for value, array in zip(graph.inputs, inputs, strict=True):
            self._store(value, array)
        for node, dead in self._plan(graph):
            check_time()
            if node in needed:
                self._run(node)
            for value in dead:
                self.values.pop(value, None)

    def get(self, value: ir.Value | None) -> Any:
        return self.fetched[value] if value in self.fetched else super().get(value)

    def _run(self, node: ir.Node) -> None:
        probed = self.depth == 1 and (self.every_node or _name(node) in self.wide)
        inputs = [self.get(v) for v in node.inputs] if probed else []
        self.fetched = {v: x for v, x in zip(node.inputs, inputs, strict=False) if v is not None}
        super()._run(node)
        self.fetched = {}
        if probed and node.outputs:
            self.inside = {v: x for v, x in self.inside.items() if v in self.values}
            if reason := self._reason(node, inputs):
                self.found.setdefault(_name(node), reason)

    def _reason(self, node: ir.Node, inputs: list[Any]) -> str:
        """Return why the node must stay in float32, or ""."""
        if node.op_type in CONTROL and node.domain == "":
            return "it has graphs of its own"
        outputs = [(v, self.values[v]) for v in node.outputs if v in self.values]
        for value, array in (*zip(node.inputs, inputs, strict=True), *outputs):
            if value is None or not _floats(array):
                continue
            margin = 1.0 if value.const_value is not None else _MARGIN
            size = _largest(array)
            if size * margin > self.largest:
                return f"numbers up to {size:.1e}"
            if value.const_value is not None and array.size == 1 and self._is_lost(array):
                return f"the number {float(array.reshape(())):.1e}, which would be another"
        floating = any(map(_floats, inputs))
        return self._moved(node, inputs, outputs) if floating and not is_random_node(node) else ""

    def _is_lost(self, array: np.ndarray) -> bool:
        """Return whether a number is too small for the dtype to keep its digits."""
        return bool((np.abs(rounded(array, self.dtype) - array) > 2 * self.unit * np.abs(array)).any())

    def _moved(self, node: ir.Node, inputs: list[Any], outputs: list[tuple[ir.Value, Any]]) -> str:
        """Return a phrase that says how much rounded inputs change the outputs, if that is too much; else ""."""
        wide = _name(node) in self.wide
        given = [self._rounded_input(v, x, wide) for v, x in zip(node.inputs, inputs, strict=True)]
        try:
            results: Sequence[Any] = self.results(node, given)
        except Exception as error:  # any exception: an exact kernel may reject a rounded number
            return f"{_MOVED} it so that it fails ({type(error).__name__})"
        for value, result in zip(node.outputs, results, strict=False):
            if wide and _floats(result):
                self.inside[value] = result
        for value, exact in outputs:
            result = np.asarray(results[list(node.outputs).index(value)])
            stored = result if wide or not _floats(result) else rounded(result, self.dtype)
            if reason := self._difference(exact, stored):
                return reason
        return ""

    def _rounded_input(self, value: ir.Value | None, array: Any, wide: bool) -> Any:
        if value is None or not _floats(array):
            return array
        if wide and value in self.inside:
            return self.inside[value]
        return array if wide and value.const_value is not None and array.size == 1 else rounded(array, self.dtype)

    def _difference(self, exact: Any, result: Any) -> str:
        if not isinstance(exact, np.ndarray) or exact.dtype.kind not in "fiub":
            return ""
        if exact.shape != result.shape:
            return f"{_MOVED} its shape"
        if exact.dtype.kind != "f":
            return "" if np.array_equal(exact, result) else f"{_MOVED} integers or conditions"
        finite = np.isfinite(exact)
        if not np.array_equal(finite, np.isfinite(result)):
            return f"{_MOVED} numbers to infinity or NaN"
        scale = _rms(exact[finite])
        error = _rms(result[finite] - exact[finite])
        if scale and error > _ROUNDINGS * self.unit * scale:
            return f"{_MOVED} it by {error / scale:.1%}"
        return ""


def _needed(graph: ir.Graph, wide: Mapping[str, str]) -> list[ir.Node]:
    """Return the nodes of these names, and the ones that they need, the last first."""
    found, wanted = [], set[ir.Value]()
    for node in reversed(list(graph)):
        if (node.outputs and _name(node) in wide) or wanted.intersection(node.outputs):
            wanted.update(read_values(node))
            found.append(node)
    return found


def _feeders(node: ir.Node, wide: Mapping[str, str]) -> list[ir.Node]:
    """Return the nearest nodes before `node` whose results are rounded, looking through nodes that stay wide."""
    found, pending, seen = [], [node], {node}
    while pending:
        for value in pending.pop().inputs:
            before = value.producer() if value is not None else None
            if before is None or before in seen or before.outputs[0].dtype != ir.DataType.DOUBLE:
                continue
            seen.add(before)
            if _name(before) in wide:
                pending.append(before)
            else:
                found.append(before)
    return found


def _name(node: ir.Node) -> str:
    return str(node.outputs[0].name)


def _floats(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size > 0


def _largest(array: np.ndarray) -> float:
    """Return the largest absolute value among the finite elements, 0 without any."""
    size = float(max(array.max(), -array.min()))
    return size if np.isfinite(size) else float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array)))) if array.size else 0.0
