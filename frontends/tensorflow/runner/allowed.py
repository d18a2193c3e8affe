"""Checks a TensorFlow file against the list of allowed operators: for reader and runner, source and target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convert.request.options import Options
from convert.request.source import Source

from ..graph.allowed import refuse_effects
from ..graph.file_access import Graph, node_name
from ..graph.protos import open_buffer, parse_message
from ..graph.saved_model_message import parse_saved_model
from ..rules import tf_op
from .graph_signature import inference_nodes, meta_file, unread_nodes


def check_file(source: Source, options: Options) -> None:
    """Raise `UnsafeInput` for a file that contains an operator, anywhere, that may do more than compute.

    This runs before TensorFlow sees the file. Files of other kinds are skipped, and all files if `options.trust` is
    set. Raises `BadInput` for one that cannot be parsed.
    """
    if options.trust or source.path is None:
        return
    if source.kind == "savedmodel":
        check_meta_graphs(parse_saved_model(source.file)[1].meta_graphs, source.file, options, unknown=True)
    elif source.kind == "tf-meta":
        file = meta_file(source.file)
        check_meta_graphs([parse_message(open_buffer(file), "MetaGraphDef", str(file))], file, options, unknown=True)
    elif source.kind == "frozen-graph":
        graph = parse_message(open_buffer(source.file), "GraphDef", str(source.file))
        check_graph(graph, source.file, options, unknown=True)


def check_meta_graphs(metas: Sequence[Any], label: Path, options: Options, *, unknown: bool) -> None:
    """Check parsed meta graphs like `check_file`; with `unknown`, unknown operators are refused too."""
    for meta in metas:
        roots = list(options.outputs)
        if not meta.signature_def and not roots:
            saver = meta.saver_def.filename_tensor_name
            roots = [n.name for n in unread_nodes(inference_nodes(meta.graph_def.node, saver))]
        refuse_effects(
            Graph.of_meta(meta), str(label), map(node_name, roots), known=tf_op.entries.keys(), unknown=unknown
        )


def check_graph(graph: Any, label: Path, options: Options, *, unknown: bool) -> None:
    """Check a GraphDef like `check_file`; with `unknown`, unknown operators are refused too."""
    roots = options.outputs or [n.name for n in unread_nodes(graph.node)]
    refuse_effects(
        Graph.of_message(graph), str(label), map(node_name, roots), known=tf_op.entries.keys(), unknown=unknown
    )
