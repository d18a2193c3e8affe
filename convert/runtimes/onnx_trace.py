"""Runs an ONNX file once in onnxruntime with every value as an output, in float32 (it has few float64 kernels)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from convert.errors import Location, Unsupported
from convert.files.scratch import scratch_folder
from convert.runtimes.trace import Trace, TraceStep, summarize


def trace_file(path: Path, feed: Mapping[str, np.ndarray], run: Callable[[Path, Any], Any]) -> Trace:
    """Return the trace of one run of the model at `path`; `run(path, feeds)` executes a file.

    Raises `Unsupported` for external data, which only the original file can refer to.
    """
    model = onnx.load(path, load_external_data=False)
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in model.graph.initializer):
        raise Unsupported("a model with external data is not followed operator by operator")
    steps = [
        TraceStep(Location(n.op_type, n.name), tuple(filter(None, n.input)), tuple(filter(None, n.output)))
        for n in model.graph.node
    ]
    present = {o.name for o in model.graph.output}
    more = [name for step in steps for name in step.outputs if name not in present]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    with scratch_folder() as folder:
        every = folder / "every.onnx"
        every.write_bytes(model.SerializeToString())
        values = run(every, [feed])[0]
    return Trace(steps, {n: summarize(v) for n, v in values.items()}, "float32")
