"""The rules of `backends/keras/ops/index.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import convert
from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, i64, params
from tests.support.run_targets import run_target

ROWS = [
    *shared_rows(__name__),
    case("Compress", f32(3, 4), const(np.array([True, False, True])), axis=0),
    case("OneHot", i64(2, 3), const(np.array(6)), const(np.array([0, 1]))).named("numbers of int64"),
    case("OneHot", i64(2, 3), const(np.array(6)), const(np.array([0.5, 2], np.float32)), axis=-2).named("axis -2"),
    case("Gather", const(f32(7, 4)), i64(2, 3, low=-7, high=7)).named("embedding"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)


def test_rows_of_dynamic_dims(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[N, T, 4] x) => (float[2, T, 4] y)
        <int64[2, 1] i = {1, -1}> { y = GatherND (x, i) }"""
    )
    path = tmp_path / "m.keras"
    convert.convert(model, "keras", path, verify=False)
    feeds = [{"x": f32(3, 5, 4)}, {"x": f32(2, 3, 4)}]
    for feed, got in zip(feeds, run_target("keras", path, feeds), strict=True):
        np.testing.assert_array_equal(got["y"], feed["x"][[1, -1]])


def test_rows_of_each_element_of_a_dynamic_batch(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[N, T, 4] x, int64[N, K, 1] i, int64[N, 1] j) => (float[N, K, 4] y, float[N, 4] z) {
            y = GatherND <batch_dims = 1> (x, i)
            z = GatherND <batch_dims = 1> (x, j)
        }"""
    )
    path = tmp_path / "m.keras"
    convert.convert(model, "keras", path, verify=False)
    feeds = [{"x": f32(n, 5, 4), "i": i64(n, k, 1, low=-5, high=5), "j": i64(n, 1, low=-5, high=5)}
             for n, k in ((3, 2), (1, 4))]  # fmt: skip
    for feed, got in zip(feeds, run_target("keras", path, feeds), strict=True):
        np.testing.assert_array_equal(got["y"], np.take_along_axis(feed["x"], feed["i"] % 5, 1))
        np.testing.assert_array_equal(got["z"], feed["x"][np.arange(len(feed["x"])), feed["j"][:, 0]])


def test_rows_of_several_dynamic_dims(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[N, T, 5, 4] x, int64[N, T, K, 1] i, int64[N, K, 2] j) => (float[N, T, K, 4] y, float[N, K, 4] z) {
            y = GatherND <batch_dims = 2> (x, i)
            z = GatherND <batch_dims = 1> (x, j)
        }"""
    )
    path = tmp_path / "m.keras"
    convert.convert(model, "keras", path, verify=False)
    feeds = [
        {
            "x": f32(n, t, 5, 4),
            "i": i64(n, t, k, 1, low=-5, high=5),
            "j": np.stack([i64(n, k, low=-t, high=t), i64(n, k, low=-5, high=5)], -1),
        }
        for n, t, k in ((3, 2, 4), (1, 6, 2))
    ]
    for feed, got in zip(feeds, run_target("keras", path, feeds), strict=True):
        x, first = feed["x"], np.arange(len(feed["x"]))[:, None]
        np.testing.assert_array_equal(got["y"], np.take_along_axis(x, feed["i"] % 5, 2))
        np.testing.assert_array_equal(got["z"], x[first, feed["j"][..., 0], feed["j"][..., 1]])
