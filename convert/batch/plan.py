"""The tasks of a batch, from a manifest, a folder, a glob or lines of paths."""

from __future__ import annotations

import glob
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from convert import limits, plugin
from convert.batch.contents import Stamp
from convert.batch.found_paths import SkippedPaths, matching_paths, paths_below
from convert.batch.storage import Url
from convert.errors import BadInput, ConvertError, UsageError
from convert.files.folders import listed_names, real_path
from convert.files.letter_case import place_of
from convert.files.missing import missing_path_error
from convert.files.output_place import check_inside
from convert.files.own_folders import is_own_name
from convert.files.sniff import plugged_kind, sniff
from convert.request.destination import format_named, names_format
from convert.request.nearest import did_you_mean, nearest
from convert.request.options import parse_size

SUFFIXES = frozenset((
    ".onnx", ".pt", ".pth", ".pt2", ".ptl", ".ckpt", ".safetensors", ".keras", ".h5", ".hdf5", ".pb", ".tflite",
    ".meta",
))  # fmt: skip
"""Suffixes of files that count as models by name, so that broken ones are reported; others are judged by content."""

_MARKS = ("saved_model.pb", "saved_model.pbtxt", "init_net.pb", "predictor.minidb")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_QUOTED = re.compile(r'"[^"\n]*"|\'[^\'\n]*\'')
_BITS = 4000
_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "input": list, "model": str, "model_arg": list, "code": list,
    "outputs": (str, list), "signature": str, "layout": str, "inputs": str, "seeds": int,
    "rtol": float, "atol": float, "trust": bool, "trace": bool, "verify": bool, "rules": list,
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """The state of a task's files: key, stamps (empty if changes may go unnoticed), and the task's own modules."""

    key: str = ""
    stamps: tuple[Stamp, ...] = ()
    modules: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Task:
    """One conversion: `source` to `format` at `output`, with options as the command line names them.

    `seconds` of wall time and bytes of `memory` are its limits (None: no limit).
    """

    name: str
    source: Path
    format: str
    output: Path | Url
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 3600.0
    memory: int | None = None
    seen: Seen | None = field(default=None, compare=False)
    problem: BadInput | None = field(default=None, compare=False)
    """Why it cannot begin: the named source is missing, or is no model."""

    @property
    def label(self) -> str:
        """Text for people: `resnet50 → onnx`."""
        return f"{self.name} → {self.format}"


def plan_tasks(
    what: Iterable[str],
    to: Iterable[str],
    output: Path | Url,
    options: Mapping[str, Any],
    seconds: float,
    memory: int | None,
    passed: SkippedPaths | None = None,
    exclude: Sequence[str] = (),
) -> list[Task]:
    """Return the tasks that `what` stands for: manifests (`.toml`), folders, globs and files, for each format in `to`.

    - `passed`: what was left out is added to it
    - `exclude`: patterns of names and paths of models to leave out

    Models are named like their files, without the suffix if the name is unique. Settings in a manifest take precedence
    over arguments. An item without a model becomes a task with a `problem`.

    - Raises `UsageError` for an unknown format or option, for two tasks with one output, and for an output that a link
      leads out of the folder.
    - Raises `BadInput` for a broken manifest, and if every item is a problem.
    """
    base = Task("", Path(), "", output, dict(options), seconds, memory)
    tasks: list[Task] = []
    found: list[tuple[str, Path]] = []
    passed = SkippedPaths() if passed is None else passed
    problems: dict[str, BadInput] = {}
    for item in what:
        path = Path(item)
        if path.suffix == ".toml":
            tasks += _manifest_tasks(path, base, list(to), passed)
        else:
            try:
                found += _named_models(item, path, output, passed)
            except BadInput as error:
                problems[item] = error
    count = Counter(name for name, _ in found)
    for name, source in found:
        tasks += _tasks_per_format(base, name if count[name] == 1 else name + source.suffix, source, list(to))
    for item, problem in problems.items():
        tasks += _failed_tasks(base, item, problem, list(to))
    tasks = _without_excluded(tasks, exclude, passed)
    failed = [task for task in tasks if task.problem is not None]
    if failed and len(failed) == len(tasks) and failed[0].problem is not None:
        raise failed[0].problem
    _check_places([task for task in tasks if task.problem is None], output)
    return tasks


