"""Run one ONNX node on special values in each target. The artefact is written once for inputs of one shape."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.backends.tensorflow.ops.support import feeds_of, model_of
from tests.support.cases import Case

Feed = dict[str, np.ndarray]
Run = Callable[[Feed], list[np.ndarray]]
"""Runs an artefact on a feed and returns its outputs."""


def onnxruntime_run(model: onnx.ModelProto) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda feed: session.run(None, feed)


def reference_run(model: onnx.ModelProto | ir.Model) -> Run:
    """Run the graph by the project's own executor, in the dtypes of the model."""
    from convert.reference.executor import run

    graph = model if isinstance(model, ir.Model) else ir.from_proto(model)
    return lambda feed: list(run(graph, feed).values())


def tensorflow_run(model: onnx.ModelProto) -> Run:
    """Run the SavedModel's function."""
    import tensorflow as tf
    from convert.backends.tensorflow.constants import Store
    from convert.backends.tensorflow.emit import check
    from convert.backends.tensorflow.passes.legalize import legalize
    from convert.backends.tensorflow.writer.savedmodel import plain_names, trace_model

    graph = ir.from_proto(model)
    legalize(graph)
    check(graph)
    function, names = trace_model(graph, Store(variables=True))
    inputs = [v.name for v in graph.graph.inputs]

    def run(feed: Feed) -> list[np.ndarray]:
        outputs = function(*(tf.constant(feed[n]) for n in inputs))
        return [outputs[plain].numpy() for plain, _ in plain_names("output", names)]

    return run


def keras_run(model: onnx.ModelProto) -> Run:
    import keras
    from convert.backends import keras as backend

    from convert.outcome.report import Report
    from convert.request.options import Options
    from tests.backends.keras.ops.keras_support import shared

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "model.keras"
    backend.write(shared(model), path, "keras", Options(), Report("convert"))
    loaded = keras.saving.load_model(path)

    def run(feed: Feed) -> list[np.ndarray]:
        found = dict(zip(loaded.output_names, keras.tree.flatten(loaded(feed, training=False)), strict=True))
        return [np.asarray(found[y.name]) for y in model.graph.output]

    return run


def tflite_run(model: onnx.ModelProto) -> Run:
    from tests.support.tensorflow_lite_helper import encode, run

    folder = tempfile.TemporaryDirectory()
    path = encode(ir.from_proto(model), Path(folder.name))
    return lambda feed: [run(path, feed)[y.name] for y in model.graph.output] if folder else []


def torch_run(model: onnx.ModelProto) -> Run:
    """Run the module that the program is captured from: capturing takes seconds, and changes no operator."""
    import torch
    from convert.backends.pytorch.dtypes import tensor_from
    from convert.backends.pytorch.emit import check
    from convert.backends.pytorch.passes.legalize import legalize
    from convert.backends.pytorch.writer.exported import Forward

    from tests.backends.pytorch.ops.support import as_array

    graph = ir.from_proto(model)
    legalize(graph)
    check(graph)
    module = Forward(graph)
    inputs, names = ([v.name for v in ends] for ends in (graph.graph.inputs, graph.graph.outputs))

    def run(feed: Feed) -> list[np.ndarray]:
        with torch.no_grad():
            found = module(*(tensor_from(feed[n]) for n in inputs))
        return [as_array(found[n]) for n in names]

    return run


RUNS = {"tf": tensorflow_run, "keras": keras_run, "tflite": tflite_run, "torch": torch_run}


def caffe2_results(cases: Sequence[Case]) -> Iterator[tuple[Case, Any]]:
    """Return the real Caffe2's outputs for each case, or the error; all nets run in one process."""
    from convert.backends import caffe2
    from convert.frontends.caffe2.runner.runner import Job, run_jobs

    from convert.outcome.report import Report
    from convert.request.options import Options
    from tests.backends.keras.ops.keras_support import shared

    written: dict[Any, Path | Exception] = {}
    with tempfile.TemporaryDirectory() as folder:
        found: list[Any] = []
        for case in cases:
            feed, key = feeds_of(case), _key(case)
            if key not in written:
                written[key] = path = Path(folder) / f"{len(written)}.caffe2"
                try:
                    caffe2.write(shared(model_of(case)), path, "caffe2", Options(), Report("convert"))
                except Exception as error:
                    written[key] = error
            made = written[key]
            found.append(made if isinstance(made, Exception) else Job(made, feed))
        outcomes = iter(run_jobs([job for job in found if isinstance(job, Job)], seconds=60))
        for case, job in zip(cases, found, strict=True):
            outputs = next(outcomes) if isinstance(job, Job) else job
            names = [y.name for y in model_of(case).graph.output]
            yield case, outputs if isinstance(outputs, Exception) else [outputs[n] for n in names]


def _key(case: Case) -> tuple[Any, ...]:
    """Return the key that cases share if one artefact serves them."""
    weights = (id(x) for x in case.inputs if isinstance(x, Const))
    return (case.operator, id(case.attributes), *weights, *((n, x.shape) for n, x in feeds_of(case).items()))


def results(cases: Sequence[Case], make: Callable[[onnx.ModelProto], Run]) -> Iterator[tuple[Case, Any]]:
    """Return the result of `make` for each case, or the error; inputs of one shape share an artefact."""
    made: dict[Any, Any] = {}
    for case in cases:
        feed, key = feeds_of(case), _key(case)
        if key not in made:
            try:
                made[key] = make(model_of(case))
            except Exception as error:
                made[key] = error
        run = made[key]
        if isinstance(run, Exception):
            yield case, run
            continue
        try:
            yield case, run(feed)
        except Exception as error:
            yield case, error
