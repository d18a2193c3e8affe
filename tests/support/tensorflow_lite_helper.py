"""Writes TensorFlow Lite models without a child process each, and runs them with ai-edge-litert, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
from convert.frontends.tensorflow.common.start_tensorflow import import_tensorflow
from convert.frontends.tensorflow.lite import runner

from convert import api, plugin
from convert.options import Options
from convert.report import Report
from convert.source import Source


def encode(model: ir.Model, folder: Path, options: Options | None = None) -> Path:
    """What the backend writes; TensorFlow's converter runs here instead of in a child. `model` is changed."""
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
    """The shared graph of a path or an object."""
    opened = api.open_source(source)
    return plugin.frontend_for(opened).read(opened, api.make_options(inputs, {}), Report("test"))


def run(path: Path, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name."""
    return runner.run(Source("tflite", path), [feed], precision="float32", options=Options())[0]
