"""Verdicts: PASS, FAIL or INCONCLUSIVE, with the numbers of each output and the place of a defect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from convert.outcome import notebook
from convert.outcome.notes import Note, as_note, visible_notes
from convert.outcome.text import counted, shell_line

PASS, FAIL, INCONCLUSIVE = "PASS", "FAIL", "INCONCLUSIVE"
_ORDER = (PASS, INCONCLUSIVE, FAIL)
EXIT_CODES = {PASS: 0, FAIL: 3, INCONCLUSIVE: 7}


@dataclass(frozen=True)
class SetErrors:
    """The numbers of one set of inputs: the target's error, the noise floor, and the largest error, all of them
    relative.
    """

    error: float
    floor: float
    worst: float

    @property
    def ratio(self) -> float:
        """Return the error divided by the noise floor; infinite if there is an error and no noise."""
        return self.error / self.floor if self.floor else np.inf if self.error else 0.0


@dataclass(frozen=True)
class Slice:
    """A part or channel of an output of a target with lower precision.

    `sqnr` is the ratio of its numbers to the target's errors in decibels. `slope` and `offset` are those of a
    regression of the target on the graph with the stored weights; the offset is relative to the slice's root mean
    square.
    """

    name: str
    size: int
    sqnr: float
    slope: float
    offset: float


@dataclass(frozen=True)
class LayerLoss:
    """A node of the graph at which a target with lower precision loses accuracy.

    `sqnr` is the ratio of the node's result to the target's error, in decibels. `before` is the lowest such ratio among
    the node's inputs. A ratio is infinite if there is no error.
    """

    node: str
    operator: str
    module: str
    source: str
    sqnr: float
    before: float


@dataclass(frozen=True)
class Spread:
    """The distribution of an output's errors over its `elements`, on all sets of inputs, with a sample for plots.

    - target, source: the number of elements without an error, then the number in each bin of half a power of ten from
      10**low on; errors are relative to the root mean square of the reference
    - points: the numbers of source and target for at most 2,000 elements, among them the 100 with the largest errors
    - values: for `source` and `target`, the mean, the standard `deviation`, the `least`, `median` and `greatest`
      number, and how many numbers are `nonfinite`
    """

    elements: int
    low: int
    target: list[int]
    source: list[int]
    points: list[tuple[float, float]]
    values: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """The result of one check: a status, the reason for it, who is at fault, and notes for the report."""

    status: str = PASS
    reason: str = ""
    at_fault: str = ""
    notes: tuple[Note, ...] = ()

    def is_worse(self, status: str) -> bool:
        """Return whether the finding makes a verdict of this status worse."""
        return _ORDER.index(self.status) > _ORDER.index(status)


@dataclass(frozen=True)
class OutputVerdict:
    """One output on all sets of inputs. Errors are relative to the root mean square of the float64 reference.

    `error`, `floor` and `worst` are of one set: of the one that failed, or else of the one where the error is the
    largest multiple of the floor.
    """

    name: str
    status: str = PASS
    reason: str = ""
    error: float = 0.0
    """The target's error."""
    floor: float = 0.0
    """The source's own error in float32, or the least that float32 allows. If the target has narrower numbers, the
    error that these cause in the graph."""
    twin: float | None = None
    """Distance between the graph in float64 and the source in float64; None if one of them was not run."""
    worst: float = 0.0
    """The largest error of an element."""
    agreement: float | None = None
    """If the target has narrower numbers: the share of rows whose largest element is at the same place."""
    elements: Sequence[Element] = field(default_factory=list)
    """The worst elements."""
    sets: Sequence[SetErrors] = field(default_factory=list)
    """The numbers of each set, up to the one that failed."""
    small_floor: float = 0.0
    """The largest noise floor of elements that are far smaller than others, relative to their own root mean square."""
    rounding: float = 0.0
    """If the source's own error does not explain the target's: the standard deviation that random rounding errors
    cause in these elements, relative to their root mean square."""
    at_fault: str = ""
    """`frontend` or `backend`, if it failed and the two could be distinguished."""
    slices: Sequence[Slice] = field(default_factory=list)
    """Slices of the output of a target with narrower numbers: the joined parts, and the channels if they are few."""
    undecided: str = ""
    """Why rounding decides so much of the output that agreement proves nothing."""
    spread: Spread | str | None = None
    """The distribution of the errors, if a page is requested, or the reason why it cannot be drawn."""

    def after(self, finding: Finding) -> OutputVerdict:
        """Return the output's verdict with a finding if that is worse than its status, else unchanged; the order does
        not matter.
        """
        if not finding.is_worse(self.status):
            return self
        return replace(self, status=finding.status, reason=finding.reason, at_fault=finding.at_fault)

    @property
    def noise(self) -> float:
        """The largest noise floor over all feeds."""
        return max((s.floor for s in self.sets), default=self.floor)

    @property
    def numbers(self) -> str:
        """Return its error and noise floor as text."""
        if self.status == INCONCLUSIVE and not self.sets:
            return "not compared"
        ratio = f" ({self.error / self.floor:.2f}×)" if self.floor else ""
        explained = f"; rounding alone moves it by {self.rounding:.1e}" if self.rounding else ""
        return f"error {self.error:.2e}, noise floor {self.floor:.2e}{ratio}{explained}"

    @property
    def decibels(self) -> float:
        """The ratio of the output to its error."""
        return float(-20 * np.log10(self.error)) if self.error else np.inf


