"""Add the outputs on special inputs to a verdict: FAIL for a difference, or a note if it is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError, Unsupported
from convert.graph.shape_inference import subgraphs
from convert.graph.tensors import widened_array
from convert.outcome.notes import Note
from convert.outcome.verdict import FAIL, PASS, Finding
from convert.parity.evidence import RunOutputs, runs_on
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.special import ROWS, TINY, special_difference
from convert.runtimes.differences import Difference

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class SpecialRun:
    """Outputs on the special inputs: the source's in float32 and float64, the graph's in float64, the target's.

    refused: the target's error if it rejected the inputs. In that case there are no outputs.
    """

    label: str
    source: Arrays
    exact: Arrays | None
    graph: Arrays | None
    target: Arrays
    refused: str = ""
    arrays: Arrays | None = None
    """The inputs themselves."""


def take_special(feeds: Sequence[Feed], runs: RunOutputs) -> tuple[list[Feed], RunOutputs, SpecialRun | None]:
    """Return feeds and runs without the special set, and the special run, which is in float32 only; None without one.

    If the target rejected the inputs, the special run has no outputs and says so in `refused`.
    """
    at = next((i for i, feed in enumerate(feeds) if feed.special), None)
    if at is None:
        empty = SpecialRun("", {}, None, None, {}, runs.refused) if runs.refused else None
        return list(feeds), runs, empty
    single = runs.source["float32"]
    if isinstance(single, Unsupported):
        return list(feeds), runs, None
    special = SpecialRun(feeds[at].label, single[at], None, None, runs.target[at], arrays=feeds[at].arrays)
    rest = [place for place in range(len(feeds)) if place != at]
    return [feeds[i] for i in rest], runs_on(runs, rest), special


def is_float64_needed(run: SpecialRun, graph: ir.Model) -> bool:
    """Return whether source and target differ in float32; otherwise runs in float64 are not needed.

    Runs in float64 can only excuse a difference.
    """
    pairs = zip(run.source.values(), graph.graph.outputs, strict=False)
    return not run.refused and any(special_difference(s, None, None, run.target[str(v.name)]) for s, v in pairs)


def judge_special(
    graph: ir.Model,
    run: SpecialRun,
    of_target: Sequence[Difference] = (),
    of_source: Sequence[Difference] = (),
) -> Finding:
    """Return FAIL if NaN, infinities or the numbers between them differ from the source's.

    These differences are notes, not failures:

    - The target rejects the inputs.
    - An operator that the output depends on has a declared difference: of the source's runtime if the graph differs
      too, else of the target's.
    - The target has numbers in place of NaN, or treats denormals as 0, and the graph is right.
    - NaN spreads within its row, unless the model tests for NaN. Resizing an image by matrix products, for example,
      gives NaN in whole rows and columns.
    """
    if run.refused:
        note = Note(f"special values are not verified: {run.refused}", code="special-unverified")
        return Finding(notes=(note,))
    failed, notes, slight = Finding(), list[Note](), dict[str, list[str]]()
    for position, value in enumerate(graph.graph.outputs):
        found, how = _judge_output(graph, run, position, value, (of_source, of_target))
        notes += found.notes
        failed = found if found.is_worse(failed.status) else failed
        if how:
            slight.setdefault(how, []).append(str(value.name))
    if failed.status == PASS:
        texts = (f"special values: {how}; {_outputs(names)}" for how, names in slight.items())
        notes += [Note(text, code="special-differs") for text in texts]
    return replace(failed, notes=tuple(notes))


_LOST, _SPREAD = (
    "the kernels of the target lose a NaN or a denormal",
    "NaN and infinities reach other elements than in the source",
)


def _judge_output(
    graph: ir.Model,
    run: SpecialRun,
    position: int,
    value: ir.Value,
    declared: tuple[Sequence[Difference], Sequence[Difference]],
) -> tuple[Finding, str]:
    """Return the finding on one output, and a description of the difference, or '' if it is a failure or declared.

    declared: differences of the source's runtime, and of the target's.
    """
    name = str(value.name)
    source = list(run.source.values())[position]
    exact = None if run.exact is None else list(run.exact.values())[position]
    computed = None if run.graph is None else run.graph.get(name)
    against = computed if exact is None else None
    found = special_difference(source, exact, against, run.target[name])
    if not found:
        return Finding(), ""

    def is_readers() -> bool:
        """Return whether the graph differs as well."""
        return exact is not None and computed is not None and bool(special_difference(source, exact, None, computed))

    got, known = run.target[name], set[str]()
    for differences, of_frontend in zip(declared, (True, False), strict=True):
        if not special_difference(source, exact, against, got):
            break
        if (is_readers() and not of_frontend) or not (excuses := _excuses(graph, value, differences, run.arrays)):
            continue
        known |= {str(e.node.op_type) for e in excuses}
        rows = _excused_rows(graph, name, excuses, run.arrays)
        got = _with_rows(got, source, rows)
        computed = None if computed is None else _with_rows(computed, source, rows)
    rest = special_difference(source, exact, against, got)
    operators = ", ".join(sorted(known))
    if not rest:
        text = f"{name}: on {run.label}, {found}; special values in {operators} differ, as other notes say"
        return Finding(notes=(Note(text, code="special-values", operators=sorted(known)),)), ""
    beside = f"in rows that no declared difference of {operators} affects, " if known else ""
    what = f"{name}: on {run.label}, {beside}{rest}"
    ours = is_readers()
    looks = any(node.op_type in _LOOKING for node in graph.graph.all_nodes())
    for how, why, possible, excused in (
        (_LOST, "its kernels lose a NaN, as fused activations and recurrent cells do", not ours, _with_nan),
        (_LOST, "its kernels take denormal numbers for 0", not ours and _have_denormals(run.arrays), _with_denormals),
        (_SPREAD, _SPREAD, not looks, _without_spread),
    ):
        if possible and not special_difference(source, exact, against, excused(got, source)):
            return Finding(notes=(Note(f"{what}: {why}", code="special-values"),)), how
    return Finding(FAIL, what, "frontend" if ours else "backend"), ""


_LOOKING = frozenset(("IsNaN", "IsInf"))
"""Operators by which a model itself tests for NaN or infinities."""


def _outputs(names: Sequence[str]) -> str:
    """Return which outputs differ, in one line for any number of outputs."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"output {names[0]}{more} (-vv shows where)"


