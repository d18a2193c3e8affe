"""Runs rows as the TensorFlow backend emits them, in child processes, because a failing kernel may crash its
process.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.tensorflow.ops.support import CONSTANT, DYNAMIC, STATIC, assert_same, expected, feeds_of, model_of
from tests.support.cases import Case

on_both_kernel_sets = pytest.mark.parametrize(
    ("onednn", "variants"),
    [
        pytest.param("1", (DYNAMIC,), id="onednn"),
        pytest.param("1", (STATIC, CONSTANT), id="onednn_other", marks=pytest.mark.slow),
        pytest.param("0", (STATIC,), id="no_onednn", marks=pytest.mark.slow),
        pytest.param("0", (DYNAMIC, CONSTANT), id="no_onednn_other", marks=pytest.mark.long),
    ],
)
"""Whether TensorFlow uses oneDNN's kernels or Eigen's, and whether inputs are fed or constant."""


def computed(row: Case, variant: int) -> list[np.ndarray]:
    """Return TensorFlow's outputs; runs in the child process.

    Constants are written out, but not folded, which would leave nothing to do.
    """
    import onnx_ir as ir
    import tensorflow as tf
    from convert.backends.tensorflow.constants import Store
    from convert.backends.tensorflow.emit import check
    from convert.backends.tensorflow.passes.legalize import expand_unsupported, legalize, normalize_windows
    from convert.backends.tensorflow.writer.savedmodel import plain_names, trace_model

    from convert.passes import run_passes

    model = ir.from_proto(model_of(row, variant))
    if variant == CONSTANT:
        run_passes(model, (normalize_windows, expand_unsupported))
    else:
        legalize(model)
    check(model)
    function, names = trace_model(model, Store(variables=True))
    feeds = feeds_of(row)
    outputs = function(*(tf.constant(feeds[v.name]) for v in model.graph.inputs))
    return [outputs[plain].numpy() for plain, _ in plain_names("output", names)]


@dataclass
class Worker:
    """A child process that computes rows one at a time; a new one is started after a crash."""

    onednn: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the child process; importing TensorFlow there takes seconds, which other work may fill."""
        environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": self.onednn, "TF_CPP_MIN_LOG_LEVEL": "3"}
        root = str(Path(__file__).resolve().parents[4])
        environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def run(self, row: Case, variant: int) -> list[np.ndarray]:
        """Return TensorFlow's outputs for `row`; fail the test after an error, a crash or a time-out."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = pickle.dumps((row, variant))
        self.process.stdin.write(struct.pack("<q", len(request)) + request)
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], 120)[0]:
            self.process.kill()
            self.process.wait()  # otherwise the next row is sent to a dying process
            pytest.fail("the child process did not answer for two minutes")
        head = self.process.stdout.read(8)
        if len(head) < 8:
            pytest.fail(f"TensorFlow took its process along (exit code {self.process.wait()})")
        ok, result = pickle.loads(self.process.stdout.read(struct.unpack("<q", head)[0]))
        if not ok:
            pytest.fail(result)
        return result


Workers = dict[str, Worker]
"""A worker for each setting of TF_ENABLE_ONEDNN_OPTS."""


def check(row: Case, worker: Worker, variants: tuple[int, ...]) -> None:
    """Assert that TensorFlow computes what onnxruntime computes, for every way in which inputs are given."""
    want = expected(row)
    for variant in variants:
        assert_same(worker.run(row, variant), want)


def serve() -> None:
    """Serve in the child process: read a row, write its outputs or a traceback."""
    import traceback

    # TensorFlow also writes to descriptor 1.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    while len(head := requests.read(8)) == 8:
        row, variant = pickle.loads(requests.read(struct.unpack("<q", head)[0]))
        try:
            answer: tuple[bool, Any] = (True, computed(row, variant))
        except Exception as error:
            answer = (False, f"variant {variant}: " + "".join(traceback.format_exception_only(error)))
        data = pickle.dumps(answer)
        answers.write(struct.pack("<q", len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    serve()