@dataclass
class Divergence:
    """The first operator without a counterpart on the other side.

    It is a node of the graph if the backend is at fault, and an operator of the source if the frontend is. `inputs` and
    `output` are statistics of its values; `instead` is what the graph has in place of the source's value.
    """

    operator: str
    node: str
    module: str = ""
    source: str = ""
    inputs: list[str] = field(default_factory=list)
    output: str = ""
    instead: str = ""

    def __str__(self) -> str:
        where = [f"{self.operator}, node {self.node!r}"]
        where += [f"in {self.module}"] if self.module else []
        where += [f"at {self.source}"] if self.source else []
        return ", ".join(where)


@dataclass(frozen=True)
class Place:
    """Errors at one node of the shared graph, relative to the root mean square of its output.

    `floor` is what float32 alone does to the graph up to here. `error` is that of the target; None if the target has no
    such value, because it was fused away or lies behind a defect.
    """

    node: str
    operator: str
    module: str
    source: str
    floor: float
    error: float | None


@dataclass(frozen=True)
class WeightDifference:
    """A weight that both sides have by one name, and whose numbers differ by more than rounding.

    `distance` is the root mean square of the differences and `largest` the largest of them, relative to the root mean
    square of the source's weight. `elements` says how many of `size` differ; None if only their order does.
    """

    name: str
    shape: tuple[int, ...]
    size: int
    distance: float
    largest: float
    elements: int | None


@dataclass(frozen=True)
class Verdict:
    """The outcome for a pair.

    `at_fault` is `frontend` or `backend` if the shared graph shows which is at fault. `divergence` is the first node
    where the two sides differ, or why it was not found. `profile` has the errors along the network if they were asked
    for, or the reason why there are none.
    """

    status: str
    reason: str = ""
    at_fault: str = ""
    reference: str = ""
    feeds: Sequence[str] = field(default_factory=list)
    outputs: Sequence[OutputVerdict] = field(default_factory=list)
    divergence: Divergence | str | None = None
    profile: Sequence[Place] | str | None = None
    stored: str = ""
    """The target's storage format (`convert.request.stored.STORED`), if it is less precise on purpose."""
    layers: Sequence[LayerLoss] = field(default_factory=list)
    """With activations in 8 bits: the layers that lose most, the worst first."""
    notes: Sequence[Note] = field(default_factory=list)
    """Notes on the comparison: outputs that were not compared, sizes that had to be searched for."""
    covered: str = ""
    """The inputs that were compared: how many sets, of which sizes and values."""
    sets: str = ""
    """The same in short: `5 input sets, batch 1–9`."""
    limit: float = 0.0
    """The largest allowed error in noise floors; 0 if tolerances or the target's narrower numbers decide."""
    weights_summary: str = ""
    """For two artefacts: whether their graphs have the same weights and tables, or how many tensors differ."""
    weights: Sequence[WeightDifference] = field(default_factory=list)
    """For two artefacts whose outputs differ: weights of the same name that differ, the largest difference first."""
    generation: GenerationVerdict | None = None
    """For a decoder with a cache: whether it generates the same tokens as its source."""
    latency: Latency | None = None
    """Times of runs of both sides, with `--time`."""
    reduced: Reduced | str | None = None
    """After a failure with `--reduce`: the smallest part that still fails, or why there is none."""

    def after(self, finding: Finding) -> Verdict:
        """Return the verdict with the notes of a finding, and with its status if that is worse; the order of findings
        does not matter.
        """
        noted = replace(self, notes=[*self.notes, *finding.notes]) if finding.notes else self
        if not finding.is_worse(self.status):
            return noted
        return replace(noted, status=finding.status, reason=finding.reason, at_fault=finding.at_fault)

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 0, 3 (mismatch) or 7 (inconclusive)."""
        return EXIT_CODES[self.status]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "notes": [as_note(n).to_dict() for n in self.notes], "exit_code": self.exit_code}

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows: the status, the numbers of each output, where the error begins."""
        return notebook.table(self.rows())

    def rows(self) -> list[str]:
        """Return the rows of the table in a notebook."""
        at_fault = f"caused by the {self.at_fault}" if self.at_fault else ""
        outputs = [notebook.row("", row.name, row.numbers, row.reason, status=row.status) for row in self.outputs]
        made = [notebook.row("verdict", self.reason, at_fault, status=self.status), *notebook.bounded(outputs)]
        made += notebook.rows("weight", [f"{w.name} differs by {w.distance:.2g} of its size" for w in self.weights])
        if self.divergence is not None:
            made.append(notebook.row("departs first", str(self.divergence)))
        if self.reduced is not None:
            made.append(notebook.row("reduced", str(self.reduced)))
        return made + notebook.rows("note", visible_notes(self.notes, 0))


