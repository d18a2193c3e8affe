"""Discovery of frontends, backends and runners by entry points: third parties plug in as the built-in rooms do.

The modules named by the entry points `convert.frontends`, `convert.backends` and `convert.runners` must be cheap to
import (no framework); what they offer is written down in the protocols here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from convert.errors import ConvertError, UsageError
from convert.naming import ANY, TargetNames
from convert.nearest import did_you_mean
from convert.source import Source

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from convert.differences import Difference
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
    """The dtypes that it stores when asked: values of `Options.dtype` and `quantize`."""
    lacks: tuple[str, ...] = ()
    """The dtypes that its usual runtime does not compute in: models in these become float32 (`Options.widen`)."""
    entries: tuple[str, ...] = ()
    """Patterns of the files in its folder, from there on: `--force` replaces no folder with others in it."""
    never_lacking: tuple[str, ...] = ()  # without which a folder is another's work: `model.py` is a common name
    marks: tuple[tuple[str, bytes], ...] = ()
    """What is in the first 4 kB of files of its folder, each after its name, where no kind tells whose they are."""
    names: TargetNames = ANY
    """What inputs and outputs may be called in it: `convert.graph.names.rename_ends` gives them such names."""
    aliases: tuple[str, ...] = ()
    """What else people call it after `--to`: in lower case, words joined by "-"."""
    suffix_needed: bool = False  # its framework reads it under no other
    one_size_way: bool = False
    """Whether it lacks branches on sizes: of a model that decides on sizes it gets one way, and refuses other sizes."""
    title: str = ""
    """What the format is called in a report, e.g. `TensorFlow SavedModel`; empty for its name."""


T = TypeVar("T", str, int, float, bool, dict[str, Any])


@dataclass(frozen=True)
class Option(Generic[T]):
    """An option of a conversion, declared by the frontend or backend that asks for its value: `OPTION.of(options)`.

    The declaration makes the keyword `caffe2_layout` of the Python functions, the key of that name in manifests and
    `--caffe2-layout` on the command line. The type is that of `default`: text, a number, a flag, or a dict of arrays
    by input name, for which the command line and manifests name a file (`.npz`). Text and a dict may be left empty.

    >>> from convert.options import Options
    >>> Option("indent", 0, "Spaces of a level.", low=0, high=8).of(Options(extra={"indent": 2}))
    2
    """

    name: str
    default: T
    help: str
    """A sentence for `convert --help`."""
    choices: tuple[T, ...] = ()
    """The values that it takes; none for any."""
    low: int | None = None
    high: int | None = None
    """Bounds of a number, inclusive."""
    metavar: str = ""
    """How the help calls the value, where its type says too little."""
    file: bool = False
    """The text is the path of a file: what is in it is part of what a batch knows a task by."""
    stores: bool = False
    """A way to store numbers, refused where a format's `narrow` lacks it; only one such option may be given."""

    def of(self, options: Options) -> T:
        """The value that the user gave, or the default."""
        found: T = getattr(options, self.name, options.extra.get(self.name, self.default))
        return found

    def check(self, value: Any) -> None:
        """Raise `UsageError` unless `value` is of the option's type and one that it takes."""
        if self._accepts(value):
            return
        if self.choices:
            wanted = "one of " + ", ".join(map(str, self.choices))
        elif self.low is not None or self.high is not None:
            wanted = f"a number from {self.low} to {self.high}"
        else:
            wanted = {str: "text", bool: "true or false", dict: "arrays by name"}.get(type(self.default), "a number")
        raise UsageError(f"{self.name} = {value!r} is not {wanted}", hint=self.help)

    def _accepts(self, value: Any) -> bool:
        kinds: dict[type, tuple[type, ...]] = {float: (int, float), dict: (Mapping,)}
        if not isinstance(value, kinds.get(type(self.default), (type(self.default),))):
            return False
        if isinstance(value, bool) and not isinstance(self.default, bool):
            return False
        if self.choices and value not in (*self.choices, self.default):
            return False
        bounds = (-inf if self.low is None else self.low, inf if self.high is None else self.high)
        return not isinstance(value, int | float) or bounds[0] <= value <= bounds[1]


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder that a frontend or backend can tell by its content, in its `SNIFF`.

    Those of the core come first, whose checks are for hostile files; `matches` is asked about a path that none of them
    takes, with the first 64 kB of a file, or nothing for a folder. It executes nothing of what it reads.
    """

    name: str
    suffixes: tuple[str, ...]
    """How files of this kind are called: those are taken for models in the folders of a batch, broken ones too."""
    matches: Callable[[Path, bytes], bool]


@dataclass(frozen=True)
class Operator:
    """One row of `convert ops`; `gap` is the declared reason why an operator cannot be expressed, `limit` where not.

    `differs` is what the runtime makes of NaN, infinities and limits of integers, other than the operator has it.
    `written_out`: the backend has no rule for it, and it is written out in others that it has.
    """

    name: str
    gap: str = ""
    limit: str = ""
    differs: str = ""
    written_out: bool = False


class Frontend(Protocol):
    """A reader. `read` lists every unsupported operator before it lowers any.

    A frontend or backend that has `preload()` imports there what its work takes, and starts no thread: the workers of
    `convert batch` are forked from a process that has called it. One with options of its own has `OPTIONS`, a sequence
    of `Option`; one whose files the core cannot tell from others has `SNIFF`, a sequence of `Kind`. One whose `read`
    and runner look at `Options.fixed` has `FIXED_VALUES = True`, or `"assigned"` where numbers of Python are examples
    and only text (`sr=16000`) fixes a value. One that reads files of weights without their code lists these in
    `list_weights(source, options, report)`, which gives None for other files; one whose graphs have names that
    `--outputs` takes lists their nodes in `list_nodes(source, options)`, alike. `READS`: kinds by option. What a
    library starts threads for that are all of the program's, or writes while it is imported, is done before a file is
    read, in `prepare(source, options)`: reading is confined, and so are the threads that it starts.
    `find_contradiction(source)` says what is wrong in a file that a rule has stumbled over, or "".
    """

    KINDS: Mapping[str, str]
    """The kinds it reads, each with a sentence for `convert formats`."""

    def claims(self, thing: Any) -> str | None:
        """The kind of an object in memory, or None; decided by class names, without importing a framework."""

    def read(self, source: Source, options: Options, report: Report) -> ir.Model:
        """Lower the model to the shared graph. Raises `BadInput`, `UnsafeInput`, `Unsupported`, `UsageError`."""

    def operators(self) -> Iterable[Operator]: ...


class Backend(Protocol):
    """A writer. `write` may change the model it is given. May have `preload`, `OPTIONS` and `SNIFF` as a frontend.

    `DIFFERENCES`, where it has that, is a `convert.differences.Difference` sequence for each format; a frontend's
    `DIFFERENCES` is one sequence, about the runtime of its sources.
    """

    FORMATS: Mapping[str, Format]

    def check(self, model: ir.Model, format: str, options: Options) -> None:
        """Raise one `Unsupported` that lists everything in the model that `write` could not emit; changes nothing."""

    def write(self, model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
        """Write the artefact at `path`, which does not exist; the caller moves it to its destination."""

    def operators(self, format: str) -> Iterable[Operator]: ...


class Runner(Protocol):
    """Executes artefacts of some kinds; called inside a child process for files.

    A runner whose artefacts can be narrower than their source also has `stored(source) -> str`: one of
    `convert.stored.STORED`, or nothing, and `stored_weights(source) -> list[stored.StoredWeight]`, its constants
    as they lie in the file. One whose artefacts say what their ends are has `declared_ends(source) ->
    declared_ends.DeclaredEnds | None`: they are held to that. One that can follow a run has `trace(source, feed,
    options) -> runners.trace.Trace`, in float64 if it can: it tells where a frontend's graph departs from its source.
    One whose runtime has to be told something before it is imported has `environment(source) -> dict[str, str]`: the
    variables of the child process that runs this artefact.

    What convert has made, and whatever else is verified against a source, is run as its users run it: by
    `run_as_used(source, feeds, options)`, which a runner has whose `run` has ways round what a user would stumble over.
    It gives outputs by way, the first on all feeds and the others at least on the first, and raises where one of them
    does not go. One whose runtime computes otherwise by a variable has `settings(source) -> Sequence[dict[str, str]]`:
    the artefact is run under each of them, the first of which is what the runtime does by itself.

    The child process can neither write outside of its temporary folder nor connect, nor start programs, unless
    `PROGRAMS` has the kind: those are confined as it is.
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
        try:
            found[point.name] = point.load()
        except Exception as error:  # of any kind: the module is not ours
            raise ConvertError(
                f"{point.value}, an entry point {group!r}, cannot be imported: {type(error).__name__}: {error}",
                hint="mend the package that it comes from, or uninstall it",
            ) from error
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
        raise UsageError(
            f"there is no frontend {name!r}", hint=f"{did_you_mean(name, found)}frontends: {', '.join(found)}"
        )
    return found[name if name in found else rooms[0]]


