"""Judges elements that are far smaller than others of their output among themselves: masks and time stamps hide them.

All errors of an output are relative to its root mean square. Where some elements are 1e4 times as large as the others
and more, or the whole is 64 times as large as some columns (`magnitudes.py`), errors of the smaller ones are
below the bound of the whole. They have a floor of their own: the
source's float32 error on them, and what they move by when inputs and weights move by one unit in the last place,
because small elements may be what is left of large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from convert import stored as stored_as
from convert.activity import limited_time
from convert.errors import ConvertError, Unsupported
from convert.graph.tensors import widened_array
from convert.parity.compare import FACTOR, FLOAT64_BOUND, OUTLIER, ROUNDINGS, ROUNDOFF, rms
from convert.parity.floors import LONGEST, MOST, SUSPICIOUS
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, reference_outputs
from convert.parity.magnitudes import smaller_columns, smaller_parts
from convert.parity.moves import moved_arrays, run_moved
from convert.parity.randomness import random_outputs
from convert.parity.rounding_margins import quantizes
from convert.runners.process import Outputs
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict

Respond = Callable[[Sequence[Feed]], Outputs]

_BOUNDED = 32.0
"""Kernels compute the tails of Sigmoid, Tanh and Softmax to a few roundings of 1 and not of the tails, and LogSoftmax
to some of its logits: of elements up to this size a few roundings may be in the smaller ones as well."""
_TAILED = frozenset({"Sigmoid", "Softmax"})
_PASSING = frozenset({"Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice"})
_MOVES = 3  # by chance one element may move by little, once


def hold_small_elements(
    verdict: Verdict,
    graph: ir.Model,
    feeds: Sequence[Feed],
    runs: RunOutputs,
    respond: Respond,
    *,
    steps: bool = False,
) -> None:
    """FAIL, in place, where elements that are far smaller than others are off by more than rounding explains.

    Target (in every way of using it) and graph in float64 are held to the source, as the whole output is, and where the
    graph is its own reference, the source to the graph. respond, steps: as for `hold_floors`. INCONCLUSIVE where sums
    taken number after number explain it, where a step of a quantization may, and where the source in float64 is another
    function on these elements. An artefact whose activations have steps is not asked.
    """
    single = runs.source["float32"]
    stepped = verdict.stored in (*stored_as.CALIBRATED, *stored_as.STEPS_AT_RUN_TIME)
    if verdict.status == FAIL or isinstance(single, Unsupported) or (runs.narrowed is not None and stepped):
        return
    judge = _Judge(graph, feeds, runs, respond, steps or quantizes(graph), verdict.stored)
    random = random_outputs(graph)
    for position, row in enumerate(verdict.outputs):
        for place in range(0 if row.name in random else len(single)):
            found = judge.fault(place, position, row)
            if found is None:
                continue
            status, guilty, reason = found
            if status == FAIL or row.status == PASS:
                row.status, row.reason = status, f"{reason}, on {feeds[place].label}"
            if status == FAIL or verdict.status == PASS:
                verdict.status, verdict.guilty, verdict.reason = status, guilty, f"{row.name}: {row.reason}"
            if status == FAIL:
                return


@dataclass(frozen=True)
class _Errors:
    """Root mean square and largest of the errors of some elements, or of the elements."""

    mean: float = 0.0
    worst: float = 0.0

    def largest(self, other: _Errors) -> _Errors:
        return _Errors(max(self.mean, other.mean), max(self.worst, other.worst))

    def plus(self, factor: float, slack: float) -> _Errors:
        return _Errors(factor * self.mean + slack, factor * self.worst + slack)

    def exceeds(self, bound: _Errors) -> bool:
        return self.mean > bound.mean or self.worst > bound.worst


def _errors(array: np.ndarray, exact: np.ndarray, part: np.ndarray) -> _Errors:
    """Of the elements that are finite in both; none where the shapes differ, which is judged elsewhere."""
    if array.shape != exact.shape:
        return _Errors()
    with np.errstate(invalid="ignore"):
        off = np.abs(array - exact)[part]
    off = off[np.isfinite(off)]
    return _Errors(rms(off), float(off.max(initial=0.0)))


@dataclass(frozen=True)
class _Part:
    """Some elements of one output on one feed: their mask, their size, and the source's own error on them."""

    mask: np.ndarray
    size: _Errors
    noise: _Errors
    roundoff: float
    slack: float
    """How many roundoffs any of them may be off by, whatever its size."""

    def bound(self, noise: _Errors) -> _Errors:
        """`OUTLIER` times a noise, which is a few roundings of the elements at the least."""
        least = self.size.plus(ROUNDINGS * self.roundoff, 0.0)
        return noise.largest(least).plus(OUTLIER, self.slack * self.roundoff)

    def describe(self, errors: _Errors) -> str:
        unit = self.size.mean or 1.0
        return (
            f"{np.count_nonzero(self.mask)} elements that are far smaller than the others are off by "
            f"{errors.mean / unit:.2e} of their own size, against {self.noise.mean / unit:.2e} in the source"
        )