def operators_behind(
    model: ir.Model, output: ir.Value, declared: Sequence[Difference], arrays: Arrays | None = None
) -> list[str]:
    """Return the operators with a declared difference that this output of `model` depends on, sorted.

    arrays: inputs of the model; if given, only differences that apply to the values of these operators are considered.
    """
    return sorted({str(excuse.node.op_type) for excuse in _excuses(model, output, declared, arrays)})


@dataclass(frozen=True)
class _Excuse:
    """An operator with a declared difference, and the rows of its inputs that the difference affects; None for all."""

    node: ir.Node
    rows: frozenset[int] | None = None


def _excuses(model: ir.Model, output: ir.Value, declared: Sequence[Difference], arrays: Arrays | None) -> list[_Excuse]:
    found: list[tuple[ir.Node, Difference]] = []
    pending, seen = [output], {output}
    while pending:
        value = pending.pop()
        node = value.producer()
        if node is None:
            continue
        found += [(node, d) for d in declared if d.excuses and d.of(node) and not (d.equal and value.index() == 0)]
        fresh = [v for v in _origins(model, node, value) if v is not None and v not in seen]
        seen.update(fresh)
        pending += fresh
    return [_Excuse(node) for node, _ in found] if arrays is None else _that_apply(model, found, arrays)


def _that_apply(model: ir.Model, found: Sequence[tuple[ir.Node, Difference]], arrays: Arrays) -> list[_Excuse]:
    """Return the excuses whose operators get values that the difference is about; all if the graph does not run.

    Operators in subgraphs are always included, because their inputs are not known.
    """
    from convert.reference.executor import run

    outer = {*model.graph.inputs, *(v for n in model.graph for v in n.outputs)}
    values_of = {
        node: [v for v in node.inputs if v is not None and v in outer]
        for node, difference in found
        if (difference.nonfinite or difference.equal) and node.graph is model.graph
    }
    names = {str(v.name) for values in values_of.values() for v in values if not v.is_graph_input()}
    try:
        values = {**arrays, **(run(model, arrays, outputs=sorted(names)) if names else {})}
    except _NOT_RUN:
        return [_Excuse(node) for node, _ in found]

    def excuse(node: ir.Node, difference: Difference) -> _Excuse:
        given = [values[str(v.name)] for v in values_of.get(node, ())]
        if not given or not (difference.nonfinite or difference.equal):
            return _Excuse(node)
        if difference.equal:
            return _Excuse(node, _rows_with_equal(given[0], node.attributes.get_int("axis", -1)))
        each = [_nonfinite_rows(array) for array in given]
        alike = len({len(array) for array, rows in zip(given, each, strict=True) if rows}) <= 1
        rows = [rows for rows in each if rows is not None]
        return _Excuse(node, frozenset().union(*rows) if alike and len(rows) == len(each) else None)

    excuses = [excuse(node, difference) for node, difference in found]
    return [e for e in excuses if e.rows is None or e.rows]


_NOT_RUN = (ConvertError, ArithmeticError, ValueError, LookupError)


def _nonfinite_rows(array: np.ndarray) -> frozenset[int] | None:
    """Return the rows along the first axis that have NaN or infinities; None if a scalar is not finite."""
    if array.dtype.kind in "OUSbiu":
        return frozenset()
    found = ~np.isfinite(widened_array(array))
    if not found.ndim:
        return None if found else frozenset()
    return frozenset(np.flatnonzero(found.reshape(len(found), -1).any(axis=1)).tolist()) if found.size else frozenset()


