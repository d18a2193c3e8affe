"""Compare a pair beyond the limits that notes in its files set, so that no file chooses its own test inputs.

A verification first uses inputs within those limits, because the model is made for them. After a PASS it uses inputs
beyond them: sizes past each bound, sizes that break a condition, integers outside a range. A difference there is FAIL.
If the target does not run there, the verdict is INCONCLUSIVE, and the reason names the file that set the limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from math import prod

import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph.claims import Claims, claims_in_force
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.graph.tensors import numpy_dtype
from convert.outcome.notes import Note
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Finding, Verdict
from convert.parity.inputs.feeds import Spans, complete_sizes, fed_shape, feed_sizes, free_dims, integer_bound
from convert.parity.inputs.size_guards import broken_guards

Sizes = Mapping[str, int]

_MOST_ELEMENTS = 1 << 21
"""Most elements of all inputs together at sizes past a bound; larger sets are skipped."""
_MOST_SETS = 8
_SMALL, _MOST_DIMS = 9, 3
"""Sizes up to the first are tried for as many dims as the second, to find some that break a condition."""


def compare_beyond_claims(
    verdict: Verdict, graph: ir.Model, judge: Callable[[Sequence[Sizes], Spans], Verdict]
) -> Verdict:
    """Return the verdict, changed if inputs beyond a file's claims differ or do not run.

    judge: returns the verdict on input sets with these sizes and with integers within these limits.
    """
    claims = claims_in_force(graph)
    if verdict.status != PASS or not claims:
        return verdict
    whose = " and ".join(f"{each.describe()}, which {each.by} declares" for each in claims)
    with _without(graph, claims):
        sizes = _breaking_sizes(graph, claims)
        if not sizes and not any(each.ranges for each in claims):
            return verdict  # every size meets the conditions
        candidates = sizes or feed_sizes(graph, 3)
        sizes = [each for each in candidates if _elements(graph, each) <= _MOST_ELEMENTS][:_MOST_SETS]
        if not sizes:
            return _only_within(verdict, whose, "beyond that inputs are too large")
        spans = _spans_beyond(graph, claims, sizes[0])
        try:
            beyond = judge(sizes, spans)
        except ConvertError as error:  # the source's own error, so its limits are real
            text = f"compared at {whose}: beyond that the source does not run ({error.message})"
            return verdict.after(Finding(notes=(Note(text, code="limited-sizes"),)))
    verdict = replace(verdict, feeds=[*verdict.feeds, *(b for b in beyond.feeds if b not in verdict.feeds)])
    if beyond.status == PASS:
        return verdict
    if beyond.status == FAIL and beyond.outputs:
        return replace(beyond, reason=f"beyond {whose}: {beyond.reason}")
    return _only_within(verdict, whose, f"beyond that {beyond.reason}")


def _only_within(verdict: Verdict, whose: str, why: str) -> Verdict:
    return verdict.after(Finding(INCONCLUSIVE, f"compared at {whose}, only: {why}"))


@contextmanager
def _without(graph: ir.Model, claims: Sequence[Claims]) -> Iterator[None]:
    """Context manager: remove the claims from the metadata of the graph."""
    notes = dict(graph.metadata_props)
    ranges = {v: v.metadata_props[RANGE_KEY] for v in graph.graph.inputs if RANGE_KEY in v.metadata_props}
    bounds = json.loads(notes.get(DIMS_KEY, "{}"))
    guards = json.loads(notes.get(GUARDS_KEY, "[]"))
    for each in claims:
        bounds = {n: each.before.get(n, [1, None]) if n in each.bounds else b for n, b in bounds.items()}
        guards = [guard for guard in guards if guard not in each.guards]
    claimed = {name for each in claims for name in each.ranges}
    graph.metadata_props.update({DIMS_KEY: json.dumps(bounds), GUARDS_KEY: json.dumps(guards)})
    for value in ranges:
        if value.name in claimed:
            del value.metadata_props[RANGE_KEY]
    try:
        yield
    finally:
        graph.metadata_props.clear()
        graph.metadata_props.update(notes)
        for value, text in ranges.items():
            value.metadata_props[RANGE_KEY] = text


def _breaking_sizes(graph: ir.Model, claims: Sequence[Claims]) -> list[Sizes]:
    """Return sets of sizes that break a claim: among the usual ones, those next to a bound, and small ones."""
    usual = list(feed_sizes(graph, 3))
    free = {name: usual[0][name] for name in free_dims(graph)}
    tried = [*usual, *({**free, name: size + 1} for name, size in free.items())]
    for each in claims:
        for name, (low, high) in each.bounds.items():
            tried += [{**free, name: high + 1}] if high is not None else []
            tried += [{**free, name: low - 1}] if low is not None and low > 1 else []
    small = product(range(1, _SMALL + 1), repeat=min(len(free), _MOST_DIMS))
    tried += [{**free, **dict(zip(free, sizes, strict=False))} for sizes in small]
    whole = [complete_sizes(graph, {n: sizes[n] for n in free}) for sizes in tried]
    found = [sizes for sizes in whole if any(_breaks(sizes, each) for each in claims)]
    return [sizes for place, sizes in enumerate(found) if sizes not in found[:place]]


def _breaks(sizes: Sizes, claims: Claims) -> bool:
    outside = any(
        (low is not None and sizes[name] < low) or (high is not None and sizes[name] > high)
        for name, (low, high) in claims.bounds.items()
        if name in sizes
    )
    return outside or bool(broken_guards(claims.guards, sizes))


def _elements(graph: ir.Model, sizes: Sizes) -> int:
    return sum(prod(fed_shape(value, sizes)) for value in graph.graph.inputs)


def _spans_beyond(graph: ir.Model, claims: Sequence[Claims], sizes: Sizes) -> Spans:
    """Return limits of integers one beyond each end of a claimed range, by the name of the input."""
    spans: dict[str, tuple[int, int]] = {}
    for each in claims:
        for value in graph.graph.inputs:
            name = str(value.name)
            if name not in each.ranges or value.dtype is None:
                continue
            low, high = (integer_bound(bound, sizes) for bound in json.loads(each.ranges[name])[:2])
            unsigned = numpy_dtype(value.dtype).kind == "u"
            spans[name] = (max(low - 1, 0) if unsigned else low - 1, high + 1)
    return spans
