"""Compare a model of several files with its source: each file by itself, then the tokens that they generate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from convert import plugin
from convert.errors import BadInput, UsageError
from convert.files.part_names import DTYPES, MERGED
from convert.outcome.part_reports import sum_up
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, Finding
from convert.parity.generation.encoders import STEMS, verify_encoder_generation
from convert.parity.method import VerifyMethod
from convert.plugin import Format
from convert.request.options import Options
from convert.request.source import Source


@dataclass(frozen=True)
class Parts:
    """A folder with the files of an encoder-decoder model, or of a pipeline, by their stems."""

    folder: Path
    form: Format
    files: Mapping[str, Path]

    @property
    def label(self) -> str:
        """Name for messages."""
        return str(self.folder)

    @property
    def kind(self) -> str:
        """Kind of each file."""
        return self.form.kind


def parts_in(path: Any) -> Parts | None:
    """Return the parts in a folder, or None. Raises `UsageError` if it has parts of several formats.

    Of parts in several dtypes, those without a suffix are returned.
    """
    if not isinstance(path, (str, Path)) or not Path(path).is_dir():
        return None
    folder = Path(path)
    inner = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())  # the parts of a pipeline
    found = []
    for form in plugin.formats().values():
        for suffix in DTYPES:
            stems = (*STEMS, MERGED, *(f"{name}/model" for name in inner))
            places = {stem: folder / f"{stem}{suffix}{form.suffix}" for stem in stems}
            files = {stem: place for stem, place in places.items() if place.is_dir() == form.folder and place.exists()}
            if files:
                found.append(Parts(folder, form, files))
                break
    if len(found) > 1:
        names = ", ".join(f"{parts.form.name} ({', '.join(p.name for p in parts.files.values())})" for parts in found)
        raise UsageError(f"{folder} holds parts of several formats: {names}", hint="put each format in its own folder")
    return found[0] if found else None


def open_side(artefact: Any, opened: Callable[[Any], Source]) -> Source | Parts:
    """Return a side of a comparison: the model that `opened` (`convert.api.open_source`) finds, else parts in a folder.

    Raises like `opened`.
    """
    try:
        return opened(artefact)
    except BadInput:
        parts = parts_in(artefact)
        if parts is None:
            raise
        return parts


def verify_parts(
    verify: Callable[..., Report],
    source: Source | Parts,
    target: Source | Parts,
    chosen: Options,
    given: Mapping[str, Any],
    method: VerifyMethod | None,
    report: Report,
) -> Report:
    """Compare the parts one by one and together; add the results and one verdict to `report`.

    verify: `convert.verify`. chosen: the options of the source; `given`: the same as keywords. Raises like `verify`,
    `UsageError` if the sides do not match or an option is for single models only, and `BadInput` if a part is missing.
    """
    method = method or VerifyMethod()
    asked: dict[str, Any] = {"--inputs": method.arrays, "--map": method.pairs, "--save-inputs": method.save}
    asked["--reduce"] = method.reduce
    asked["--input"] = chosen.inputs or chosen.examples
    for name, value in asked.items():
        if value:
            hint = "compare the files one by one, with --part where the source is one model"
            raise UsageError(f"{name} is for one model, and {target.label} is several files", hint=hint)
    options = _options_of_parts(source, target, chosen)
    lefts = {stem: source.files[stem] if isinstance(source, Parts) else source for stem in options}
    assert isinstance(target, Parts)
    report.source, report.kind, report.target, report.format = source.label, source.kind, target.label, target.kind
    found = {stem: Report("verify", progress=report.progress) for stem in options}
    for stem, choice in options.items():
        verify(lefts[stem], target.files[stem], method=method, report=found[stem], **{**given, **choice})
        for stage, seconds in found[stem].seconds.items():
            report.seconds[stage] = round(report.seconds.get(stage, 0.0) + seconds, 4)
    generates = set(options) == set(STEMS)
    compared = {file.name for stem, file in target.files.items() if stem in options or generates}
    if left_out := sorted(_models(target) - compared):
        report.note(f"not compared: {', '.join(left_out)}", code="not-compared")
    sum_up(report, found)
    verdict = report.verdict
    if verdict is not None and verdict.status != FAIL and generates:
        with report.stage("verify"):
            beside = source.files if isinstance(source, Parts) else None
            opened = Source(source.kind, source.files[STEMS[2]]) if isinstance(source, Parts) else source
            made = verify_encoder_generation(opened, target.files, target.kind, found, chosen, method, beside)
        if isinstance(made, str):
            report.note(made, code="not-compared")
        else:
            failed = Finding(FAIL, made.reason) if made.status == FAIL else Finding()
            report.verdict = replace(verdict, generation=made).after(failed)
    return report


def _options_of_parts(source: Source | Parts, target: Source | Parts, chosen: Options) -> dict[str, dict[str, Any]]:
    """Return the options that select each part of the source, by stem; one for each file that the target must have."""
    if not isinstance(target, Parts):
        turned = isinstance(source, Parts) and bool(plugin.parts_of(target, chosen))
        hint = f"the source comes first: convert verify {target.label} {source.label}" if turned else "name one of them"
        raise UsageError(f"{source.label} is several files, and {target.label} is one model", hint=hint)
    if isinstance(source, Parts):
        options: dict[str, dict[str, Any]] = {stem: {} for stem in {**source.files, **target.files} if stem != MERGED}
        sides = [source, target]
    else:
        options, sides = plugin.parts_of(source, chosen), [target]
        if not options:
            hint = f"name one of them: {', '.join(map(str, target.files.values()))} (--part says which of the source)"
            raise UsageError(f"{target.label} is several files, and {source.label} is one model", hint=hint)
    for side in sides:
        if lacking := [f"{stem}{side.form.suffix}" for stem in options if stem not in side.files]:
            hint = "convert it again, or give --task as it was converted with"
            raise BadInput(f"{side.label} lacks {', '.join(lacking)}, which belongs to the model", hint=hint)
    return options


def _models(parts: Parts) -> set[str]:
    """Return the names of files in the folder with the suffix of this format."""
    return {file.name for file in parts.folder.iterdir() if file.name.endswith(parts.form.suffix)}
