"""The outcome of a conversion or a verification, for people (`render`) and for programs (`--json`)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.activity import WORDS, doing
from convert.outcome import notebook
from convert.outcome.note_codes import OTHER
from convert.outcome.notes import Note, as_note, visible_notes
from convert.outcome.text import bytes_text

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.verdict import Verdict

SCHEMA_VERSION = 3


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model: its name, dtype (`float32`) and dims (ints, or names of dynamic dims)."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        dims = "[…]" if self.shape is None else "[" + ",".join("?" if d is None else str(d) for d in self.shape) + "]"
        return f"{self.name}: {self.dtype}{dims}"


@dataclass
class ChainStep:
    """One pair in a comparison of several models: both names, and the verdict, or the error that prevented one."""

    source: str
    target: str
    verdict: Verdict | None = None
    error: str = ""
    error_code: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict or of the error."""
        return self.verdict.exit_code if self.verdict is not None else self.error_code

    @property
    def status(self) -> str:
        """PASS, FAIL, INCONCLUSIVE, or ERROR if something could not be read or run."""
        return self.verdict.status if self.verdict is not None else "ERROR"

    @property
    def reason(self) -> str:
        """The reason if it is not PASS."""
        return self.verdict.reason if self.verdict is not None else self.error

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        fields = {"source": self.source, "target": self.target, "status": self.status, "reason": self.reason}
        return {**fields, "verdict": None if self.verdict is None else self.verdict.to_dict()}


@dataclass(frozen=True)
class Node:
    """A node of a model: its name, its operator, and the names of the tensors that it computes."""

    name: str
    operator: str
    outputs: tuple[str, ...]


