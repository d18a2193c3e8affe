"""Converts a model into several files, each with its own conversion: an encoder, a decoder, one with a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert import plugin
from convert.errors import ConvertError, ParityError, Unsupported, UsageError
from convert.files.companions import copy_companions, dtype_suffix
from convert.files.output import atomic_replacement, discard_unfinished, size_of
from convert.files.output_place import check_apart, check_inside, check_replaceable
from convert.outcome.part_reports import has_folders, sum_up
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, GenerationVerdict
from convert.plugin import Format
from convert.request.destination import exists_error, output_folder
from convert.request.options import Options
from convert.request.source import Source
from convert.request.storage import DTYPE, QUANTIZE


def convert_parts(
    convert: Callable[..., Report],
    parts: Mapping[str, Mapping[str, Any]],
    form: Format,
    source: Source,
    output: str | Path | None,
    chosen: Options,
    given: Mapping[str, Any],
    report: Report,
) -> Report:
    """Convert each part into the folder `output`, all of them or none; return `report` with the results of all parts.

    - `parts`: the options that select a part, by the stem of its file
    - `convert`: converts to a place with `given` options, of which `chosen` are those of the source

    The parts are written beside their places, and moved there when the last one is complete: after an error in any of
    them, the old files stay. Further files of the format are made of them (`plugin.joined_parts`). If each part was
    verified, they first generate together. Raises as `convert` does, `UsageError` for an output that is a single file,
    and `ParityError` for different tokens.
    """
    folder = output_folder(source, form, output)
    if folder.name.lower().endswith(form.suffix):
        files = ", ".join(f"{stem}{form.suffix}" for stem in parts)
        raise UsageError(f"this is written as {len(parts)} files: {files}", hint=f"give -o {folder.stem}, a folder")
    whole, folder = folder, folder / (plugin.folder_of_runtime(form, chosen) or "")
    report.source, report.kind, report.target, report.format = source.label, source.kind, str(folder), form.name
    found = {stem: Report("convert", companions={}) for stem in parts}
    options = {stem: {**given, **chosen, **_dump_of(stem, given)} for stem, chosen in parts.items()}
    joined = plugin.joined_parts(form, parts)
    nested = has_folders(parts)
    ending = form.suffix if nested else _ending(folder, form, chosen)
    names = {stem: f"{stem}{ending}" for stem in (*parts, *joined)}
    check_inside(whole, ((folder / name).parent for name in names.values()))
    if given["dry_run"]:
        for stem in parts:
            convert(folder / names[stem], **options[stem], report=found[stem])
        sum_up(report, found)
        return report
    read = _files_of(source)
    kept = _checked(folder, names, form, source, read, given)
    for stem in set(kept) & set(parts):
        found[stem].unverified = "the output exists already and was left as it is"
    wanted = {stem: name for stem, name in names.items() if stem not in kept}
    with _beside(folder, list(wanted.values()), given["force"], read) as places:
        for stem in [stem for stem in parts if stem in wanted]:
            place = places[names[stem]]
            with _name_of_place(place, folder / names[stem]):
                convert(place, **{**options[stem], "force": False, "skip_existing": False}, report=found[stem])
        for stem in [stem for stem in joined if stem in wanted]:
            made_of = [places.get(names[part], folder / names[part]) for part in joined[stem]]
            _write_joined(form, made_of, places[names[stem]], report)
        generation = None
        if not kept and all(part.verdict is not None for part in found.values()):
            written = {stem: places[name] for stem, name in names.items() if places[name].exists()}
            generation = _hold_generation(written, form, source, found, chosen, given, report)
    first = folder / next(iter(names.values()))
    copy_companions(_companions(found, names, source), first, report, folder if nested else None)
    sum_up(report, found)
    if report.verdict is not None:
        report.verdict = replace(report.verdict, generation=generation)
    return report


def _ending(folder: Path, form: Format, chosen: Options) -> str:
    """Return the end of the files' names: the suffix, behind the dtype where runtimes look for that."""
    return dtype_suffix(folder, QUANTIZE.of(chosen) or DTYPE.of(chosen)) + form.suffix


