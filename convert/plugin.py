"""Finds frontends, backends and runners by entry points; other packages add theirs as the built-in ones are added.

The entry points `convert.frontends`, `convert.backends` and `convert.runners` name modules that import no framework.
The protocols here say what such a module offers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from convert.entry_points import entry_points
from convert.errors import ConvertError, Unsupported, UsageError
from convert.request.naming import ANY, TargetNames
from convert.request.nearest import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options
    from convert.request.source import Source
    from convert.runtimes.differences import Difference


@dataclass(frozen=True)
class Format:
    """An output format: its name after `--to`, the suffix of its artefact, whether that is a folder, and a summary."""

    name: str
    suffix: str
    folder: bool
    summary: str
    kind: str
    """The kind of the artefact when it is read again (`sniff.KINDS`), which decides which runner executes it."""
    narrow: tuple[str, ...] = ()
    """The narrower dtypes that it can store: values of `Options.dtype` and `quantize`."""
    missing_dtypes: tuple[str, ...] = ()
    """Dtypes that its usual runtime missing_dtypes: models in these become float32 (`Options.widen`)."""
    folder_files: tuple[str, ...] = ()
    """Patterns of the files in its folder, relative to it: `--force` replaces no folder that holds other files."""
    required_files: tuple[str, ...] = ()
    """Files that every such folder has; a folder without them is the user's, because `model.py` is a common name."""
    file_signatures: tuple[tuple[str, bytes], ...] = ()
    """Bytes in the first 4 kB of files of its folder, by name, which tell our files from others of that name."""
    names: TargetNames = ANY
    """The names that it allows for inputs and outputs; `convert.graph.names.rename_io` makes such names."""
    aliases: tuple[str, ...] = ()
    """Other names for it after `--to`, in lower case, with words joined by "-"."""
    suffix_needed: bool = False  # its framework accepts no other name
    single_size_branch: bool = False
    """Whether it has no branches on sizes: a model that decides on sizes keeps one branch, and refuses other sizes."""
    title: str = ""
    """The name of the format in a report, e.g. `TensorFlow SavedModel`; empty if that is `name`."""


T = TypeVar("T", str, int, float, bool, dict[str, Any])


@dataclass(frozen=True)
class Option(Generic[T]):
    """An option of a conversion, declared by the frontend or backend that reads its value with `OPTION.of(options)`.

    An option named `caffe2_layout` is a keyword of the Python functions, a key of manifests, and `--caffe2-layout` on
    the command line. Its type is the type of `default`: text, a number, a flag, or a dict of arrays by input name. For
    a dict, the command line and manifests name a file (`.npz`). Text and a dict may be empty.

    >>> from convert.request.options import Options
    >>> Option("indent", 0, "Spaces of a level.", low=0, high=8).of(Options(extra={"indent": 2}))
    2
    """

    name: str
    default: T
    help: str
    """A sentence for `convert --help`."""
    choices: tuple[T, ...] = ()
    """The allowed values; empty if every value is allowed."""
    low: int | None = None
    high: int | None = None
    """Bounds of a number, inclusive."""
    metavar: str = ""
    """The name of the value in the help, if its type says too little."""
    file: bool = False
    """The text is the path of a file, whose content is a part of the key of a task in a batch."""
    stores: bool = False
    """Whether the option narrows stored numbers. Formats whose `narrow` lacks its value refuse it; only one may be
    given.
    """

    def of(self, options: Options) -> T:
        """Return the value that the user gave, or the default."""
        found: T = getattr(options, self.name, options.extra.get(self.name, self.default))
        return found

    def check(self, value: Any) -> None:
        """Raise `UsageError` unless `value` has the option's type and is allowed."""
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
    """A kind of file or folder that a frontend or backend recognizes by its content; `SNIFF` is a sequence of these.

    The kinds of the core are checked first, because these checks reject hostile files. `matches(path, head)` is called
    for a path of no other kind, with the first 64 kB of a file, or with no bytes for a folder. It must not execute any
    of the content.
    """

    name: str
    suffixes: tuple[str, ...]
    """Suffixes of such files: in the folders of a batch, files with these are models, broken ones too."""
    matches: Callable[[Path, bytes], bool]


