"""Opens TensorFlow 1's checkpoints with their graph: variables restored, then frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert.errors import Unsupported
from convert.options import Options
from convert.runners.graph_ends import ends, meta_file


def open_meta(path: Path, options: Options) -> tuple[Any, dict[str, str], dict[str, str]]:
    """The frozen GraphDef of a `.meta` file or its folder, and the tensors that are its inputs and outputs, by name."""
    import tensorflow as tf

    from convert.runners.tensorflow import choose_signature

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
            outputs = {key: info.name for key, info in sorted(chosen.outputs.items())}
        else:
            inputs, outputs = ends(graph.as_graph_def(), [s.name for s in options.inputs if s.name], options.outputs)
        nodes = [tensor.partition(":")[0] for tensor in outputs.values()]
        constant = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), nodes)
    here = {n.name for n in constant.node}
    return constant, {key: t for key, t in inputs.items() if t.partition(":")[0] in here}, outputs