def _without_excluded(tasks: list[Task], exclude: Sequence[str], passed: SkippedPaths) -> list[Task]:
    """Return the tasks that match no pattern, by the model's name, its file, its path or the name of a parent folder.

    Raises `UsageError` if none is left.
    """

    def matches(task: Task, pattern: str) -> bool:
        path = task.source
        names = (task.name, path.name, *(parent.name for parent in path.parents), str(path))
        return any(fnmatchcase(name, pattern.rstrip("/")) for name in names)

    excluded = [any(matches(task, pattern) for pattern in exclude) for task in tasks]
    kept = [task for task, out in zip(tasks, excluded, strict=True) if not out]
    passed.excluded += dict.fromkeys(task.source for task, out in zip(tasks, excluded, strict=True) if out)
    passed.unmatched += [pattern for pattern in exclude if not any(matches(task, pattern) for task in tasks)]
    if tasks and not kept:
        raise UsageError("--exclude leaves out every model", hint="leave it out, or give a narrower pattern")
    return kept


def _check_places(tasks: list[Task], output: Path | Url) -> None:
    """Raise `UsageError` if outputs are equal, lie in each other or in sources, or are outside the output folder."""
    places: dict[str, list[str]] = {}
    for task in tasks:
        places.setdefault(_place(task.output), []).append(str(task.output))
    if double := [" and ".join(dict.fromkeys(names)) for names in places.values() if len(names) > 1]:
        what = f"several models would be written to {', '.join(double[:5])}"
        one = ", one file on that disk" if any(" and " in names for names in double[:5]) else ""
        sources = Counter((str(task.source), _place(task.output)) for task in tasks)
        twice = [source for (source, _), count in sources.items() if count > 1]
        hint = f"name {', '.join(twice[:5])} once" if twice else "give them names in a manifest"
        raise UsageError(what + one, hint=hint)
    _check_apart(tasks)
    if not isinstance(output, Url):
        check_inside(output, (task.output.parent for task in tasks if isinstance(task.output, Path)))


def _check_apart(tasks: list[Task]) -> None:
    """Raise `UsageError` if one task would write into or over something that another task reads or writes."""
    outputs = {_place(task.output): task for task in tasks if isinstance(task.output, Path)}
    sources = {_place(task.source): task for task in tasks}
    for place, task in outputs.items():
        own = _place(task.source)  # the task itself reports more about its own source
        for above in (place, *map(str, Path(place).parents)):
            if (above != place and above in outputs) or (above in sources and above != own):
                what = "is also written" if above in outputs and above != place else "is the source of another model"
                raise UsageError(f"{place} would be written where {above} {what}", hint="give it another name or -o")
    for place, task in sources.items():
        if found := [p for p in map(str, Path(place).parents) if p in outputs and outputs[p] is not task]:
            raise UsageError(f"{found[0]} would be written over {place}, a source", hint="give it another name or -o")


def _place(path: Path | Url) -> str:
    """Return a key that is equal for all names of one place, also on case-insensitive file systems."""
    return place_of(path) if isinstance(path, Path) else str(path)


def _named_models(item: str, path: Path, output: Path | Url, passed: SkippedPaths) -> list[tuple[str, Path]]:
    """Return models and their names; in a folder, the name is the relative path."""
    written = _written_folders(output, path)
    if os.path.isdir(path) and not _is_model(path):
        found = [(str(p.relative_to(path).with_suffix("")), p) for p in _models(path, written, passed)]
    elif os.path.exists(path):
        found = [(path.stem, path)]
    else:
        every = [p for p in matching_paths(item) if _is_model(p)]
        found = [(p.stem, p) for p in every if not written & {*real_path(p).parents}]
    if not found:
        if names_format(item):
            raise UsageError(f"{item} names no model", hint=f"to name a format, use --to {item}")
        if not os.path.exists(path) and not glob.has_magic(item):
            raise missing_path_error(path, hub=False)
        ends = sorted({*SUFFIXES, *(s for kind in plugin.kinds() for s in kind.suffixes)})
        folder = next(p for p in (path, *path.parents) if not glob.has_magic(str(p)))
        inside = f"{folder} has {listed_names(folder)}" if folder.is_dir() else f"there is no folder {folder}"
        raise BadInput(f"{item} names no model", hint=f"{inside}; models are folders, or end in {', '.join(ends)}")
    return found


def _written_folders(output: Path | Url, asked: Path) -> set[Path]:
    """Return the output folder of an earlier run, if it may lie inside the folder `asked`."""
    if isinstance(output, Url) or real_path(output) in (real_path(asked), *real_path(asked).parents):
        return set()
    return {real_path(output)}


def _models(folder: Path, closed: set[Path], passed: SkippedPaths) -> Iterator[Path]:
    for path, is_model in paths_below(folder, _is_model, closed, passed):
        if is_model:
            yield path
        elif not path.is_dir():
            passed.files.append(path)