def packages() -> list[str]:
    """The installed packages that frontends, backends and runners come from, this one among them."""
    every = entry_points()  # asked once: each time it goes through all that is installed
    groups = [every.select(group=f"convert.{plural}") for plural in ("frontends", "backends", "runners")]
    return sorted({dist.name for dist in {point.dist for group in groups for point in group} if dist is not None})


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


def names_of_kind(kind: str) -> TargetNames:
    """What inputs and outputs may be called in artefacts of `kind`: as the first format says that writes such."""
    return next((form.names for form in formats().values() if form.kind == kind), ANY)


def options_of(rooms: Iterable[Frontend | Backend]) -> dict[str, Option[Any]]:
    """The options that `rooms` declare, by name. Raises `ConvertError` where two mean different things by a name."""
    found: dict[str, Option[Any]] = {}
    for room in rooms:
        for option in getattr(room, "OPTIONS", ()):
            if found.setdefault(option.name, option) != option:
                raise ConvertError(
                    f"two frontends or backends declare the option {option.name!r}, each its own",
                    hint="uninstall one of the packages",
                )
    return found


def options() -> dict[str, Option[Any]]:
    """Every declared option by name, those of backends first."""
    return options_of([*backends().values(), *frontends().values()])


def kinds() -> list[Kind]:
    """The kinds of files that frontends and backends can tell besides those of `convert.files.sniff`."""
    return [kind for room in (*frontends().values(), *backends().values()) for kind in getattr(room, "SNIFF", ())]


