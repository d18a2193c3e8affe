"""Compare each artefact of a chain with the one before it, to find the step that breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from convert.errors import ConvertError, UsageError
from convert.files.sniff import sniff
from convert.outcome.report import ChainStep, Report
from convert.outcome.verdict import PASS
from convert.parity.method import VerifyMethod
from convert.processes.model_reading import holds_weights_only
from convert.request.options import Options
from convert.request.source import Source


@dataclass(frozen=True)
class Artifact:
    """A file or folder; `model` is the factory that a file of weights needs."""

    path: Path
    model: str = ""


def parse_artifacts(words: Sequence[str]) -> list[Artifact]:
    """Return the artefacts of `model.py:Net weights.pt model.onnx`; a factory belongs to the file that follows it.

    Raises `UsageError` for fewer than two artefacts and for a factory without weights.
    """
    found: list[Artifact] = []
    factory = ""
    for word in words:
        if _is_factory(word):
            if factory:
                raise UsageError(f"{factory} is followed by another factory", hint="name its weights between them")
            factory = word
        else:
            found.append(Artifact(Path(word), factory))
            factory = ""
    if factory:
        raise UsageError(f"{factory} builds a module, whose weights have to follow", hint="model.py:Net weights.pt …")
    if len(found) < 2:
        raise UsageError("two artefacts or more are compared", hint="convert verify SOURCE TARGET [TARGET …]")
    return found


def parse_pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return the names of `left=right`, left to right; right may be empty. Raises `UsageError` for anything else."""
    found: dict[str, str] = {}
    for text in texts:
        left, equals, right = text.partition("=")
        if not equals or not left or left in found:
            raise UsageError(f"--map {text!r} is not NAME=NAME, each left name once", hint="for instance --map x=input")
        found[left] = right
    return found


def _is_factory(word: str) -> bool:
    place, colon, name = word.rpartition(":")
    dotted = name.replace(".", "_").isidentifier() and (place.endswith(".py") or place.replace(".", "_").isidentifier())
    return bool(colon) and dotted and not Path(word).exists()


def verify_chain(
    chain: Sequence[Artifact],
    verify: Callable[..., Report],
    report: Report,
    method: VerifyMethod,
    *,
    inputs: Any,
    **options: Any,
) -> Report:
    """Compare each artefact with the next by `verify` (`convert.verify`), and report which step breaks first.

    inputs, and the options `outputs`, `signature` and `layout`, describe the first artefact. `model` is the factory of
    the first artefact, and of each weights file without a factory of its own. In a chain, a step that cannot be read or
    run is an ERROR in the table; with two artefacts, the error is raised.
    """
    trust, default, args = bool(options.get("trust")), options.get("model", ""), options.get("model_args", {})
    if method.pairs and len(chain) > 2:
        raise UsageError("--map is for two artefacts, and a chain has more", hint="verify the steps one by one")
    for i, (left, right) in enumerate(pairwise(chain)):
        own = {**options, "model": left.model or (default if not i or _lacks_code(left, default) else "")}
        own["model_args"] = args if own["model"] else {}
        if i:
            own |= {"outputs": (), "signature": "", "trace": False, "layout": ""}
        step = Report("verify", progress=report.progress)
        whole = all(s.status == PASS for s in report.steps)  # page and inputs are those of the first break
        their = replace(
            method,
            target=Options(model=right.model, model_args=args if right.model else {}, trust=trust),
            profile=method.profile and whole,
        )
        their = their if whole else replace(their, save=None, reduce=None)
        given = inputs if i == 0 else None
        if len(chain) == 2:
            return verify(left.path, right.path, inputs=given, report=report, method=their, **own)
        row = ChainStep(str(left.path), str(right.path))
        try:
            row.verdict = verify(left.path, right.path, inputs=given, report=step, method=their, **own).verdict
        except ConvertError as error:
            row.error, row.error_code = error.sentence, error.exit_code
        report.steps.append(row)
        _merge_step(report, step, first=i == 0)
    broken = [s for s in report.steps if s.status != PASS]
    report.verdict = (broken or report.steps)[0 if broken else -1].verdict
    report.target, report.format = str(chain[-1].path), step.format
    return report


def _lacks_code(artifact: Artifact, factory: str) -> bool:
    """Return whether an artefact is a file of weights, for which `factory` must build the module."""
    try:
        return bool(factory) and holds_weights_only(Source(sniff(artifact.path), artifact.path))
    except ConvertError:
        return False  # the step itself reports why it cannot be read


def _merge_step(report: Report, step: Report, *, first: bool) -> None:
    if first:
        report.source, report.kind, report.operators = step.source, step.kind, step.operators
        report.inputs, report.outputs = step.inputs, step.outputs
        report.parameters, report.weight_bytes = step.parameters, step.weight_bytes
    for note in step.notes:
        report.note(note)
    for stage, seconds in step.seconds.items():
        report.seconds[stage] = round(report.seconds.get(stage, 0.0) + seconds, 4)
