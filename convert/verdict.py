"""Verdicts: PASS, FAIL or INCONCLUSIVE, with the numbers of each output and the place of a defect."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from convert import notebook
from convert.notes import Note, as_note, visible_notes
from convert.text import counted

PASS, FAIL, INCONCLUSIVE = "PASS", "FAIL", "INCONCLUSIVE"
_ORDER = (PASS, INCONCLUSIVE, FAIL)
EXIT_CODES = {PASS: 0, FAIL: 3, INCONCLUSIVE: 7}


@dataclass(frozen=True)
class SetErrors:
    """The numbers of one set of inputs: the target's error, the noise floor, the largest error; all are relative."""

    error: float
    floor: float
    worst: float

    @property
    def ratio(self) -> float:
        """How many noise floors the error is; infinite where there is an error and no noise."""
        return self.error / self.floor if self.floor else np.inf if self.error else 0.0


@dataclass(frozen=True)
class Slice:
    """A part or channel of an output of a target with narrower numbers.

    `sqnr` is the ratio of its numbers to the target's errors in decibels. `slope` and `offset` are those of a
    regression of the target on the graph with the stored weights; the offset is relative to the slice's root mean
    square.
    """

    name: str
    size: int
    sqnr: float
    slope: float
    offset: float


class Lowered:
    """A verdict that evidence can make worse, and none better: the order in which it is looked at undoes nothing."""

    status: str
    reason: str
    guilty: str

    def lower(self, status: str, reason: str, guilty: str = "") -> None:
        """Take this status, the reason for it and who is at fault, unless the verdict is as bad already."""
        if _ORDER.index(status) > _ORDER.index(self.status):
            self.status, self.reason, self.guilty = status, reason, guilty


@dataclass
class OutputVerdict(Lowered):
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
    """The source's own float32 error, or the least that float32 allows. If the target has narrower numbers, what these
    do to the graph."""
    twin: float | None = None
    """How far the graph in float64 is from the source in float64; None if one of them was not run."""
    worst: float = 0.0
    """The largest error of an element."""
    agreement: float | None = None
    """If the target has narrower numbers: the share of rows whose largest element is at the same place."""
    elements: list[Element] = field(default_factory=list)
    """The worst elements."""
    sets: list[SetErrors] = field(default_factory=list)
    """The numbers of each set, up to the one that failed."""
    small_floor: float = 0.0
    """The largest noise floor of elements that are far smaller than others, relative to their own root mean square."""
    rounding: float = 0.0
    """Where the source's own error does not explain the target's: a standard deviation of what rounding does to the
    elements in question, relative to their root mean square."""
    guilty: str = ""
    """`frontend` or `backend`, where it failed and the two could be told apart."""
    slices: list[Slice] = field(default_factory=list)
    """Of a target with narrower numbers: parts that the output is joined of, and its channels if they are few."""
    undecided: str = ""
    """Why rounding decides so much of the output that agreement proves nothing."""

    @property
    def noise(self) -> float:
        """The largest noise floor of any feed."""
        return max((s.floor for s in self.sets), default=self.floor)

    @property
    def numbers(self) -> str:
        """Its error and noise floor, as people read them."""
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


@dataclass
class Verdict(Lowered):
    """The outcome for a pair.

    `guilty` is `frontend` or `backend` if the shared graph shows which is at fault. `divergence` is the first node
    where the two sides differ, or why it was not found. `profile` has the errors along the network if they were asked
    for, or the reason why there are none.
    """

    status: str
    reason: str = ""
    guilty: str = ""
    reference: str = ""
    feeds: list[str] = field(default_factory=list)
    outputs: list[OutputVerdict] = field(default_factory=list)
    divergence: Divergence | str | None = None
    profile: list[Place] | str | None = None
    stored: str = ""
    """How the target stores numbers (`convert.stored.STORED`), where it is less precise than the source on purpose."""
    notes: list[Note] = field(default_factory=list)
    """What of it is not as usual: outputs that were not compared, sizes that had to be searched for."""
    covered: str = ""
    """What the numbers stand for: how many sets of inputs, of which sizes and values."""
    sets: str = ""
    """How many sets of inputs, and of which sizes: `5 input sets, batch 1–9`."""
    limit: float = 0.0
    """How many noise floors an error may be; 0 where tolerances or the target's narrower numbers decide."""
    weights_summary: str = ""
    """Of two artefacts: whether their graphs hold the same weights and tables, or how many tensors differ."""
    weights: list[WeightDifference] = field(default_factory=list)
    """Of two artefacts whose outputs differ: weights of the same names that do, those first that differ most."""
    generation: GenerationVerdict | None = None
    """Of a decoder with a cache: whether it generates the tokens that its source generates."""
    latency: Latency | None = None
    """How long runs of both take, if it was asked for."""

    @property
    def exit_code(self) -> int:
        """0, 3 (mismatch) or 7 (inconclusive)."""
        return EXIT_CODES[self.status]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "notes": [as_note(n).to_dict() for n in self.notes], "exit_code": self.exit_code}

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows: the status, the numbers of each output, where the error begins."""
        return notebook.table(self.rows())

    def rows(self) -> list[str]:
        """The rows of that table."""
        guilty = f"guilty: {self.guilty}" if self.guilty else ""
        outputs = [notebook.row("", row.name, row.numbers, row.reason, status=row.status) for row in self.outputs]
        made = [notebook.row("verdict", self.reason, guilty, status=self.status), *notebook.bounded(outputs)]
        made += notebook.rows("weight", [f"{w.name} differs by {w.distance:.2g} of its size" for w in self.weights])
        if self.divergence is not None:
            made.append(notebook.row("departs first", str(self.divergence)))
        return made + notebook.rows("note", visible_notes(self.notes, 0))


@dataclass(frozen=True)
class GenerationVerdict:
    """How `rows` of `tokens` that are generated greedily agree with the source's.

    The first `same` tokens do; `reason` describes the next one. status: PASS if all agree, INCONCLUSIVE for a tie, or
    FAIL. margin: the distance of the source's scores for the two tokens at that step. difference: the error of the
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
    """Seconds of one run of source and target on the same inputs, as a median of `rounds`, on a machine of `cpus`."""

    source: float
    target: float
    inputs: str
    rounds: int
    cpus: int

    def __str__(self) -> str:
        ratio = f" ({self.target / self.source:.2f}×)" if self.source else ""
        times = f"source {_milliseconds(self.source)}, target {_milliseconds(self.target)}{ratio}"
        how = f"medians of {counted(self.rounds, 'round')}, {counted(self.cpus, 'CPU')}"
        return f"{times} for a run on {self.inputs}; {how}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


@dataclass(frozen=True)
class Element:
    """One element of an output: what the reference and the target hold there, on which inputs.

    `error` is relative to the root mean square of the reference; of integers it is the plain difference.
    """

    index: tuple[int, ...]
    reference: float
    target: float
    error: float
    feed: str
