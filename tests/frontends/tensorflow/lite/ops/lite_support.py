"""Runs one case of the TensorFlow Lite reader: a file with the operator, read, and run by onnxruntime and LiteRT."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.lite import file, runner

from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import agrees, run, same
from tests.support.cases import Case

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is the oracle")


def lite_case(operator: str, function: Callable[..., Any], *arrays: np.ndarray, **attributes: Any) -> Case:
    """Return a row: a function of tensors that the converter writes with `operator`, and its inputs.

    attributes: `dynamic` makes the first dim of every input dynamic; `quantized` is the dtype of activations.
    """
    return Case(operator, (function, *arrays), attributes)


def file_case(operator: str, make: Callable[[], bytes], *arrays: np.ndarray) -> Case:
    """Return a row whose file is made by hand, because the converter does not write that operator."""
    return Case(operator, (None, *arrays), {"make": make})


def check(row: Case) -> None:
    function, *arrays = row.inputs
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    data = row.attributes["make"]() if function is None else encoded(function, arrays, **row.attributes)
    found = {o.name for s in file.parse_lite_model(memoryview(data), "the file").subgraphs for o in s.operators}
    assert row.operator in found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tflite"
        path.write_bytes(data)
        source = Source("tflite", path)
        model = frontend.read(source, Options(), Report("convert"))
        expected = runner.run(source, [feeds], precision="float32", options=Options())[0]
    got = run(model, feeds)
    assert [v.name for v in model.graph.outputs] == list(expected)
    for value, (name, result) in zip(model.graph.outputs, got.items(), strict=True):
        if row.attributes.get("quantized"):
            within_one_step(result, expected[name])
        else:
            same(result, expected[name])
        agrees(value, result)


def within_one_step(got: np.ndarray, expected: np.ndarray) -> None:
    """Assert equality up to one step of a quantized number, because kernels scale by 31-bit fixed-point numbers.

    A float result was quantized before: then the step is the smallest difference that occurs.
    """
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert np.unique(expected).size > 1
    if got.dtype.kind == "f":
        step = np.diff(np.unique(expected)).min()
        assert np.abs(got - expected).max() <= 1.001 * step
    else:
        assert np.abs(got.astype(np.int64) - expected.astype(np.int64)).max() <= 1


def encoded(
    function: Callable[..., Any], arrays: list[np.ndarray], *, dynamic: bool = False, quantized: str = "", **more: Any
) -> bytes:
    """Return the function as a file."""
    specs = [
        tf.TensorSpec([None, *a.shape[1:]] if dynamic else a.shape, a.dtype, name=f"x{i}") for i, a in enumerate(arrays)
    ]
    concrete = tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    converter.experimental_lower_to_saved_model = False
    for name, value in more.items():
        setattr(converter, name, value)
    if quantized:
        _quantize(converter, arrays, quantized)
    return converter.convert()


def _quantize(converter: Any, arrays: list[np.ndarray], dtype: str) -> None:
    sets = tf.lite.OpsSet
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if dtype == "weights":
        return
    converter.representative_dataset = lambda: [arrays, [np.flip(a) for a in arrays]]
    wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter.target_spec.supported_ops = [wide if dtype == "int16" else sets.TFLITE_BUILTINS_INT8]
    if all(a.dtype == np.float32 for a in arrays):
        converter.inference_output_type = tf.as_dtype(dtype)
