"""Run TensorFlow with its Eigen kernels, because oneDNN's differ for some operators on bytes.

With `TF_ENABLE_ONEDNN_OPTS=1` TensorFlow 2.21 differs from the documentation of its operators. QuantizeV2 in mode
MIN_FIRST computes round((input - min) * scale) instead of round(input * scale) - round(min * scale), which gave 266 of
792 numbers another level. QuantizedAvgPool rounds a mean to the nearest level, and Eigen's kernel truncates it; neither
is documented. Dequantize of 32-bit integers in mode SCALED has no kernel, and fails. Tests that compare exact levels
therefore use the kernels that the frontend follows.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

DEPARTING = frozenset({"QuantizeV2", "QuantizedAvgPool", "Dequantize"})


def computed(concrete: Any, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a concrete function without variables, whose outputs are a dict."""
    import tensorflow as tf
    from tensorflow.python.util import _pywrap_util_port

    if not _pywrap_util_port.IsMklEnabled():
        return {name: value.numpy() for name, value in concrete(*map(tf.constant, arrays)).items()}
    ends = [[t.name for t in side] for side in (concrete.inputs, concrete.outputs)]
    child = _child()
    _send(child.stdin, (concrete.graph.as_graph_def().SerializeToString(), *ends, arrays))
    return dict(zip(sorted(concrete.structured_outputs), _received(child.stdout), strict=True))


@cache
def _child() -> Any:
    """Start the process with Eigen's kernels, which TensorFlow selects at import.

    It ends when this process closes the pipe.
    """
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": paths}
    return subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _send(stream: BinaryIO, thing: Any) -> None:
    data = pickle.dumps(thing)
    stream.write(struct.pack("<q", len(data)) + data)
    stream.flush()


def _received(stream: BinaryIO) -> Any:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError("the other process has ended")
    return pickle.loads(stream.read(struct.unpack("<q", head)[0]))


def _serve() -> None:
    # TensorFlow also writes to descriptor 1.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import tensorflow as tf

    v1 = tf.compat.v1
    while True:
        try:
            graph, inputs, outputs, arrays = _received(sys.stdin.buffer)
        except EOFError:
            return
        definition = v1.GraphDef.FromString(graph)
        whole = v1.wrap_function(lambda d=definition: tf.import_graph_def(d, name=""), [])
        part = whole.prune(*([whole.graph.get_tensor_by_name(n) for n in names] for names in (inputs, outputs)))
        _send(answers, [y.numpy() for y in part(*map(tf.constant, arrays))])


if __name__ == "__main__":
    _serve()
