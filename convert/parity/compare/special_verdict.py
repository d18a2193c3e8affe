"""What the outputs on special inputs add to a verdict: FAIL for a difference, a note where one is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.differences import Difference
from convert.errors import ConvertError, Unsupported
from convert.graph.shape_inference import subgraphs
from convert.graph.tensors import widened_array
from convert.notes import Note
from convert.parity.evidence import RunOutputs, without_feed
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.special import ROWS, TINY, special_difference
from convert.verdict import FAIL, PASS, Verdict

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class SpecialRun:
    """Outputs on the special inputs: the source's in float32 and float64, the graph's in float64, the target's.

    refused: how the target did not take them; there are no outputs then.
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
    """The plain feeds and what became of them, and of the special one, where it was run: in float32 alone so far."""
    at = next((i for i, feed in enumerate(feeds) if feed.special), None)
    if at is None:
        empty = SpecialRun("", {}, None, None, {}, runs.refused) if runs.refused else None
        return list(feeds), runs, empty
    single = runs.source["float32"]
    if isinstance(single, Unsupported):
        return list(feeds), runs, None
    special = SpecialRun(feeds[at].label, single[at], None, None, runs.target[at], arrays=feeds[at].arrays)
    return [feed for feed in feeds if not feed.special], without_feed(runs, at), special


def is_float64_needed(run: SpecialRun, graph: ir.Model) -> bool:
    """Whether source and target differ, in float32: more runs to hold them to only ever excuse a difference."""
    pairs = zip(run.source.values(), graph.graph.outputs, strict=False)
    return not run.refused and any(special_difference(s, None, None, run.target[str(v.name)]) for s, v in pairs)


def judge_special(
    verdict: Verdict,
    graph: ir.Model,
    run: SpecialRun,
    of_target: Sequence[Difference] = (),
    of_source: Sequence[Difference] = (),
) -> None:
    """Lower the verdict, in place, if NaN, infinities or the numbers between them are not those of the source.

    Notes say what is no failure: a target that refuses the inputs; a declared difference of an operator that the output
    depends on, of the source's runtime if the graph is what differs, else of the target's; a target that has numbers in
    place of NaN, or takes denormals for 0, while the graph is right; NaN that spread inside of their row, unless the
    model looks for them. A stretched picture that is written as matrix products has NaN in whole rows and columns.
    """
    if run.refused:
        verdict.notes.append(Note(f"special values are not verified: {run.refused}", code="special-unverified"))
        return
    verdict.feeds.append(run.label)
    slight: dict[str, list[str]] = {}
    for position, value in enumerate(graph.graph.outputs):
        if how := _judge_output(verdict, graph, run, position, value, (of_source, of_target)):
            slight.setdefault(how, []).append(str(value.name))
    for how, names in slight.items() if verdict.status != FAIL else ():
        verdict.notes.append(Note(f"special values: {how}; {_outputs(names)}", code="special-differs"))


_LOST, _SPREAD = (
    "the kernels of the target lose a NaN or a denormal",
    "NaN and infinities reach other elements than in the source",
)


def _judge_output(
    verdict: Verdict,
    graph: ir.Model,
    run: SpecialRun,
    position: int,
    value: ir.Value,
    declared: tuple[Sequence[Difference], Sequence[Difference]],
) -> str:
    """Judge one output, in place; return how it differs if nothing declared explains that and it is no failure.

    declared: differences of the source's runtime, and of the target's.
    """
    name = str(value.name)
    source = list(run.source.values())[position]
    exact = None if run.exact is None else list(run.exact.values())[position]
    computed = None if run.graph is None else run.graph.get(name)
    against = computed if exact is None else None
    found = special_difference(source, exact, against, run.target[name])
    if not found:
        return ""

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
        text = f"{name}: on {run.label}, {found}; what {operators} make of special values differs, as other notes say"
        verdict.notes.append(Note(text, code="special-values", operators=sorted(known)))
        return ""
    beside = f"in rows where what {operators} make of special values is no reason, " if known else ""
    what = f"{name}: on {run.label}, {beside}{rest}"
    ours = is_readers()
    looks = any(node.op_type in _LOOKING for node in graph.graph.all_nodes())
    for how, why, possible, excused in (
        (_LOST, "its kernels lose a NaN, as fused activations and recurrent cells do", not ours, _with_nan),
        (_LOST, "its kernels take denormal numbers for 0", not ours, _with_denormals),
        (_SPREAD, _SPREAD, not looks, _without_spread),
    ):
        if possible and not special_difference(source, exact, against, excused(got, source)):
            verdict.notes.append(Note(f"{what}: {why}", code="special-values"))
            return how
    if verdict.status == PASS:
        verdict.lower(FAIL, what, "frontend" if ours else "backend")
    return ""


_LOOKING = frozenset(("IsNaN", "IsInf"))
"""Operators by which a model itself decides on NaN or infinities."""