@dataclass(frozen=True)
class GenerationVerdict:
    """How well `rows` of greedily generated `tokens` agree with the source's.

    The first `same` tokens agree; `reason` describes the next one. status: PASS if all agree, INCONCLUSIVE for a tie,
    or FAIL. margin: the difference of the source's scores for the two tokens at that step. difference: the error of the
    target's scores.
    """

    status: str
    tokens: int
    rows: int
    same: int
    reason: str = ""
    margin: float = 0.0
    difference: float = 0.0

    def __str__(self) -> str:
        if self.status == "PASS":
            rows = counted(self.rows, "row")
            return f"the same {self.tokens} tokens as the source's, greedily through the cache, in {rows}"
        return f"{self.status}: {self.reason}"


@dataclass(frozen=True)
class Latency:
    """Seconds of one run of source and target on the same inputs, as a median of `rounds`, on a machine of `cpus`.

    threads: seconds of the target by its number of threads, if its runtime lets a caller choose; `target` is with one.
    """

    source: float
    target: float
    inputs: str
    rounds: int
    cpus: int
    threads: Mapping[int, float] = field(default_factory=dict)

    def __str__(self) -> str:
        ratio = f" ({self.target / self.source:.2f}×)" if self.source else ""
        times = f"source {_milliseconds(self.source)}, target {_milliseconds(self.target)}{ratio}"
        times += "".join(f", {_milliseconds(s)} with {n} threads" for n, s in self.threads.items())
        how = f"medians of {counted(self.rounds, 'round')}, {counted(self.cpus, 'CPU')}"
        return f"{times} for a run on {self.inputs}; {how}"


@dataclass(frozen=True)
class Reduced:
    """The smallest part of a graph that still fails, and the files that it was written to.

    The part has `nodes` of the `whole` number of nodes. It was converted to `format` and verified there, which gave
    `reason`. target: the file with the target's own part, if converting the part again does not show the failure.
    smallest: whether no node can be left out; if False, the search ended after `trials` attempts.
    """

    model: str
    inputs: str
    target: str
    nodes: int
    whole: int
    operators: list[str]
    format: str
    reason: str
    trials: int
    smallest: bool

    @property
    def command(self) -> str:
        """Return the command that shows the failure again."""
        if self.target:
            return shell_line(["convert", "verify", self.model, self.target, "--inputs", self.inputs])
        return shell_line(["convert", self.model, "--to", self.format, "--inputs", self.inputs])

    def __str__(self) -> str:
        what = f"{counted(self.nodes, 'node')} of {self.whole} ({', '.join(self.operators[:6])}"
        what += ", …)" if len(self.operators) > 6 else ")"
        limit = "" if self.smallest else f", the smallest found in {counted(self.trials, 'trial')}"
        return f"{what} by {'itself' if self.nodes == 1 else 'themselves'}{limit}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


@dataclass(frozen=True)
class Element:
    """One element of an output: its values in the reference and in the target, and on which inputs.

    `error` is relative to the root mean square of the reference; of integers it is the plain difference.
    """

    index: tuple[int, ...]
    reference: float
    target: float
    error: float
    feed: str