def _is_model(path: Path) -> bool:
    """Return whether a path is a model by its name or, if the name is inconclusive, by its content."""
    if path.is_dir():
        marked = any((path / mark).exists() for mark in _MARKS)
        weights = (p for pattern in _WEIGHTS for p in path.glob(pattern))
        return marked or ((path / "config.json").exists() and any(weights)) or bool(plugged_kind(path))
    if path.suffix.lower() in SUFFIXES or any(path.name.endswith(k.suffixes) for k in plugin.kinds()):
        return True
    try:
        return bool(sniff(path))
    except ConvertError:
        return False


def _failed_tasks(base: Task, item: str, problem: BadInput, to: list[str]) -> list[Task]:
    """Return one failing task for each format, because `item` is no model; nothing is written."""
    name = re.sub(r"[/\\:]+", "_", item)
    return [replace(task, problem=problem) for task in _tasks_per_format(base, name, Path(item), to)]


def _tasks_per_format(base: Task, name: str, source: Path, to: list[str]) -> list[Task]:
    if not to:
        raise UsageError(f"no format is given for {name}", hint="add --to FORMAT, or `to` in the manifest")
    forms = map(format_named, to)
    return [
        replace(base, name=name, source=source, format=form.name, output=base.output / (name + form.suffix))
        for form in forms
    ]


# -- manifests --------------------------------------------------------------------------------------------------------


