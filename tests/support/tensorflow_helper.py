"""Read TensorFlow models and compare the graph's error with TensorFlow's own, for tests."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx_ir as ir
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.runner import runner

from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

ROUNDING = 2.0**-24


def read(source: Source, **options: Any) -> ir.Model:
    return frontend.read(source, Options(**options), Report("convert"))


def rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.asarray(array, np.float64) ** 2)))


def agrees(source: Source, feeds: list[dict[str, np.ndarray]], **options: Any) -> ir.Model:
    """Assert that the graph's error is at most a few times TensorFlow's own float32 error.

    The reference is TensorFlow in float64. Its error is the largest relative error over the input sets, because the
    error of three final states of one sequence is random. For an LSTM it was 1.4 roundings with Eigen's kernels, 0.6
    with oneDNN's and 4.5 with onnxruntime's, and over three sequences 7.7, 7.7 and 6.8.
    """
    model = read(source, **options)
    single = runner.run(source, feeds, precision="float32", options=Options(**options))
    double = runner.run(source, feeds, precision="float64", options=Options(**options))
    floors = {
        name: max(rms(a[name] - r[name]) / (rms(r[name]) or 1) for a, r in zip(single, double, strict=True))
        for name, value in (single[0] if single else {}).items()
        if value.dtype.kind == "f"
    }
    for feed, as_deployed, reference in zip(feeds, single, double, strict=True):
        got = run(model, feed)
        assert list(got) == [v.name for v in model.graph.outputs]
        assert set(got) == set(as_deployed) == set(reference)
        for name, value in got.items():
            assert (value.dtype, value.shape) == (as_deployed[name].dtype, as_deployed[name].shape)
            if value.dtype.kind == "f":
                assert reference[name].dtype == np.float64
                floor = max(floors[name], ROUNDING) * rms(reference[name])
                assert rms(value - reference[name]) <= 4 * floor
            else:
                np.testing.assert_array_equal(value, as_deployed[name])
    return model


def images(*shape: int, seed: int = 1) -> np.ndarray:
    """Return normal noise."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def shapes(model: ir.Model) -> dict[str, list[Any]]:
    values = (*model.graph.inputs, *model.graph.outputs)
    return {str(v.name): [d if isinstance(d, int) else d.value for d in v.shape] for v in values}  # type: ignore[union-attr]
