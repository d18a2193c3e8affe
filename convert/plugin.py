"""Discovery of frontends, backends and runners by entry points: third parties plug in as the built-in rooms do.

The modules named by the entry points `convert.frontends`, `convert.backends` and `convert.runners` must be cheap to
import (no framework); what they offer is written down in the protocols here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from convert.errors import ConvertError, UsageError
from convert.source import Source

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from convert.options import Options
    from convert.report import Report


@dataclass(frozen=True)
class Format:
    """An output format: its name after `--to`, the suffix of its artefact, whether that is a folder, and a sentence."""

    name: str
    suffix: str
    folder: bool
    summary: str
    kind: str
    """The kind (`sniff.KINDS`) that the artefact has when it is read again, hence which runner runs it."""
    narrow: tuple[str, ...] = ()
    """The dtypes narrower than the model's that it stores when asked: values of `Options.dtype` and `quantize`."""


@dataclass(frozen=True)
class Operator:
    """One row of `convert ops`; `gap` is the declared reason why an operator cannot be expressed, `limit` where not."""

    name: str
    gap: str = ""
    limit: str = ""


class Frontend(Protocol):
    """A reader. `read` lists every unsupported operator before it lowers any.

    A frontend or backend that has `preload()` imports there what its work takes, and starts no thread: the workers of
    `convert batch` are forked from a process that has called it.
    """

    KINDS: Mapping[str, str]
    """The kinds it reads, each with a sentence for `convert formats`."""

    def claims(self, thing: Any) -> str | None:
        """The kind of an object in memory, or None; decided by class names, without importing a framework."""

    def read(self, source: Source, options: Options, report: Report) -> ir.Model:
        """Lower the model to the shared graph. Raises `BadInput`, `UnsafeInput`, `Unsupported`, `UsageError`."""

    def operators(self) -> Iterable[Operator]: ...


class Backend(Protocol):
    """A writer. `write` may change the model it is given."""

    FORMATS: Mapping[str, Format]

    def check(self, model: ir.Model, format: str, options: Options) -> None:
        """Raise one `Unsupported` that lists everything in the model that `write` could not emit; changes nothing."""

    def write(self, model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
        """Write the artefact at `path`, which does not exist; the caller moves it to its destination."""

    def operators(self, format: str) -> Iterable[Operator]: ...


HALF, WEIGHTS, FULL = "float16", "int8 weights", "int8"
STORED = (HALF, WEIGHTS, FULL)
"""How an artefact may store numbers on purpose: weights in half precision; weights in 8 bits (and the activations that
meet them as they come); weights and activations in 8 bits, with ranges from calibration data."""


class Runner(Protocol):
    """Executes artefacts of some kinds; called inside a child process for files.

    A runner whose artefacts can be narrower than their source also has `stored(source) -> str`: one of `STORED`, or
    nothing. One that can follow a run has `trace(source, feed, options) -> runners.trace.Trace`, in float64 if it can:
    it tells where a frontend's graph departs from its source. One whose runtime has to be told something before it is
    imported has `environment(source) -> dict[str, str]`: the variables of the child process that runs this artefact.
    """

    KINDS: Sequence[str]

    def run(
        self, source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
    ) -> list[dict[str, np.ndarray]]:
        """One dict of outputs, by name in the model's order, for each dict of inputs.

        `precision` is `float32` (as deployed) or `float64` (everything floating widened). Raises `Unsupported` where
        a precision is not to be had.
        """

    def available(self) -> str:
        """Empty if the runtime is installed, else what is missing."""


@cache
def _modules(group: str) -> dict[str, Any]:
    found = {}
    for point in entry_points(group=group):
        found[point.name] = point.load()
    if not found:
        raise ConvertError(
            f"no entry points {group!r} are installed", hint="install the project: pip install -e '.[all]'"
        )
    return found


def frontends() -> dict[str, Frontend]:
    """The installed frontends by name."""
    return _modules("convert.frontends")


def frontend_named(name: str) -> Frontend:
    """The frontend called `name`, or the one whose room has a backend for the format `name`. Raises `UsageError`."""
    found = frontends()
    rooms = [room for room, backend in backends().items() if name in backend.FORMATS and room in found]
    if name not in found and not rooms:
        raise UsageError(f"there is no frontend {name!r}", hint=f"frontends: {', '.join(found)}")
    return found[name if name in found else rooms[0]]


def operators_in_text(rows: Sequence[Operator], text: str) -> list[Operator]:
    """The rows of the operators that begin the lines of `text`; one that has no row is a gap that nobody declared."""
    table = {row.name: row for row in rows}
    names = [line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [table.get(name) or Operator(name, "neither a rule nor a declared gap") for name in dict.fromkeys(names)]


def backends() -> dict[str, Backend]:
    """The installed backends by name."""
    return _modules("convert.backends")


def runners() -> dict[str, Runner]:
    """The installed runners by name."""
    return _modules("convert.runners")


def formats() -> dict[str, Format]:
    """Every output format by name."""
    return {name: form for backend in backends().values() for name, form in backend.FORMATS.items()}


def frontend_for(source: Source) -> Frontend:
    """The frontend that reads `source`. Raises `UsageError` if none does."""
    for frontend in frontends().values():
        if source.kind in frontend.KINDS:
            return frontend
    raise UsageError(
        f"{source.label} is of kind {source.kind!r}, which no installed frontend reads",
        hint="`convert formats` lists what can be read",
    )


def backend_for(name: str) -> Backend:
    """The backend that writes format `name`. Raises `UsageError` if none does."""
    for backend in backends().values():
        if name in backend.FORMATS:
            return backend
    raise UsageError(f"there is no format {name!r}", hint=f"formats: {', '.join(sorted(formats()))}")


def runner_for(kind: str) -> Runner | None:
    """The runner for artefacts of `kind`, or None; of several the first whose runtime is installed."""
    found = [runner for runner in runners().values() if kind in runner.KINDS]
    ready = (runner for runner in found if len(found) > 1 and not runner.available())
    return next(ready, found[0] if found else None)


def claim(thing: Any) -> Source:
    """The source for an object in memory. Raises `UsageError` if no frontend claims it."""
    for frontend in frontends().values():
        kind = frontend.claims(thing)
        if kind:
            return Source(kind, model=thing)
    raise UsageError(
        f"no frontend reads a {type(thing).__module__}.{type(thing).__qualname__}",
        hint="`convert formats` lists what can be read",
    )