def _outputs(names: Sequence[str]) -> str:
    """Return where the difference shows, in one line however many outputs there are."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"output {names[0]}{more} (-vv shows where)"


def operators_behind(
    model: ir.Model, output: ir.Value, declared: Sequence[Difference], arrays: Arrays | None = None
) -> list[str]:
    """The operators that are declared to differ and that the numbers of this output of `model` depend on.

    arrays: inputs of the model, on which the differences have to apply to what reaches these operators.
    """
    return sorted({str(excuse.node.op_type) for excuse in _excuses(model, output, declared, arrays)})


@dataclass(frozen=True)
class _Excuse:
    """An operator that is declared to differ, and the rows of its inputs that the difference is about: None for all."""

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
    """Those whose operators are given what the difference is about; all where that cannot be told, as in a branch."""
    from convert.reference.executor import run

    outer = {*model.graph.inputs, *(v for n in model.graph for v in n.outputs)}
    asked = {
        node: [v for v in node.inputs if v is not None and v in outer]
        for node, difference in found
        if (difference.nonfinite or difference.equal) and node.graph is model.graph
    }
    names = {str(v.name) for values in asked.values() for v in values if not v.is_graph_input()}
    try:
        values = {**arrays, **(run(model, arrays, outputs=sorted(names)) if names else {})}
    except _NOT_RUN:
        return [_Excuse(node) for node, _ in found]

    def excuse(node: ir.Node, difference: Difference) -> _Excuse:
        given = [values[str(v.name)] for v in asked.get(node, ())]
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
    """The rows along the first axis that have NaN or infinities; None for those of a scalar."""
    if array.dtype.kind in "OUSbiu":
        return frozenset()
    found = ~np.isfinite(widened_array(array))
    if not found.ndim:
        return None if found else frozenset()
    return frozenset(np.flatnonzero(found.reshape(len(found), -1).any(axis=1)).tolist()) if found.size else frozenset()


def _rows_with_equal(array: np.ndarray, axis: int) -> frozenset[int] | None:
    """The rows along the first axis that have equal elements along `axis`; None for all."""
    if not _has_equal(array, axis):
        return frozenset()
    if array.ndim < 2 or axis % array.ndim == 0:
        return None
    return frozenset(row for row in range(len(array)) if _has_equal(array[row : row + 1], axis))


def _excused_rows(
    model: ir.Model, name: str, excuses: Sequence[_Excuse], arrays: Arrays | None
) -> frozenset[int] | None:
    """The rows of an output that the differences may be about; None where they may be about all of it.

    Rows of the inputs have to go their own ways: those that nothing excuses stay what they are, bit by bit, when the
    others have other numbers.
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
    """An output with some rows of the source's, or all of them (None)."""
    if rows is None:
        return source
    if output.shape != source.shape:
        return output
    mixed = output.copy()
    mixed[sorted(rows)] = source[sorted(rows)]
    return mixed


def _has_equal(array: np.ndarray, axis: int) -> bool:
    """Whether elements along an axis are equal, or so near to each other that rounding may make them so."""
    if array.dtype.kind in "OUSc" or not array.ndim or array.shape[axis] < 2:
        return array.dtype.kind in "OUSc"
    rows = np.sort(widened_array(array).astype(np.float64), axis=axis)
    first, then = (np.take(rows, range(i, rows.shape[axis] - 1 + i), axis=axis) for i in (0, 1))
    with np.errstate(invalid="ignore"):
        apart = np.abs(then - first)
        near = np.isfinite(apart) & (apart <= 1e-5 * np.maximum(np.abs(then), np.abs(first)) + TINY)
    return bool((near | (then == first) | (np.isnan(then) & np.isnan(first))).any())


def _origins(model: ir.Model, node: ir.Node, value: ir.Value) -> list[ir.Value | None]:
    """The values that this output of a node is computed from: inputs, and what branches, rounds and functions give."""
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
    """The target's output with NaN where the source has it."""
    if source.dtype.kind not in "fcV" or target.shape != source.shape or target.dtype != source.dtype:
        return target
    return np.where(np.isnan(source), source, target)


def _without_spread(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the target's output with the source's elements for NaN and infinities in rows where it has some itself."""
    if source.dtype.kind not in "fV" or target.shape != source.shape or target.dtype != source.dtype or target.ndim < 2:
        return target
    mixed = target.copy()
    given = ~np.isfinite(widened_array(source)).reshape(len(source), -1).all(axis=1)
    spread = ~np.isfinite(widened_array(target))
    spread[~given] = False
    mixed[spread] = source[spread]
    return mixed


def _with_denormals(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The target's output with the source's rows of denormals, where the target has its row of zeros again there."""
    first = ROWS - 1
    if target.shape != source.shape or target.dtype != source.dtype or target.ndim < 2 or len(target) < ROWS:
        return target
    zeros, denormals = target[first - 1], target[first:]
    same = (denormals == zeros) | ((denormals != denormals) & (zeros != zeros))
    return np.concatenate([target[:first], np.where(same, source[first:], denormals)])
