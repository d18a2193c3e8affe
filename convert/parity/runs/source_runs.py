"""Find inputs that a source accepts if it rejects the random ones: other integers, other sizes, the user's examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from convert.errors import BrokenPackage, ConvertError, NotLoaded, ResourceLimit, Unsupported, UsageError
from convert.outcome.notes import Note
from convert.parity.evidence import RunOutputs
from convert.parity.inputs.feeds import (
    GIVEN,
    Feed,
    Spans,
    closer_spans,
    feed_sizes,
    free_dims,
    possible_sizes,
)
from convert.parity.inputs.size_search import OTHER_INPUTS, describe_search, search_sizes
from convert.parity.method import VerifyMethod
from convert.request.options import Options
from convert.request.source import Source

Run = Callable[[Sequence[Feed]], RunOutputs]
Draw = Callable[[Sequence[Mapping[str, int]], Spans], list[Feed]]
"""Returns feeds with these sizes and integers; without sizes, usual ones with equal spatial dims."""


class RunFailure(ConvertError):
    """Error: the frontend's graph or the backend's target did not run, although the source did."""

    def __init__(self, at_fault: str, error: ConvertError) -> None:
        super().__init__(error.sentence, hint=error.hint)
        self.at_fault, self.error = at_fault, error


class _SourceRefusal(Exception):
    """The source does not run on some inputs."""

    def __init__(self, error: ConvertError) -> None:
        super().__init__(error.message)
        self.error = error


def run_where_it_runs(
    run: Run,
    draw: Draw,
    feeds: Sequence[Feed],
    source: Source,
    graph: ir.Model,
    options: Options,
    method: VerifyMethod,
) -> tuple[RunOutputs, list[Feed], list[Note]]:
    """Return the outputs of `run`, the feeds that they belong to, and notes on unusual inputs.

    If the source rejects `feeds`, these inputs are tried in turn:

    1. equal spatial dims
    2. smaller ranges of integers
    3. other sizes of the dynamic dims
    4. the integers of the user's example
    5. the user's example alone

    If no output has an element, longer dims are tried. Raises the source's error if nothing helps, or if the user chose
    the inputs.
    """
    try:
        runs, taken = _run(run, feeds)
        longer = _longer_runs(run, draw, graph) if method.arrays is None and _is_empty(runs) else None
        return longer or (runs, taken, [])
    except _SourceRefusal as refusal:
        if method.arrays is not None:
            raise refusal.error from None
        first = refusal.error
    limited = [(spans, _note_on_integers(spans)) for spans in closer_spans(graph, options.examples)]
    for found, note in _usual_sizes(draw, feeds, limited):
        try:
            return *_run(run, found), [note]
        except _SourceRefusal:
            pass
    searched = _run_other_sizes(run, draw, source, graph, options, method, first, limited[-1:])
    if not isinstance(searched, ConvertError):
        return searched
    return _run_example(run, draw, graph, [feed for feed in feeds if feed.label == GIVEN], first, searched)


def _usual_sizes(
    draw: Draw, feeds: Sequence[Feed], limited: Sequence[tuple[Spans, Note]]
) -> Iterator[tuple[list[Feed], Note]]:
    """Yield feeds with equal spatial dims, unless `feeds` have them, and with smaller integers; a note for each."""
    alike = draw((), {})
    if [feed.label for feed in alike if not feed.edge] != [feed.label for feed in feeds if not feed.edge]:
        text = "the source does not run where the sides of its inputs are not alike: compared with such as are"
        yield alike, Note(text, code="limited-sizes")
    for spans, note in limited:
        yield draw((), spans), note


def _note_on_integers(spans: Spans) -> Note:
    shown = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in spans.items())
    text = f"the source does not run on every integer: compared with {shown} (--inputs gives others)"
    return Note(text, code="limited-inputs")


def _run_other_sizes(
    run: Run,
    draw: Draw,
    source: Source,
    graph: ir.Model,
    options: Options,
    method: VerifyMethod,
    refused: ConvertError,
    limited: Sequence[tuple[Spans, Note]],
) -> tuple[RunOutputs, list[Feed], list[Note]] | ConvertError:
    """Return the runs with other sizes of the dynamic dims, first with all integers, then with `limited` ones.

    refused: the error with the usual sizes. Returns the last error if no sizes are found.
    """
    for spans, notes in (({}, []), *((spans, [note]) for spans, note in limited)):
        try:
            sizes = search_sizes(source, graph, refused, options, method.limits, method.seeds, spans)
        except ConvertError as error:
            refused = error
            continue
        found = draw(sizes, spans)
        try:
            return *_run(run, found), [*notes, Note(describe_search(graph, sizes), code="limited-sizes")]
        except _SourceRefusal as refusal:
            refused = refusal.error
    return refused


def _run_example(
    run: Run, draw: Draw, graph: ir.Model, given: list[Feed], first: ConvertError, refused: ConvertError
) -> tuple[RunOutputs, list[Feed], list[Note]]:
    """Return the runs of the user's example, together with feeds of its integers if the source accepts those.

    first, refused: the first and the last error with drawn inputs. Raises `refused` if there is no example.
    """
    if not given:
        raise refused if refused.hint else type(refused)(refused.message, hint=OTHER_INPUTS)
    if integers := _with_integers_of(given[0], graph, draw):
        note = Note(
            "the source runs on no integers that were drawn: compared with the example's (--inputs gives others)",
            code="limited-inputs",
        )
        try:
            return *_run(run, [*given, *integers]), [note]
        except _SourceRefusal:
            pass
    note = Note(
        f"compared on the example alone: the source runs on no inputs that were drawn ({first.sentence})",
        code="limited-inputs",
    )
    return run(given), given, [note]


_LONGER = (8, 64, 512)
_MOST_ELEMENTS = 1 << 21


def _is_empty(runs: RunOutputs) -> bool:
    """Return whether no output of the source has an element, on any inputs."""
    found = runs.source["float32"]
    return not isinstance(found, Unsupported) and not any(array.size for outputs in found for array in outputs.values())


def _longer_runs(run: Run, draw: Draw, graph: ir.Model) -> tuple[RunOutputs, list[Feed], list[Note]] | None:
    """Return the runs with inner dims 8, 64 or 512 times as long, as audio that is split into frames needs.

    Returns None if outputs stay empty, if the inputs become too large, or if the source rejects these sizes.
    """
    free = free_dims(graph)
    for factor in _LONGER:
        sizes = []
        for usual in feed_sizes(graph, 3, alike=True):
            wanted = {n: usual[n] * (1 if leading else factor) for n, leading in free.items()}
            if fitted := possible_sizes(graph, wanted):
                sizes.append(fitted)
        feeds = draw(sizes, {}) if sizes else []
        if not feeds or sum(a.size for feed in feeds for a in feed.arrays.values()) > _MOST_ELEMENTS:
            return None
        try:
            runs, taken = _run(run, feeds)
        except _SourceRefusal:
            return None
        if not _is_empty(runs):
            shown = " and ".join(", ".join(f"{n}={s[n]}" for n in free) for s in sizes)
            why = f"at the sizes that are usual no output has an element: compared at {shown}"
            return runs, taken, [Note(why, code="limited-sizes")]
    return None


def _with_integers_of(given: Feed, graph: ir.Model, draw: Draw) -> list[Feed]:
    """Return feeds with the sizes and the integers of `given`, which may be lengths or sizes, and with other floats."""
    sizes = {
        str(dim.value): int(length)
        for value in graph.graph.inputs
        if str(value.name) in given.arrays
        for dim, length in zip(value.shape or (), given.arrays[str(value.name)].shape, strict=False)
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None
    }
    integers = {name: array for name, array in given.arrays.items() if array.dtype.kind in "iu"}
    if not integers or len(integers) == len(given.arrays):
        return []
    drawn = draw([sizes], {})
    return [
        replace(feed, arrays={**feed.arrays, **integers})
        for feed in drawn
        if feed.label != GIVEN and all(feed.arrays[name].shape == array.shape for name, array in integers.items())
    ]


def _run(run: Run, feeds: Sequence[Feed]) -> tuple[RunOutputs, list[Feed]]:
    """Return the outputs of `run`, and the feeds that they belong to.

    Raises `_SourceRefusal` if the source rejects some of the inputs. Uneven sets come before the smallest one. If an
    uneven set is rejected, it is left out and the sets after it are tried again.
    """
    try:
        runs = run(feeds)
        taken = [feed for feed in feeds if not (runs.refused and feed.special)]
        ran = len(runs.target)
        if ran + 1 < len(taken) and taken[ran].uneven:
            return _run(run, [feed for feed in feeds if feed is not taken[ran]])
        return runs, taken[:ran]
    except (RunFailure, Unsupported, ResourceLimit, UsageError, BrokenPackage, NotLoaded):
        raise
    except ConvertError as error:
        raise _SourceRefusal(error) from error