def is_read(kind: str) -> bool:
    """Return whether a frontend reads files of this kind; others may only be written and run."""
    return any(kind in frontend.KINDS for frontend in frontends().values())


def frontend_for(source: Source) -> Frontend:
    """The frontend that reads `source`. Raises `UsageError` if none does."""
    for frontend in frontends().values():
        if source.kind in frontend.KINDS:
            return frontend
    raise UsageError(
        f"{source.label} is of kind {source.kind!r}, which no installed frontend reads",
        hint="`convert formats` lists what can be read",
    )


def skeleton(operator: str, room: Frontend | Backend | None = None) -> str:
    """The beginning of a rule for `operator`, by the room that is given or whose operators are called so.

    Frontends and backends with `skeleton(operator)` have it, and frontends with it `names_operator(operator)`. Raises
    `UsageError`.
    """
    readers = [f for f in frontends().values() if getattr(f, "names_operator", lambda name: False)(operator)]
    writers = sorted(backends().values(), key=lambda backend: -len(backend.FORMATS))
    rooms = [room] if room is not None else [*readers, *writers]
    for found in rooms:
        if hasattr(found, "skeleton"):
            return str(found.skeleton(operator))
    raise UsageError("this has no rules for operators", hint="give --from FRONTEND or --to FORMAT of another")


def parts_of(source: Source, options: Options, single: bool = False) -> dict[str, dict[str, Any]]:
    """The files that `source` is written as, as its frontend's `parts` says; `single` where one file was named."""
    tell = getattr(frontend_for(source), "parts", None)
    return {} if tell is None else dict(tell(source, options, single))


def takes_fixed_values(source: Source) -> bool | str:
    """`FIXED_VALUES` of the frontend of `source`, if there is one: whether inputs may be values of Python."""
    readers = (f for f in frontends().values() if source.kind in f.KINDS)
    found: bool | str = getattr(next(readers, None), "FIXED_VALUES", False)
    return found


def backend_for(name: str) -> Backend:
    """The backend that writes format `name`. Raises `UsageError` if none does."""
    for backend in backends().values():
        if name in backend.FORMATS:
            return backend
    known = sorted(formats())
    raise UsageError(f"there is no format {name!r}", hint=f"{did_you_mean(name, known)}formats: {', '.join(known)}")


def differences(source_kind: str, target_kind: str) -> list[Difference]:
    """What the runtimes of a source and of a target make of special values, other than the shared graph has it."""
    return list(dict.fromkeys([*target_differences(target_kind), *source_differences(source_kind)]))


def source_differences(source_kind: str) -> list[Difference]:
    """What a source's runtime makes of special values; of ordinary numbers that is the floor, which a verdict measures.

    It is known by its frontend, or by the backend of the same name, whose artefacts it runs as well.
    """
    found: list[Difference] = []
    for name, frontend in frontends().items():
        if source_kind in frontend.KINDS:
            room = getattr(backends().get(name), "DIFFERENCES", {})
            found += getattr(frontend, "DIFFERENCES", ())
            found += target_differences(source_kind) or next(iter(room.values()), ())
    return [difference for difference in dict.fromkeys(found) if not difference.within]


def target_differences(kind: str) -> list[Difference]:
    """What the runtime of a kind of artefact makes of special values, where a backend writes it."""
    found: list[Difference] = []
    for backend in backends().values():
        for form in backend.FORMATS.values():
            found += getattr(backend, "DIFFERENCES", {}).get(form.name, ()) if form.kind == kind else ()
    return found


def runner_for(kind: str) -> Runner | None:
    """The runner for artefacts of `kind`, or None; of several the first whose runtime is installed."""
    found = [runner for runner in runners().values() if kind in runner.KINDS]
    ready = (runner for runner in found if len(found) > 1 and not runner.available())
    return next(ready, found[0] if found else None)


def claim(thing: Any) -> Source:
    """The source for an object in memory. Raises `UsageError` if no frontend claims it."""
    for frontend in frontends().values():
        if kind := frontend.claims(thing):
            return Source(kind, model=thing)
    raise UsageError(
        f"no frontend reads a {type(thing).__module__}.{type(thing).__qualname__}",
        hint="`convert formats` lists what can be read",
    )
