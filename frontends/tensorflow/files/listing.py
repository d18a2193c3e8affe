"""Lists the nodes of a graph, whether or not it can be read; `--outputs` and `--input` use their names."""

from __future__ import annotations

from convert.outcome.report import Node
from convert.request.options import Options
from convert.request.source import Source

from ..graph.protos import open_buffer, parse_message
from ..runner.graph_signature import meta_file
from .frozen import node_rows, parse_graph


def list_nodes(source: Source, options: Options) -> list[Node]:
    """Return the nodes of a GraphDef, in its order. Raises `BadInput` for other content."""
    if source.path is None:
        graph = source.model
    elif source.kind == "tf-meta":
        file = meta_file(source.path)
        graph = parse_message(open_buffer(file), "MetaGraphDef", str(file)).graph_def
    else:
        graph = parse_graph(open_buffer(source.path), str(source.path))
    return node_rows(graph)