def _manifest_tasks(path: Path, base: Task, to: list[str], passed: SkippedPaths) -> list[Task]:
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")
        with path.open("rb") as file:
            text = file.read(limits.MANIFEST_BYTES + 1)
        if len(text) > limits.MANIFEST_BYTES:
            raise ValueError(f"it has more than {limits.MANIFEST_BYTES:,} bytes")
        manifest = _toml(text.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: also for numbers with many digits
        raise BadInput(f"{path} is no manifest: {error}", hint="see `convert batch` in README.md") from error
    unknown = set(manifest) - {"defaults", "models"}
    models, defaults = manifest.get("models"), manifest.get("defaults", {})
    if unknown or not isinstance(models, list) or not models or not all(map(_is_table, (*models, defaults))):
        raise BadInput(
            f"{path} is no manifest: it needs [[models]], and may have [defaults]", hint=_manifest_hint(manifest)
        )
    base = _with_row(base, defaults, path, f"{path}, [defaults]")
    tasks = []
    for i, row in enumerate(models):
        where = f"{path}, model {row.get('name', row.get('source', i + 1))}"
        if not isinstance(row.get("source"), str) or not row["source"]:
            raise BadInput(f"{where} has no source", hint='add source = "model.pt"')
        own = _with_row(base, {k: v for k, v in row.items() if k not in ("source", "name")}, path, where)
        given = row.get("to", defaults.get("to", to))
        formats = [given] if isinstance(given, str) else list(given)
        found = _sources(row, path.parent, own.output, where, passed)
        if isinstance(found, BadInput):
            tasks += _failed_tasks(own, row["source"], found, formats)
        else:
            tasks += [task for name, source in found for task in _tasks_per_format(own, name, source, formats)]
    return tasks


def _toml(text: str) -> dict[str, Any]:
    """Return the content of a manifest.

    Raises `ValueError` for invalid TOML, and for TOML that its parser would take hours for.
    """
    for line in _QUOTED.sub("", text).splitlines():
        if line.count(".") > limits.MANIFEST_KEY_PARTS:
            raise ValueError(f"it has a key of more than {limits.MANIFEST_KEY_PARTS} parts")

    def items(value: Any) -> Iterable[Any]:
        return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()

    found = tomllib.loads(text)
    pending: list[Any] = [found]
    while pending:
        for value in items(pending.pop()):
            if isinstance(value, int) and value.bit_length() > _BITS:  # Python cannot print it
                raise ValueError("it has a number of more than 4,000 bits")
            if isinstance(value, str) and "\0" in value:
                raise ValueError(f"it has a text with the character NUL: {value!r}")
            pending.append(value)
    return found


def _is_table(part: object) -> bool:
    return isinstance(part, dict)


def _sources(
    row: Mapping[str, Any], folder: Path, output: Path | Url, where: str, passed: SkippedPaths
) -> list[tuple[str, Path]] | BadInput:
    """Return the model of a row, or the models in its folder or glob; or the error if there are none."""
    source = folder / row["source"]
    pattern = not os.path.exists(source) and glob.has_magic(row["source"])  # a name that is too long does not exist
    if not pattern and not (os.path.isdir(source) and not _is_model(source)):
        return [(_inner_path(row.get("name", source.stem), where), source)]
    if "name" in row:
        raise BadInput(f"{where}: one name for all that {row['source']} stands for", hint="leave out the name")
    try:
        return _named_models(str(source), source, output, passed)
    except BadInput as error:
        return error


_OWN_TYPES: dict[str, type | tuple[type, ...]] = {
    "to": (str, list), "output": str, "timeout": (int, float), "memory": (str, int)
}  # fmt: skip
"""Fields of a row that are no options of the task's command."""

_OWN_HINTS = {
    "to": 'give a format, or a list of them: to = ["onnx", "tf"]', "output": 'give a folder: output = "nets"',
    "timeout": "give a number of seconds: timeout = 600", "memory": 'give an amount of memory: memory = "8GB"',
}  # fmt: skip
_TYPES: dict[type, str] = {
    str: 'a text: {} = "…"',
    list: 'a list of texts: {} = ["…"]',
    bool: "true or false: {} = true",
}


def _type_hint(key: str, wanted: type | tuple[type, ...]) -> str:
    """Return which type an option has in a manifest, with an example."""
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    known = [_TYPES[kind].format(key) for kind in kinds if kind in _TYPES]
    return f"give {' or '.join(known)}" if known else f"give a number: {key} = 1"


def _manifest_hint(manifest: Mapping[str, Any]) -> str:
    """Return a hint for a manifest without tables, or with tables of other names: the lines to write."""
    unknown = sorted(set(manifest) - {"defaults", "models"})
    renamed = [f"[{name}] is meant as [[models]]" for name in unknown if nearest(name, ["models"])]
    renamed += [f"[{name}] is meant as [defaults]" for name in unknown if nearest(name, ["defaults"])]
    example = 'for each model a table: [[models]], and below it source = "model.onnx"'
    return "; ".join([*(f"it seems that {text}" for text in renamed), example])


_MOST = sys.float_info.max


def _holds_texts(value: Any) -> bool:
    """Return whether a list contains only strings; True for anything but a list."""
    return not isinstance(value, list) or all(isinstance(v, str) for v in value)


def _with_row(base: Task, row: Mapping[str, Any], path: Path, where: str) -> Task:
    """Return `base` with the settings of a manifest's row, whose paths are relative to the manifest."""
    options, types, paths = dict(base.options), option_types(), path_options()
    for key, value in row.items():
        if key in types:
            if (
                not isinstance(value, types[key])
                or (isinstance(value, bool) and types[key] is not bool)
                or not _holds_texts(value)
            ):
                raise BadInput(f"{where}: {key} = {value!r} is of the wrong type", hint=_type_hint(key, types[key]))
            options[key] = _resolve_paths(value, path.parent) if key in paths or _is_file(key, value) else value
        elif key in _OWN_TYPES:
            wrong = not isinstance(value, _OWN_TYPES[key]) or isinstance(value, bool)
            if wrong or (isinstance(value, (int, float)) and not 0 < value <= _MOST) or not _holds_texts(value):
                raise BadInput(f"{where}: {key} = {value!r} is of the wrong type", hint=_OWN_HINTS[key])
        else:
            known = sorted({*types, "to", "output", "timeout", "memory", "source", "name"})
            raise BadInput(
                f"{where}: there is no {key!r}", hint=f"{did_you_mean(key, known)}known are {', '.join(known)}"
            )
    return replace(
        base,
        options=options,
        output=base.output / _inner_path(row["output"], where) if "output" in row else base.output,
        seconds=float(row.get("timeout", base.seconds)),
        memory=parse_size(str(row["memory"])) if "memory" in row else base.memory,
    )


def option_types() -> dict[str, type | tuple[type, ...]]:
    """Return the options that a manifest may set, with the types of their values in a manifest; arrays are given as a
    file.
    """
    special: dict[type, type | tuple[type, ...]] = {dict: str, float: (int, float)}
    declared = {name: type(option.default) for name, option in plugin.options().items()}
    return {**_OPTIONS, **{name: special.get(kind, kind) for name, kind in declared.items()}}


def path_options() -> list[str]:
    """Return the options whose values are paths of files that a result depends on."""
    declared = plugin.options().values()
    return [*(o.name for o in declared if o.file or isinstance(o.default, dict)), "inputs", "rules", "code"]


def _inner_path(name: Any, where: str) -> str:
    """Return a name or folder of a manifest, which must lie inside the batch's output folder. Raises `BadInput`."""
    parts = re.split(r"[/\\]", name) if isinstance(name, str) else []
    if (
        not parts
        or "" in parts
        or ".." in parts
        or re.match(r"\w+:", parts[0])
        or any(c < " " for c in str(name))
        or any(map(is_own_name, parts))
    ):
        raise BadInput(f"{where}: {name!r} is no path inside of the output folder", hint="name that folder with -o")
    return str(name)


def _is_file(key: str, value: Any) -> bool:
    """Return whether the factory of a model is in a file (`net.py:Net`) instead of a package."""
    return key == "model" and str(value).rpartition(":")[0].endswith(".py")


def _resolve_paths(value: Any, folder: Path) -> Any:
    return [str(folder / v) for v in value] if isinstance(value, list) else str(folder / value)
