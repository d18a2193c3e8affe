"""Checks a TensorFlow file against the list of allowed operators: for reader and runner, source and target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convert.errors import UnsafeInput, UsageError
from convert.files.scratch import scratch_folder
from convert.request.options import Options
from convert.request.source import Source

from ..graph.allowed import HINT, refuse_effects
from ..graph.file_access import Graph, node_name
from ..graph.one_signature import (
    default_signature,
    serving_meta_graph,
    signature_names,
    with_one_signature,
)
from ..graph.protos import open_buffer, parse_message
from ..graph.saved_model_message import parse_saved_model
from ..rules import tf_op
from .graph_signature import inference_nodes, meta_file, unread_nodes


def check_file(source: Source, options: Options) -> Any:
    """Raise `UnsafeInput` for a file that contains an operator that may do more than compute.

    This runs before TensorFlow sees the file. Files of other kinds are skipped, and all files if `options.trust` is
    set. Raises `BadInput` for one that cannot be parsed.

    Returns None, or the message to run in the place of a SavedModel's own (see `check_saved_model`).
    """
    if options.trust or source.path is None:
        return None
    if source.kind == "savedmodel":
        return check_saved_model(parse_saved_model(source.file)[1], source.file, options, unknown=True)
    if source.kind == "tf-meta":
        file = meta_file(source.file)
        check_meta_graphs([parse_message(open_buffer(file), "MetaGraphDef", str(file))], file, options, unknown=True)
    elif source.kind == "frozen-graph":
        graph = parse_message(open_buffer(source.file), "GraphDef", str(source.file))
        check_graph(graph, source.file, options, unknown=True)
    return None


@contextmanager
def checked_file(source: Source, options: Options) -> Iterator[Source]:
    """Context manager: yield a file that `check_file` accepts, or the part of it that may be run.

    The part is a temporary SavedModel of one signature, with the variables and assets of the file.
    """
    message = check_file(source, options)
    if message is None:
        yield source
        return
    with scratch_folder() as folder:
        (folder / "saved_model.pb").write_bytes(message.SerializeToString())
        for name in ("variables", "assets"):
            if (source.file / name).is_dir():
                (folder / name).symlink_to((source.file / name).resolve())
        yield Source(source.kind, folder)


def check_saved_model(saved: Any, label: Path, options: Options, *, unknown: bool) -> Any:
    """Check a parsed SavedModel like `check_file`; with `unknown`, unknown operators are refused too.

    Returns None if everything in it only computes. If the chosen signature does, and other signatures or functions do
    more, returns the message without these: they are not to be loaded.
    """
    try:
        check_meta_graphs(saved.meta_graphs, label, options, unknown=unknown)
    except UnsafeInput:
        meta = serving_meta_graph(saved)
        names = signature_names(meta)
        chosen = default_signature(names, options.signature)
        if not chosen and len(names) > 1:
            raise several_signatures(label, names) from None
        if chosen not in names:
            raise
        alone, others = with_one_signature(saved, chosen)
        check_meta_graphs(alone.meta_graphs, label, options, unknown=unknown, others=others)
        return alone
    return None


def several_signatures(label: Path, names: Sequence[str]) -> UsageError:
    """Return the error for a file with several signatures, none of which is chosen."""
    return UsageError(f"{label} has several signatures", hint=f"choose one with --signature: {', '.join(names)}")


def check_meta_graphs(
    metas: Sequence[Any], label: Path, options: Options, *, unknown: bool, others: Sequence[str] = ()
) -> None:
    """Check parsed meta graphs like `check_file`; with `unknown`, unknown operators are refused too.

    others: signatures that were removed from the graphs, which the user may choose instead.
    """
    for meta in metas:
        roots = list(options.outputs)
        if not meta.signature_def and not roots:
            saver = meta.saver_def.filename_tensor_name
            roots = [n.name for n in unread_nodes(inference_nodes(meta.graph_def.node, saver))]
        choice = f"choose another signature with --signature: {', '.join(others)}; {HINT}" if others else HINT
        refuse_effects(
            Graph.of_meta(meta), str(label), map(node_name, roots),
            known=tf_op.entries.keys(), unknown=unknown, hint=choice if meta.signature_def else "",
        )  # fmt: skip


def check_graph(graph: Any, label: Path, options: Options, *, unknown: bool) -> None:
    """Check a GraphDef like `check_file`; with `unknown`, unknown operators are refused too."""
    roots = options.outputs or [n.name for n in unread_nodes(graph.node)]
    refuse_effects(
        Graph.of_message(graph), str(label), map(node_name, roots), known=tf_op.entries.keys(), unknown=unknown
    )