@dataclass(frozen=True)
class Operator:
    """One row of `convert ops`.

    - `gap`: the declared reason why the operator cannot be expressed.
    - `limit`: the cases that its rule does not take.
    - `difference`: how the runtime's results for NaN, infinities and limits of integers differ from the operator's.
    - `written_out`: the backend has no rule for it, and writes several other operators instead.
    """

    name: str
    gap: str = ""
    limit: str = ""
    difference: str = ""
    written_out: bool = False


class Frontend(Protocol):
    """A reader. `read` lists every unsupported operator before it lowers any.

    A frontend may also have the following; the first three also apply to backends:

    - `preload()`: imports what the work takes, and starts no thread. The workers of `convert batch` are forked from a
      process that has called it.
    - `OPTIONS`, a sequence of `Option`: options of its own.
    - `SNIFF`, a sequence of `Kind`: files that the core does not recognize.
    - `FIXED_VALUES`: True if `read` and the runner look at `Options.fixed`; `"assigned"` if plain numbers are examples,
      and only text (`sr=16000`) fixes a value.
    - `list_weights(source, options, report)`: the tensors of a file of weights without code; None for other files.
    - `operator_row(name)`: the row of an operator that `operators` lists under another name, or that the framework
      decomposes; None for an unknown one.
    - `list_nodes(source, options)`: the nodes whose names `--outputs` takes; None for other files.
    - `READS`: the kinds that each option is for.
    - `prepare(source, options)`: called before a file is read. Reading is confined, and so are the threads that it
      starts; a library that starts threads for the whole program, or writes files when it is imported, does so here.
    - `find_contradiction(source)`: what is wrong in a file that a rule failed on, or "".
    - `EMBEDDED` and `embedded(kind)`, an `Embedded`: kinds of programs that it reads inside other frameworks' models.
    """

    KINDS: Mapping[str, str]
    """The kinds it reads, each with a sentence for `convert formats`."""

    def claims(self, model: Any) -> str | None:
        """Return the kind of an object in memory, or None; it is decided by class names, without importing a
        framework.
        """

    def read(self, source: Source, options: Options, report: Report) -> ir.Model:
        """Return the model as the shared graph. Raises `BadInput`, `UnsafeInput`, `Unsupported` and `UsageError`."""

    def operators(self) -> Iterable[Operator]: ...


class Embedded(Protocol):
    """Reads programs of one kind inside the models of other frameworks, such as those of jax2tf in SavedModels."""

    def check(self, program: bytes, label: str) -> None:
        """Raise one `Unsupported` that lists every operator without a rule, or `BadInput` for a damaged program."""

    def only_computes(self, program: bytes) -> bool:
        """Return whether running a program does nothing but compute, as far as known."""

    def lower(
        self, g: Any, program: bytes, arguments: Sequence[ir.Value], label: str, platforms: Sequence[str] = ()
    ) -> list[ir.Value]:
        """Write a program to a builder of the shared graph, and return its results."""