def _rows_with_equal(array: np.ndarray, axis: int) -> frozenset[int] | None:
    """Return the rows along the first axis that have equal elements along `axis`; None for all rows."""
    if not _has_equal(array, axis):
        return frozenset()
    if array.ndim < 2 or axis % array.ndim == 0:
        return None
    return frozenset(row for row in range(len(array)) if _has_equal(array[row : row + 1], axis))


def _excused_rows(
    model: ir.Model, name: str, excuses: Sequence[_Excuse], arrays: Arrays | None
) -> frozenset[int] | None:
    """Return the rows of an output that the differences may affect; None if they may affect all of it.

    Rows must be independent of each other. This is checked by giving the excused rows other numbers: the remaining rows
    must not change in any bit.
    """
    from convert.reference.executor import run

    counts = {len(a) if a.ndim else 0 for a in (arrays or {}).values()}
    if arrays is None or len(counts) != 1 or any(e.rows is None for e in excuses):
        return None
    (count,) = counts
    rows = frozenset().union(*(e.rows or () for e in excuses))
    kept = sorted(set(range(count)) - rows)
    if not kept or max(rows) >= count:
        return None
    others = {n: a.copy() for n, a in arrays.items()}
    for array in others.values():
        array[sorted(rows)] = array[kept[0]]
    try:
        before, after = (run(model, each, outputs=[name])[name] for each in (arrays, others))
    except _NOT_RUN:
        return None
    if before.shape != after.shape or not before.ndim or len(before) != count:
        return None
    pairs = zip(before[kept].ravel().tolist(), after[kept].ravel().tolist(), strict=True)
    return rows if all(a == b or (a != a and b != b) for a, b in pairs) else None


def _with_rows(output: np.ndarray, source: np.ndarray, rows: frozenset[int] | None) -> np.ndarray:
    """Return an output with the given rows taken from the source, or all of them (None)."""
    if rows is None:
        return source
    if output.shape != source.shape:
        return output
    mixed = output.copy()
    mixed[sorted(rows)] = source[sorted(rows)]
    return mixed


def _has_equal(array: np.ndarray, axis: int) -> bool:
    """Return whether elements along an axis are equal, or so close that rounding may make them equal."""
    if array.dtype.kind in "OUSc" or not array.ndim or array.shape[axis] < 2:
        return array.dtype.kind in "OUSc"
    rows = np.sort(widened_array(array).astype(np.float64), axis=axis)
    first, then = (np.take(rows, range(i, rows.shape[axis] - 1 + i), axis=axis) for i in (0, 1))
    with np.errstate(invalid="ignore"):
        apart = np.abs(then - first)
        near = np.isfinite(apart) & (apart <= 1e-5 * np.maximum(np.abs(then), np.abs(first)) + TINY)
    return bool((near | (then == first) | (np.isnan(then) & np.isnan(first))).any())


def _origins(model: ir.Model, node: ir.Node, value: ir.Value) -> list[ir.Value | None]:
    """Return the values that this output of a node is computed from: inputs, and outputs of subgraphs and functions."""
    if node.op_type in ("Shape", "Size", "EyeLike"):
        return []
    inputs = list(node.inputs)
    bodies = [body for attribute in node.attributes.values() for body in subgraphs(attribute)]
    if node.op_type == "If":
        return [*inputs, *(body.outputs[value.index() or 0] for body in bodies)]
    function = model.functions.get(node.op_identifier())
    made = [v for body in bodies for v in body.outputs]
    return [*inputs, *made, *(() if function is None else function.outputs)]


def _with_nan(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the target's output with NaN where the source has it."""
    if source.dtype.kind not in "fcV" or target.shape != source.shape or target.dtype != source.dtype:
        return target
    return np.where(np.isnan(source), source, target)


def _without_spread(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the target's output with its NaN and infinities replaced, in rows where the source has NaN or infinities
    too.
    """
    if source.dtype.kind not in "fV" or target.shape != source.shape or target.dtype != source.dtype or target.ndim < 2:
        return target
    mixed = target.copy()
    given = ~np.isfinite(widened_array(source)).reshape(len(source), -1).all(axis=1)
    spread = ~np.isfinite(widened_array(target))
    spread[~given] = False
    mixed[spread] = source[spread]
    return mixed


def _have_denormals(arrays: Arrays | None) -> bool:
    """Return whether some of the inputs are denormal numbers; True if the inputs are not known."""
    floats = None if arrays is None else [np.abs(a) for a in arrays.values() if a.dtype.kind == "f"]
    return floats is None or any(bool(((a > 0) & (a < np.finfo(a.dtype).tiny)).any()) for a in floats)


def _with_denormals(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the target's output with the source's rows of denormals, where the target repeats the result of its row of
    zeros.
    """
    first = ROWS - 1
    if target.shape != source.shape or target.dtype != source.dtype or target.ndim < 2 or len(target) < ROWS:
        return target
    zeros, denormals = target[first - 1], target[first:]
    same = (denormals == zeros) | ((denormals != denormals) & (zeros != zeros))
    return np.concatenate([target[:first], np.where(same, source[first:], denormals)])
