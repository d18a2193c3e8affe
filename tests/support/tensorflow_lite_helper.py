"""Write TensorFlow Lite models without a child process each, and run them with ai-edge-litert, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
from convert.frontends.tensorflow.lite import runner

from convert import api, plugin
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.start_tensorflow import import_tensorflow


def encode(model: ir.Model, folder: Path, options: Options | None = None) -> Path:
    """Write a model with the backend; TensorFlow's converter runs in this process. This changes `model`."""
    import_tensorflow()
    from convert.backends.tensorflow.lite.converter_process import main
    from convert.backends.tensorflow.lite.writer import prepare_job, read_flatbuffer

    folder.mkdir(parents=True, exist_ok=True)
    ends = prepare_job(model, folder, options or Options())
    main(folder)
    path = folder / "result.tflite"
    path.write_bytes(read_flatbuffer(folder, model, *ends))
    return path


def graph_of(source: object, inputs: object = None) -> ir.Model:
    """Read a path or an object as the shared graph."""
    opened = api.open_source(source)
    return plugin.frontend_for(opened).read(opened, api.make_options(inputs, {}), Report("test"))


def run(path: Path, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return outputs by name."""
    return runner.run(Source("tflite", path), [feed], precision="float32", options=Options())[0]
