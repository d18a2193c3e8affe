"""Reads models by their frontends; an untrusted file in a thread that cannot write or reach other machines.

The frontends' checks reject files that would make a library run code, during loading or during a later capture. This
module is the defence if one of them is wrong, also in a program that calls the API. The process of a command is
confined as a whole (`convert.cli.supervisor`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from convert import plugin
from convert.errors import Unsupported, UsageError
from convert.files.contradictions import blame_file
from convert.files.output import size_of
from convert.files.scratch import scratch_folder, temporary_files_in
from convert.files.weight_files import weight_files
from convert.outcome.report import Node, Report, Tensor
from convert.processes.sandbox import in_reading_thread, is_confined
from convert.request.detections import DETECTIONS, parse_detections
from convert.request.nearest import did_you_mean
from convert.request.options import Options
from convert.request.source import Source
from convert.request.storage import POSTPROCESS

if TYPE_CHECKING:
    import onnx_ir as ir

_T = TypeVar("_T")


def read_model(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the shared graph of `source`. Raises as `read` of its frontend does."""
    with blame_file(source, lambda: _contradiction(source, options)):
        return _apart(source, options, lambda: _read(source, options, report))


def read_for_target(source: Source, options: Options, report: Report) -> tuple[Options, ir.Model]:
    """Return the options for the source's runner, and the shared graph of `source`.

    With `--postprocess`, both compute detections from the boxes and scores of the model. If an ONNX model suppresses
    boxes itself, its outputs are replaced by the inputs of that suppression. Raises as `read_model` does, and
    `UsageError` and `Unsupported` for outputs that are no boxes and scores.
    """
    if not POSTPROCESS.of(options):
        return options, read_model(source, options, report)
    from convert.passes.detections import append_detections, resolved_by_outputs, settings_of, suppression

    how = parse_detections(POSTPROCESS.of(options))
    model = read_model(source, options, report)
    if (node := suppression(model)) is not None:
        if source.kind not in getattr(plugin.frontend_for(source), "READS", {}).get("outputs", ()):
            raise Unsupported(
                f"--postprocess detection cannot read the boxes that a {source.kind} suppresses itself",
                hint="let the model return boxes and scores, or convert it to ONNX first",
            )
        how = settings_of(node, how)
        options = replace(options, outputs=(how.boxes, how.scores))
        model = read_model(source, options, report)
    if how.form is None:
        report.note(
            "boxes are read as left, top, right, bottom; --postprocess detection,boxes=yxyx changes it",
            code="box-order",
        )
    how = resolved_by_outputs(model, how)
    append_detections(model, how)
    return replace(options, extra={**options.extra, DETECTIONS: how}), model


def _read(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the frontend's graph after checks: excessive sizes are rejected, impossible nodes noted."""
    from convert.graph import attribute_ranges, dim_counts, mismatches, weight_counts

    model: ir.Model = plugin.frontend_for(source).read(source, options, report)
    dim_counts.check_dims(model)
    attribute_ranges.check_attributes(model)
    if source.path is not None and not options.model:  # a factory may compute weights of any size
        weight_counts.check_weights(model, _bytes_read(source.path))
    if mismatch := mismatches.first_mismatch(model):
        report.note(f"the model contradicts itself, and may run nowhere: {mismatch}", code="contradiction")
    return model


def _bytes_read(path: Path) -> int:
    """Return the size of a model's files: of a folder, or of a file and its separate weight files."""
    return sum(size_of(file) for file in (path, *weight_files(path)) if file.exists())


def blame_read_file(source: Source, options: Options, model: ir.Model) -> AbstractContextManager[None]:
    """Return `blame_file` with a `find` that looks for contradictions in the file.

    It asks the frontend, and then examines the graph that it read.
    """

    def find() -> str:
        from convert.graph.mismatches import first_mismatch

        return _contradiction(source, options) or first_mismatch(model)

    return blame_file(source, find)


def _contradiction(source: Source, options: Options) -> str:
    """Return what the frontend finds wrong in a file; "" if it finds nothing, or does not look."""
    asked = getattr(plugin.frontend_for(source), "find_contradiction", None)
    if asked is None:
        return ""
    try:
        return str(_apart(source, options, lambda: asked(source)))
    except Exception:  # a failure of the check itself is no evidence
        return ""


def list_weights(source: Source, options: Options, report: Report) -> list[Tensor] | None:
    """Return the tensors in a file of weights without code; None for any other file.

    Raises as `list_weights` of a frontend does.
    """
    listing = getattr(plugin.frontend_for(source), "list_weights", None)
    return None if listing is None else _apart(source, options, lambda: listing(source, options, report))


def list_nodes(source: Source, options: Options, report: Report, pattern: str) -> list[Node]:
    """Return the nodes that match a pattern: a part of a node's or tensor's name, a glob, or the name of an operator.

    They are the file's own nodes if the frontend lists them; then the file need only be well-formed. Otherwise they are
    the nodes of the shared graph. Raises `UsageError` if none matches.
    """
    listing = getattr(plugin.frontend_for(source), "list_nodes", lambda source, options: None)
    rows = _apart(source, options, lambda: listing(source, options))
    rows = _nodes_of(read_model(source, options, report)) if rows is None else rows
    glob = (pattern if any(c in pattern for c in "*?[") else f"*{pattern}*").lower()
    found = [
        row
        for row in rows
        if row.operator.lower() == pattern.lower()
        or any(fnmatchcase(name.lower(), glob) for name in (row.name, *row.outputs))
    ]
    if not found:
        near = did_you_mean(pattern, (name for row in rows for name in (row.name, *row.outputs)))
        raise UsageError(f"no node has a name like {pattern!r}", hint=f"{near}--nodes '*' lists all {len(rows):,}")
    return found


def _nodes_of(model: ir.Model) -> list[Node]:
    """Return the nodes of the shared graph and of its subgraphs."""
    rows = []
    for node in model.graph.all_nodes():
        outputs = tuple(str(value.name) for value in node.outputs if value.name)
        name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        rows.append(Node(node.name or outputs[0] if outputs else "", name, outputs))
    return rows


def target_options(target: Source, own: Options, options: Options) -> Options:
    """Return the options for reading the target of a comparison: its `own`, completed from the source's `options`.

    A target without code of its own gets the source's code. A file of weights without a factory gets the source's
    factory, because it belongs to the source's network.
    """
    own = replace(own, code=own.code or options.code)
    if own.model or not options.model or not holds_weights_only(target):
        return own
    return replace(own, model=options.model, model_args=options.model_args)


def holds_weights_only(source: Source) -> bool:
    """Return whether a file contains weights and no code, so that a factory must build the network."""
    return list_weights(source, Options(), Report("inspect")) is not None


def _apart(source: Source, options: Options, work: Callable[[], _T]) -> _T:
    """Return the result of `work`, in a separate confined thread if that is needed.

    It is not needed if user code takes part, or if the whole process is confined.

    A model in memory is the user's own, like factories, rules files and trusted files.
    """
    if source.path is None or options.trust or options.model or options.rules or options.code or is_confined():
        return work()
    getattr(plugin.frontend_for(source), "prepare", lambda source, options: None)(source, options)
    more = [] if options.dump_passes is None else [options.dump_passes]
    with scratch_folder() as folder, temporary_files_in(folder):
        return in_reading_thread(work, folder, *more)