@dataclass
class _Judge:
    """Everything that was run, and the runs on moved inputs, which are made where they are asked for."""

    graph: ir.Model
    feeds: Sequence[Feed]
    runs: RunOutputs
    respond: Respond
    steps: bool
    stored: str
    moves: list[tuple[Outputs, Outputs]] = field(default_factory=list)
    """Outputs on moved feeds, and on the feeds themselves."""
    asked: bool = False

    def fault(self, place: int, position: int, row: OutputVerdict) -> tuple[str, str, str] | None:
        """Status, who is guilty, and why, of one output on one feed, where its smaller elements are not right."""
        single, (_, exact) = self.runs.source["float32"], reference_outputs(self.runs)
        assert not isinstance(single, Unsupported)
        reference, source = (list(o[place].values())[position] for o in (exact, single))
        roundoff = ROUNDOFF.get(source.dtype.name, ROUNDOFF["float32"])
        if narrowed := self.runs.narrowed:
            reference, source = narrowed.exact[place][row.name], narrowed.rounded[place][row.name].astype(source.dtype)
            if self.stored in (stored_as.HALF, stored_as.HALF_VALUES):
                roundoff = ROUNDOFF["float16"]
        wanted, given = widened_array(reference), widened_array(source)
        if wanted.dtype.kind not in "fc" or wanted.shape != given.shape:
            return None
        for mask in (*smaller_parts(wanted), *smaller_columns(wanted)):
            size, noise = _errors(wanted, np.zeros_like(wanted), mask), _errors(given, wanted, mask)
            slack = FACTOR * ROUNDINGS * min(rms(wanted[np.isfinite(wanted)]), _BOUNDED)
            part = _Part(mask, size, noise, roundoff, slack)
            row.small_floor = max(row.small_floor, noise.mean / (size.mean or 1.0))
            found = self._fault_of_graph(part, wanted, given, place, position, row)
            found = found or self._fault_of_target(part, wanted, given, place, position, row)
            if found:
                return found
        return None

    def _fault_of_graph(
        self, part: _Part, exact: np.ndarray, given: np.ndarray, place: int, position: int, row: OutputVerdict
    ) -> tuple[str, str, str] | None:
        """Where the graph in float64 is not the source in float64."""
        own, (_, reference) = self.runs.graph_float64, reference_outputs(self.runs)
        if isinstance(own, Unsupported) or own is reference or self.runs.narrowed is not None:
            return None
        twin = _errors(widened_array(own[place][row.name]), exact, part.mask)
        finer = ROUNDOFF["float64"] / part.roundoff
        slack = part.slack * ROUNDOFF["float64"]
        if twin.worst <= max(FLOAT64_BOUND * part.size.mean, OUTLIER * finer * part.noise.worst) + slack:
            return None
        if twin.worst <= OUTLIER * finer * self._moved(part, place, position).worst + slack:
            return None
        if part.noise.mean > part.size.mean and OUTLIER * twin.worst < part.noise.mean:
            return None  # what one rounding leaves of 0, as of the angle between a vector and itself
        row.twin = max(row.twin or 0.0, twin.worst / (part.size.mean or 1.0))
        if _errors(widened_array(own[place][row.name]), given, part.mask).mean * OUTLIER < part.noise.mean:
            return INCONCLUSIVE, "", f"{part.describe(part.noise)}, which is another function of them in float64"
        return FAIL, "frontend", f"in the graph in float64 {part.describe(twin)}"

    def _fault_of_target(
        self, part: _Part, exact: np.ndarray, given: np.ndarray, place: int, position: int, row: OutputVerdict
    ) -> tuple[str, str, str] | None:
        """Where the target is not the source, or the source so far from the reference that it cannot be told."""
        own = reference_outputs(self.runs)[1] is self.runs.graph_float64
        if own and self._is_unexplained(part, place, position):
            reason = f"in the source {part.describe(part.noise)}: rounding does not explain that"
            return (INCONCLUSIVE, "", reason) if self.steps else (FAIL, "frontend", reason)
        for way, got in self._of_target(place, row.name):
            errors = _errors(got, exact, part.mask)
            where = f"{part.describe(errors)}{f' ({way})' if way else ''}"
            wide = part.bound(part.noise)
            if errors.exceeds(wide) and errors.exceeds(wide.largest(part.bound(self._moved(part, place, position)))):
                if self.steps or self._is_of_order(part, errors, exact, place, row.name):
                    return INCONCLUSIVE, "", f"{where}, which rounding may do here"
                return FAIL, "" if row.twin is None else "backend", where
            if errors.mean <= SUSPICIOUS * part.size.mean or not self._is_unexplained(part, place, position):
                continue
            if _errors(got, given, part.mask).exceeds(part.bound(self._moved(part, place, position))):
                return INCONCLUSIVE, "", f"{where}: rounding does not explain that"
        return None

    def _of_target(self, place: int, name: str) -> Iterator[tuple[str, np.ndarray]]:
        """The output by each way of using the target that was run on the feed; the first has no name here."""
        ways: Mapping[str, Outputs] = {"": self.runs.target, **self.runs.others}
        return ((way, widened_array(o[place][name])) for way, o in ways.items() if place < len(o))

    def _is_unexplained(self, part: _Part, place: int, position: int) -> bool:
        """Whether the source's own error is suspicious (`hold_floors`), and not explained by rounding."""
        if self.runs.narrowed is not None or part.noise.mean <= SUSPICIOUS * part.size.mean:
            return False
        if self._has_tails(position):
            part = replace(part, slack=max(part.slack, FACTOR * ROUNDINGS))
        least = part.bound(_Errors())
        return part.noise.exceeds(least) and part.noise.exceeds(part.bound(self._moved(part, place, position)))

    def _has_tails(self, position: int) -> bool:
        """Whether a Sigmoid or a Softmax makes an output: where all of it is tails, a rounding is still of 1."""
        node = self.graph.graph.outputs[position].producer()
        while node is not None and node.op_type in _PASSING and node.inputs[0] is not None:
            node = node.inputs[0].producer()
        return node is not None and node.op_type in _TAILED and not node.domain

    def _is_of_order(self, part: _Part, errors: _Errors, exact: np.ndarray, place: int, name: str) -> bool:
        """Whether sums that are taken number after number are off by half as much (`excuse_order`)."""
        from convert.reference.one_by_one import run_one_by_one

        if self.runs.narrowed is not None:
            return False
        try:
            with limited_time(LONGEST):
                summed = run_one_by_one(self.graph, self.feeds[place].arrays)[name]
        except ConvertError:
            return False
        found = _errors(widened_array(np.asarray(summed)), exact, part.mask)
        return errors.mean <= 2 * found.mean < MOST * part.size.mean

    def _moved(self, part: _Part, place: int, position: int) -> _Errors:
        """How far these elements move with inputs and weights, at the most."""
        if not self.asked:
            self.asked, self.moves = True, [*self._moves_of_graph(), *self._moves_of_source()]
        found = _Errors()
        for moved, still in self.moves:
            arrays = [widened_array(np.asarray(list(o[place].values())[position])) for o in (moved, still)]
            found = found.largest(_errors(arrays[0], arrays[1], part.mask))
        return found

    def _moved_feeds(self, seed: int) -> list[Feed]:
        return [replace(f, arrays=moved_arrays(f.arrays, 1000 * seed + n)) for n, f in enumerate(self.feeds)]

    def _moves_of_graph(self) -> list[tuple[Outputs, Outputs]]:
        still = self.runs.graph_float64
        if isinstance(still, Unsupported):
            return []
        try:
            return [(run_moved(self.graph, self._moved_feeds(seed), seed=seed), still) for seed in range(_MOVES)]
        except ConvertError:
            return []

    def _moves_of_source(self) -> list[tuple[Outputs, Outputs]]:
        still, count = self.runs.source["float32"], len(self.feeds)
        if isinstance(still, Unsupported):
            return []
        try:
            found = self.respond([feed for seed in range(_MOVES) for feed in self._moved_feeds(seed)])
        except ConvertError:
            return []
        if len(found) < _MOVES * count:
            return []
        return [(found[seed * count : (seed + 1) * count], still) for seed in range(_MOVES)]
