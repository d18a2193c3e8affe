"""Opens TensorFlow 1 checkpoints with their graph: variables are restored, then frozen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convert.errors import Unsupported
from convert.request.options import Options

from .graph_signature import defaulted_inputs, inference_nodes, meta_file, signature_tensor_names
from .names import choose_signature
from .stateful import StatefulGraph, stateful_from_session


def open_meta(path: Path, options: Options) -> tuple[Any, dict[str, str], dict[str, str]]:
    """Return the frozen GraphDef of a `.meta` file or its folder, and its input and output tensors by name."""
    import tensorflow as tf

    with _restored_session(path, options) as (session, inputs, outputs):
        nodes = [tensor.partition(":")[0] for tensor in outputs.values()]
        graph = session.graph.as_graph_def()
        constant = tf.compat.v1.graph_util.convert_variables_to_constants(session, graph, nodes)
    here = {n.name for n in constant.node}
    return constant, {key: t for key, t in inputs.items() if t.partition(":")[0] in here}, outputs


def stateful_meta(path: Path, options: Options) -> StatefulGraph:
    """Return the graph of a `.meta` file or its folder with its variables."""
    with _restored_session(path, options) as (session, inputs, outputs):
        return stateful_from_session(session, inputs, outputs)


@contextmanager
def _restored_session(path: Path, options: Options) -> Iterator[tuple[Any, dict[str, str], dict[str, str]]]:
    """Yield a session with restored variables, and the input and output tensors by name."""
    import tensorflow as tf

    v1, file = tf.compat.v1, meta_file(path)
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        saver = v1.train.import_meta_graph(str(file), clear_devices=True)
        if saver is None:
            raise Unsupported(f"{file} does not say how its variables are restored")
        saver.restore(session, str(file.with_suffix("")))
        signatures = {} if options.outputs else v1.train.export_meta_graph(graph=graph).signature_def
        if signatures:
            chosen = signatures[choose_signature(list(signatures), options.signature)]
            inputs = {key: info.name for key, info in sorted(chosen.inputs.items())}
            inputs |= defaulted_inputs(graph.as_graph_def(), inputs, [s.name for s in options.inputs])
            outputs = {key: info.name for key, info in sorted(chosen.outputs.items())}
        else:
            definition = graph.as_graph_def()
            candidates = inference_nodes(definition.node, saver.saver_def.filename_tensor_name)
            named = [s.name for s in options.inputs if s.name]
            inputs, outputs = signature_tensor_names(definition, named, options.outputs, candidates)
        yield session, inputs, outputs
