"""Reads models by their frontends; a stranger's file in a thread that can write nowhere and reach no other machine.

What a file makes a library do while it is loaded, and what it leaves there to be run by whoever captures it, is refused
by the checks of the frontends. This holds where one of them is wrong, in a program that calls the functions of
`convert` too: a command has a process of its own, which is confined as a whole (`convert.cli.supervisor`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from convert import plugin
from convert.contradictions import hold_against_file
from convert.errors import UsageError
from convert.files.output import size_of
from convert.files.scratch import scratch_folder, temporary_files_in
from convert.files.weight_files import weight_files
from convert.nearest import did_you_mean
from convert.options import Options
from convert.report import Node, Report, Tensor
from convert.runners.sandbox import in_reading_thread, is_confined
from convert.source import Source

if TYPE_CHECKING:
    import onnx_ir as ir

_T = TypeVar("_T")


def read_model(source: Source, options: Options, report: Report) -> ir.Model:
    """The shared graph of `source`. Raises as `read` of its frontend does."""
    with hold_against_file(source):
        return _apart(source, options, lambda: _read(source, options, report))


def _read(source: Source, options: Options, report: Report) -> ir.Model:
    """What the frontend reads, looked at as a whole: what is out of proportion is refused, what cannot run is noted."""
    from convert.graph import attribute_ranges, dim_counts, mismatches, weight_counts

    model: ir.Model = plugin.frontend_for(source).read(source, options, report)
    dim_counts.check_dims(model)
    attribute_ranges.check_attributes(model)
    if source.path is not None and not options.model:  # a factory computes what it likes
        weight_counts.check_weights(model, _bytes_read(source.path))
    if mismatch := mismatches.first_mismatch(model):
        report.note(f"the model contradicts itself, and may run nowhere: {mismatch}", code="contradiction")
    return model


def _bytes_read(path: Path) -> int:
    """The size of a model's files: a folder's, or a file's with those that its weights lie in."""
    return sum(size_of(file) for file in (path, *weight_files(path)) if file.exists())


def hold_against_read_file(source: Source, options: Options, model: ir.Model) -> AbstractContextManager[None]:
    """`hold_against_file`, with the question to the frontend, and to what it has read, what no model may say."""

    def find() -> str:
        from convert.graph.mismatches import first_mismatch

        asked = getattr(plugin.frontend_for(source), "find_contradiction", None)
        return (asked and _apart(source, options, lambda: asked(source))) or first_mismatch(model)

    return hold_against_file(source, find)


def list_weights(source: Source, options: Options, report: Report) -> list[Tensor] | None:
    """The tensors in a file of weights without code, None of any other. Raises as `list_weights` of a frontend does."""
    listing = getattr(plugin.frontend_for(source), "list_weights", None)
    return None if listing is None else _apart(source, options, lambda: listing(source, options, report))


def list_nodes(source: Source, options: Options, report: Report, pattern: str) -> list[Node]:
    """The nodes whose names, or those of their tensors, match a pattern: a part of the name, or a glob.

    They are those of the file where a frontend lists them, which has to be no more than well formed; else those of the
    shared graph. Raises `UsageError` where none matches.
    """
    listing = getattr(plugin.frontend_for(source), "list_nodes", lambda source, options: None)
    rows = _apart(source, options, lambda: listing(source, options))
    rows = _nodes_of(read_model(source, options, report)) if rows is None else rows
    glob = (pattern if any(c in pattern for c in "*?[") else f"*{pattern}*").lower()
    found = [row for row in rows if any(fnmatchcase(n.lower(), glob) for n in (row.name, *row.outputs))]
    if not found:
        near = did_you_mean(pattern, (name for row in rows for name in (row.name, *row.outputs)))
        raise UsageError(f"no node is called like {pattern!r}", hint=f"{near}--nodes '*' lists all {len(rows):,}")
    return found


def _nodes_of(model: ir.Model) -> list[Node]:
    """The nodes of the shared graph and of the graphs in it."""
    rows = []
    for node in model.graph.all_nodes():
        outputs = tuple(str(value.name) for value in node.outputs if value.name)
        name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        rows.append(Node(node.name or outputs[0] if outputs else "", name, outputs))
    return rows


def target_options(target: Source, own: Options, options: Options) -> Options:
    """Return the options that the target of a comparison is read with: those of its `own`, and the code of the source.

    A file of weights that names no factory of its own is one of the source's network.
    """
    own = replace(own, code=own.code or options.code)
    if own.model or not options.model or not holds_weights_only(target):
        return own
    return replace(own, model=options.model, model_args=options.model_args)


def holds_weights_only(source: Source) -> bool:
    """Whether a file holds weights and no code, so that a factory has to build what they belong to."""
    return list_weights(source, Options(), Report("inspect")) is not None


def _apart(source: Source, options: Options, work: Callable[[], _T]) -> _T:
    """What `work` gives, in a thread of its own unless the user's code takes part, or all of the process is confined.

    A model in memory is the user's, as factories and files of rules are, and what is trusted.
    """
    if source.path is None or options.trust or options.model or options.rules or options.code or is_confined():
        return work()
    getattr(plugin.frontend_for(source), "prepare", lambda source, options: None)(source, options)
    more = [] if options.dump_passes is None else [options.dump_passes]
    with scratch_folder() as folder, temporary_files_in(folder):
        return in_reading_thread(work, folder, *more)