def _companions(found: Mapping[str, Report], names: Mapping[str, str], source: Source) -> dict[str, Path | bytes]:
    """Return the files to copy beside the parts by their place in the folder: a part in a folder has its own."""
    own = {
        (Path(names[stem]).parent / name).as_posix(): file
        for stem, part in found.items()
        for name, file in (part.companions or {}).items()
    }
    return {**plugin.shared_files(source), **own}


def _write_joined(form: Format, parts: Sequence[Path], path: Path, report: Report) -> None:
    """Write a file that is made of `parts`. If they cannot be joined, a note says why: the parts do without it."""
    with report.stage("write"):
        try:
            plugin.join_parts(form, parts, path, report)
        except Unsupported as error:
            report.note(f"{path.name} was not written: {error.sentence}", code="not-joined")
        else:
            report.output_bytes += size_of(path)


def _hold_generation(
    files: Mapping[str, Path],
    form: Format,
    source: Source,
    found: Mapping[str, Report],
    chosen: Options,
    given: Mapping[str, Any],
    report: Report,
) -> GenerationVerdict | None:
    """Return the verdict of generating with all parts, or None.

    Raises `ParityError` if the tokens differ from the source's.
    """
    from convert.parity.generation.encoders import STEMS, verify_encoder_generation
    from convert.parity.method import VerifyMethod

    if not set(files).issuperset(STEMS):
        return None
    with report.stage("verify"):
        method = given["method"] or VerifyMethod()
        made = verify_encoder_generation(source, files, form.kind, found, chosen, method)
    if isinstance(made, str):
        report.note(made, code="not-compared")
        return None
    if made.status == FAIL:
        raise ParityError(
            f"{report.target} would not generate the tokens of {source.label} does: {made.reason}",
            hint="nothing was written; --no-verify writes it all the same. Please report this model",
        )
    return made


def _dump_of(stem: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option that gives each part its own folder for dumped passes."""
    place = given["dump_passes"]
    return {} if place is None else {"dump_passes": Path(place) / stem}


def _files_of(source: Source) -> list[Path]:
    """Return a source and its entries, which may be links to other places."""
    path = source.path
    return [] if path is None else [path, *(path.iterdir() if path.is_dir() else ())]


def _checked(
    folder: Path, names: Mapping[str, str], form: Format, source: Source, read: Sequence[Path], given: Mapping[str, Any]
) -> list[str]:
    """Return the existing parts that are kept, as requested. Raises `UsageError` if a part must not be written."""
    discard_unfinished(folder)
    kept = []
    for stem, name in names.items():
        place = folder / name
        discard_unfinished(place)
        if place.exists() and not given["force"]:
            if not given["skip_existing"]:
                raise exists_error(place, form, source)
            kept.append(stem)
            continue
        check_apart(place, read)
        check_replaceable(place, list(plugin.formats().values()))
    return kept


@contextmanager
def _beside(folder: Path, names: Sequence[str], force: bool, read: Sequence[Path]) -> Iterator[dict[str, Path]]:
    """Context manager: yield a temporary place for each file. Afterwards all move to `folder`; after an error, none."""
    if not names:
        yield {}
    elif not folder.exists():
        with atomic_replacement(folder, force=False, read=read) as new:
            new.mkdir()
            yield {name: new / name for name in names}
    elif has_folders(names):  # each of these has a folder of its own, which may hold other files
        with ExitStack() as stack:
            replaced = {
                name: stack.enter_context(atomic_replacement(folder / name, force=force, read=read)) for name in names
            }
            yield replaced
    else:
        # The hidden folder is named after one file. A later run finds the folder, and restores moved files after a
        # kill, by that file's name; so the file must be one that is replaced.
        first = max(names, key=lambda name: (folder / name).exists())
        with atomic_replacement(folder / first, force=force, read=read) as new:
            yield {name: new.parent / name for name in names}


@contextmanager
def _name_of_place(temporary: Path, place: Path) -> Iterator[None]:
    """Context manager: make errors name the requested place of a file instead of the temporary one."""
    try:
        yield
    except ConvertError as error:
        for old, new in ((str(temporary), str(place)), (str(temporary.parent), str(place.parent))):
            error.message, error.hint = error.message.replace(old, new), error.hint.replace(old, new)
        raise