class Backend(Protocol):
    """A writer. It may have `preload`, `OPTIONS` and `SNIFF`, as a frontend may.

    Its optional `DIFFERENCES` maps each format to a sequence of `convert.runtimes.differences.Difference`: how the
    format's runtime treats special values. A frontend's `DIFFERENCES` is one sequence, about the runtime of its
    sources.

    Its optional `JOINED` maps each format to files that runtimes expect besides the parts of a model: their stems, each
    with the stems of the parts that it is made of. `join(files, path, report)` writes such a file from these parts.

    Its optional `restrict(model, format, options)` notes in `model` which sizes and integers the artefact takes, if the
    source takes more (`GUARDS_KEY`, `RANGE_KEY`). The report states them, and the verification stays within.

    Its optional `folder_of_runtime(format, options)` returns the folder, relative to the output, in which the runtime
    that `options` name looks for the artefact ("" is the output itself), or None if no runtime is named.
    """

    FORMATS: Mapping[str, Format]

    def check(self, model: ir.Model, format: str, options: Options) -> None:
        """Raise one `Unsupported` that lists everything that `write` could not emit. Changes nothing."""

    def write(self, model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
        """Write the artefact at `path`, which does not exist; the caller moves it to its place. May change `model`."""

    def operators(self, format: str) -> Iterable[Operator]: ...


class Runner(Protocol):
    """Executes artefacts of some kinds; files are run in a child process.

    The child process cannot write outside its temporary folder, connect, or start programs. A kind that is listed in
    `PROGRAMS` may start programs, which are confined in the same way.

    A runner may also have:

    - `stored(source) -> str` and `stored_weights(source) -> list[stored.StoredWeight]`, if artefacts can be narrower
      than their source: one of `convert.request.stored.STORED` or "", and the constants as the file stores them.
    - `declared_signature(source) -> declared_signature.DeclaredSignature | None`: the inputs and outputs that the
      artefact declares; the verification checks them.
    - `trace(source, feed, options) -> runtimes.trace.Trace`: the values inside of a run, in float64 if possible. It
      shows where a frontend's graph departs from its source.
    - `INNER_TENSORS = True`, if `run` takes the option `convert.request.detections.INNER` and returns tensors inside.
      The verification then judges outputs behind a selection of boxes by what the target has selected from.
    - `environment(source) -> dict[str, str]`: variables that the child process needs before the runtime is imported.
    - `run_as_used(source, feeds, options)`, if `run` works around something that users would run into. It returns
      outputs by the way that they were computed: the first way on all feeds, the others on the first feed at least. It
      raises if one of them fails. Targets of a verification are run by it.
    - `settings(source) -> Sequence[dict[str, str]]`: sets of variables under which the runtime computes differently.
      The artefact is run under each of them; the first is the default of the runtime.
    """

    KINDS: Sequence[str]

    def run(
        self, source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
    ) -> list[dict[str, np.ndarray]]:
        """Return one dict of outputs, by name in the model's order, for each dict of inputs.

        precision: `float32` (as deployed) or `float64` (all floating numbers widened). Raises `Unsupported` if the
        runtime does not have that precision.
        """

    def available(self) -> str:
        """Return "" if the runtime is installed, else what is missing."""


@cache
def _modules(group: str) -> dict[str, Any]:
    found = {}
    for point in entry_points(group):
        try:
            found[point.name] = point.load()
        except Exception as error:  # any exception: the module is not ours
            raise ConvertError(
                f"{point.value}, an entry point {group!r}, cannot be imported: {type(error).__name__}: {error}",
                hint="repair or uninstall the package that it comes from",
            ) from error
    if not found:
        raise ConvertError(
            f"no entry points {group!r} are installed", hint="install the project: pip install -e '.[all]'"
        )
    return found


def frontends() -> dict[str, Frontend]:
    """Return the installed frontends by name. Raises `ConvertError` if one cannot be imported."""
    return _modules("convert.frontends")


def frontend_named(name: str) -> Frontend:
    """Return the frontend called `name`, or the one that belongs to the format `name`: "tf" gives TensorFlow's.

    Raises `UsageError` if there is none.
    """
    found = frontends()
    matching = [package for package, backend in backends().items() if name in backend.FORMATS and package in found]
    if name not in found and not matching:
        raise UsageError(
            f"there is no frontend {name!r}", hint=f"{did_you_mean(name, found)}frontends: {', '.join(found)}"
        )
    return found[name if name in found else matching[0]]


def packages() -> list[str]:
    """Return the names of the installed packages with frontends, backends or runners, this one among them."""
    from importlib import metadata

    every = metadata.entry_points()  # computed once, because each call examines all installed packages
    groups = [every.select(group=f"convert.{plural}") for plural in ("frontends", "backends", "runners")]
    return sorted({dist.name for dist in {point.dist for group in groups for point in group} if dist is not None})


def operators_in_text(
    rows: Sequence[Operator], text: str, other: Callable[[str], Operator | None] = lambda name: None
) -> list[Operator]:
    """Return the rows of the operators at the start of each line of `text`; an unknown one is an undeclared gap.

    other: finds the row of a name that is not in `rows`, or None.
    """
    table = {row.name: row for row in rows}
    names = [line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    unknown = "no operator of this name is known"
    return [table.get(name) or other(name) or Operator(name, unknown) for name in dict.fromkeys(names)]


def backends() -> dict[str, Backend]:
    """Return the installed backends by name. Raises `ConvertError` if one cannot be imported."""
    return _modules("convert.backends")


def runners() -> dict[str, Runner]:
    """Return the installed runners by name. Raises `ConvertError` if one cannot be imported."""
    return _modules("convert.runners")


def formats() -> dict[str, Format]:
    """Return every output format by name."""
    return {name: form for backend in backends().values() for name, form in backend.FORMATS.items()}


def names_of_kind(kind: str) -> TargetNames:
    """Return the names that artefacts of `kind` allow for inputs and outputs, as declared by the first format that
    writes them.
    """
    return next((form.names for form in formats().values() if form.kind == kind), ANY)


def options_declared_by(packages: Iterable[Frontend | Backend]) -> dict[str, Option[Any]]:
    """Return the options that `packages` declare, by name. Raises `ConvertError` if two share a name and
    differ.
    """
    found: dict[str, Option[Any]] = {}
    for package in packages:
        for option in getattr(package, "OPTIONS", ()):
            if found.setdefault(option.name, option) != option:
                raise ConvertError(
                    f"two frontends or backends declare different options named {option.name!r}",
                    hint="uninstall one of the packages",
                )
    return found


def options() -> dict[str, Option[Any]]:
    """Return every declared option by name, those of backends first."""
    return options_declared_by([*backends().values(), *frontends().values()])


def kinds() -> list[Kind]:
    """Return the kinds that frontends and backends recognize besides those of `convert.files.sniff`."""
    return [kind for package in (*frontends().values(), *backends().values()) for kind in getattr(package, "SNIFF", ())]


def is_readable(kind: str) -> bool:
    """Return whether a frontend reads files of this kind; others may only be written and run."""
    return any(kind in frontend.KINDS for frontend in frontends().values())


def embedded_reader(kind: str) -> Embedded:
    """Return the reader of programs of this kind inside other models. Raises `Unsupported` if no frontend has one."""
    for frontend in frontends().values():
        if kind in getattr(frontend, "EMBEDDED", ()):
            found: Embedded = frontend.embedded(kind)  # type: ignore[attr-defined]
            return found
    raise Unsupported(f"no installed frontend reads programs of kind {kind!r} inside of other models")


def frontend_for(source: Source) -> Frontend:
    """Return the frontend that reads `source`. Raises `UsageError` if none does."""
    for frontend in frontends().values():
        if source.kind in frontend.KINDS:
            return frontend
    raise UsageError(
        f"{source.label} is of kind {source.kind!r}, which no installed frontend reads",
        hint="`convert formats` lists what can be read",
    )


def skeleton(operator: str, package: Frontend | Backend | None = None) -> str:
    """Return the beginning of a rule for `operator` as Python text.

    package: the frontend or backend that the rule is for; None finds it by the operator's name. It must have a function
    `skeleton(operator)`, and a frontend also `names_operator(operator)`.

    Raises `UsageError` if `package` has no rules.
    """
    readers = [f for f in frontends().values() if getattr(f, "names_operator", lambda name: False)(operator)]
    writers = sorted(backends().values(), key=lambda backend: -len(backend.FORMATS))
    candidates = [package] if package is not None else [*readers, *writers]
    for found in candidates:
        if hasattr(found, "skeleton"):
            return str(found.skeleton(operator))
    raise UsageError(
        "that frontend or backend has no rules for operators", hint="give --from FRONTEND or --to FORMAT of another"
    )


def parts_of(source: Source, options: Options, single: bool = False) -> dict[str, dict[str, Any]]:
    """Return the options of each file that `source` is written as, by stem; empty for one file.

    single: the user has named one file as the output. The frontend's `parts` decides. A stem may have a folder
    (`unet/model`): runtimes then look for each file in a folder of its own.
    """
    tell = getattr(frontend_for(source), "parts", None)
    return {} if tell is None else dict(tell(source, options, single))


def shared_files(source: Source) -> dict[str, Path]:
    """Return the files that runtimes need beside the parts of `source`, by relative path; empty for most sources."""
    tell = getattr(frontend_for(source), "shared_files", None)
    return {} if tell is None else dict(tell(source))


def joined_parts(form: Format, stems: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the files that a format has besides the parts `stems`, by stem: those parts that each is made of."""
    there = set(stems)
    declared = getattr(backend_for(form.name), "JOINED", {}).get(form.name, {})
    return {stem: tuple(parts) for stem, parts in declared.items() if there.issuperset(parts)}


def join_parts(form: Format, files: Sequence[Path], path: Path, report: Report) -> None:
    """Write one of the `joined_parts` to `path`. files: its parts, in the declared order."""
    backend_for(form.name).join(files, path, report)  # type: ignore[attr-defined]


def restrict_inputs(model: ir.Model, form: Format, options: Options) -> None:
    """Let the backend note which inputs its artefact takes, if the source takes more."""
    tell = getattr(backend_for(form.name), "restrict", None)
    if tell is not None:
        tell(model, form.name, options)


def folder_of_runtime(form: Format, options: Options) -> str | None:
    """Return where in the output folder the requested runtime looks for the artefact; None if none is requested."""
    tell = getattr(backend_for(form.name), "folder_of_runtime", None)
    return None if tell is None else tell(form.name, options)


def fixed_value_support(source: Source) -> bool | str:
    """Return `FIXED_VALUES` of the frontend that reads `source`: whether inputs may be plain Python values."""
    readers = (f for f in frontends().values() if source.kind in f.KINDS)
    found: bool | str = getattr(next(readers, None), "FIXED_VALUES", False)
    return found


def backend_for(name: str) -> Backend:
    """Return the backend that writes format `name`. Raises `UsageError` if none does."""
    for backend in backends().values():
        if name in backend.FORMATS:
            return backend
    known = sorted(formats())
    raise UsageError(f"there is no format {name!r}", hint=f"{did_you_mean(name, known)}formats: {', '.join(known)}")


def differences(source_kind: str, target_kind: str) -> list[Difference]:
    """Return how the runtimes of source and target treat special values differently from the shared graph."""
    return list(dict.fromkeys([*target_differences(target_kind), *source_differences(source_kind)]))


def source_differences(source_kind: str) -> list[Difference]:
    """Return how the runtime of a source treats special values differently from the shared graph.

    The frontend declares it, or the backend of the same name, because the same runtime runs the artefacts of both.
    Differences in ordinary numbers are left out: a verdict measures them as the noise floor.
    """
    found: list[Difference] = []
    for name, frontend in frontends().items():
        if source_kind in frontend.KINDS:
            by_format = getattr(backends().get(name), "DIFFERENCES", {})
            found += getattr(frontend, "DIFFERENCES", ())
            found += target_differences(source_kind) or next(iter(by_format.values()), ())
    return [difference for difference in dict.fromkeys(found) if not difference.within]


def target_differences(kind: str) -> list[Difference]:
    """Return how the runtime of an artefact treats special values differently, as its backend declares it."""
    found: list[Difference] = []
    for backend in backends().values():
        for form in backend.FORMATS.values():
            found += getattr(backend, "DIFFERENCES", {}).get(form.name, ()) if form.kind == kind else ()
    return found


def runner_for(kind: str) -> Runner | None:
    """Return the runner for artefacts of `kind`, or None. If there are several, the first one with an installed runtime
    is returned.
    """
    found = [runner for runner in runners().values() if kind in runner.KINDS]
    ready = (runner for runner in found if len(found) > 1 and not runner.available())
    return next(ready, found[0] if found else None)


def source_for_object(model: Any) -> Source:
    """Return the source for an object in memory. Raises `UsageError` if no frontend claims it."""
    from convert.request.source import Source

    for frontend in frontends().values():
        if kind := frontend.claims(model):
            return Source(kind, model=model)
    plain = inspect.isroutine(model) or isinstance(model, functools.partial)
    raise UsageError(
        f"no frontend reads a {type(model).__module__}.{type(model).__qualname__}",
        hint="pass jax.jit(f) or tf.function(f) instead of f" if plain else "`convert formats` lists what can be read",
    )