@dataclass
class Report:
    """The outcome of one `convert`, `verify` or `inspect`. A notebook shows it as a table.

    - `notes`: assumptions and facts that you should know, each with a code and a level.
    - `verdict`: None if nothing was compared; `unverified` then says why.
    - `steps`: the pairs of a comparison of more than two models; `verdict` is that of the first pair that fails.
    - `bounds`: the least and the greatest size of each dynamic dim that is limited; `conditions`: what else sizes have
      to meet.
    - `renamed`: inputs and outputs that have another name in the artefact.
    - `operators`: how many of each there are; `weights`: the tensors of a file that holds nothing else; `nodes`: those
      that `inspect(nodes=…)` found; `graph`: the shared graph that `inspect` read, which is not in the JSON.
    - `side_files`: files that are written beside the output, each with the option that names it; not in the JSON.
    - `companions`: files for beside the output, if the caller copies them together with those of other parts.
    - `seconds`: wall time by stage; `reproduce`: the command that does the same again.

    >>> import convert
    >>> report = convert.convert("mnist_cnn.onnx", "caffe2", verify=False)
    >>> report.target, report.ok, report.unverified
    ('mnist_cnn.caffe2', True, 'verification was switched off')
    >>> report.to_dict()["outputs"]
    [{'name': 'log_probs', 'dtype': 'float32', 'shape': ('batch', 10)}]
    """

    command: str
    source: str = ""
    kind: str = ""
    target: str = ""
    format: str = ""
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    operators: dict[str, int] = field(default_factory=dict)
    weights: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    parameters: int = 0
    weight_bytes: int = 0
    output_bytes: int = 0
    notes: list[Note] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    bounds: dict[str, list[int | None]] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    steps: list[ChainStep] = field(default_factory=list)
    reproduce: str = ""
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)
    unverified: str = ""
    progress: Callable[[str], None] | None = field(default=None, repr=False)
    side_files: list[tuple[str, Path]] = field(default_factory=list, repr=False)
    graph: ir.Model | None = field(default=None, repr=False)
    companions: dict[str, Path | bytes] | None = field(default=None, repr=False)

    def contract(self, tensor: Tensor) -> str:
        """Return an input or output as text, with the bounds of its dims: `x: float32[batch≥4,3]`."""
        shape = None if tensor.shape is None else tuple(self._bounded(d) for d in tensor.shape)
        return str(replace(tensor, shape=shape))

    def _bounded(self, dim: int | str | None) -> int | str | None:
        low, high = self.bounds.get(dim, (None, None)) if isinstance(dim, str) else (None, None)
        if low is None and high is None:
            return dim
        if low is None or high is None:
            return f"{dim}≥{low}" if high is None else f"{dim}≤{high}"
        return f"{dim}={low}..{high}"

    @property
    def ok(self) -> bool:
        """Return whether no verdict is FAIL or INCONCLUSIVE; True as well if nothing was verified."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code that the command line gives for this report."""
        if self.steps:
            return next((step.exit_code for step in self.steps if step.exit_code), 0)
        return 0 if self.verdict is None else self.verdict.exit_code

    def note(self, text: str, code: str = OTHER) -> None:
        """Record a note once: a `Note` as it is, or a text with its `code` (`convert.outcome.note_codes`)."""
        if text not in self.notes:
            self.notes.append(text if isinstance(text, Note) else Note(text, code))

    @contextmanager
    def stage(self, name: str, size: str = "") -> Iterator[None]:
        """Context manager: measure the time of a stage, and show it as progress; `size` is how much there is to do."""
        if self.progress is not None:
            self.progress(name)
        start = time.perf_counter()
        try:
            with doing(WORDS.get(name, name), size):
                yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 4)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts and lists for JSON, with the version of its schema."""
        hidden = ("progress", "side_files", "graph", "verdict", "steps", "companions")
        shown = {k: getattr(self, k) for k in self.__dataclass_fields__ if k not in hidden}
        for key in ("inputs", "outputs", "weights", "nodes"):
            shown[key] = [asdict(t) for t in shown[key]]
        shown["notes"] = [as_note(note).to_dict() for note in self.notes]
        shown["verdict"] = None if self.verdict is None else self.verdict.to_dict()
        shown["steps"] = [step.to_dict() for step in self.steps]
        return {"schema": SCHEMA_VERSION, **shown, "ok": self.ok, "exit_code": self.exit_code}

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what was read and written, the inputs and outputs, the verdict and the
        notes.
        """
        size = f", {bytes_text(self.output_bytes)}" if self.output_bytes else ""
        made = [notebook.row("source", f"{self.source} ({self.kind})")]
        made += [notebook.row("target", f"{self.target} ({self.format}{size})")] if self.target else []
        made += notebook.rows("input", [self.contract(tensor) for tensor in self.inputs])
        made += notebook.rows("output", [self.contract(tensor) for tensor in self.outputs])
        made += notebook.rows("for", self.conditions)
        made += notebook.rows("tensor", [str(tensor) for tensor in self.weights])
        made += notebook.rows("node", [f"{node.name}: {node.operator}" for node in self.nodes])
        if self.operators:
            made.append(notebook.row("nodes", ", ".join(f"{count} {name}" for name, count in self.operators.items())))
            weights = f"{self.parameters:,} parameters, {bytes_text(self.weight_bytes)}"
            made.append(notebook.row("weights", weights))
        made += [notebook.row("not verified", self.unverified)] if self.unverified else []
        for i, step in enumerate(self.steps, 1):
            made.append(notebook.row(f"step {i}", f"{step.source} → {step.target}", step.reason, status=step.status))
        made += self.verdict.rows() if self.verdict is not None else []
        made += notebook.rows("note", visible_notes(self.notes, 0))
        return notebook.table(made, caption=self.command)

    def to_json(self) -> str:
        """Return one line of JSON; keys keep their order, and infinities and NaNs become null, which JSON lacks."""
        return to_json(self.to_dict())


def to_json(data: Mapping[str, Any]) -> str:
    """One line of strict JSON; infinities and NaNs become null."""
    return json.dumps(_replace_nonfinite(data), ensure_ascii=False, default=str, allow_nan=False)


def _replace_nonfinite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _replace_nonfinite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_replace_nonfinite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
