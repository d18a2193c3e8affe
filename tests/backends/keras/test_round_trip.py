"""Keras → ONNX → SavedModel gives the Keras model's numbers, with its names, dims and layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends.tensorflow.runner import runner

import convert
from convert.request.options import Options
from convert.request.source import Source
from tests.support.tensorflow_helper import ROUNDING, images, rms

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")

from tests.support.keras_helper import create, size_of  # noqa: E402  (after the choice of Keras's backend)

FIXTURES = Path(__file__).parents[3] / "fixtures"
SMALL = [pytest.param(name, marks=pytest.mark.long) for name in ("MobileNetV2", "EfficientNetB0")]


def there_and_back(source: Path, folder: Path, feeds: list[dict[str, np.ndarray]]) -> None:
    there = convert.convert(source, "onnx", folder / "m.onnx")
    back = convert.convert(folder / "m.onnx", "tf", folder / "back.savedmodel")
    for report in (there, back):
        assert report.verdict is not None
        assert report.verdict.status == "PASS"
    assert [(t.name, t.shape) for t in back.inputs] == [(t.name, t.shape) for t in there.inputs]
    made = [Source("keras", source), Source("savedmodel", folder / "back.savedmodel")]
    (reference, single), (_, again) = ([_run(s, feeds, p) for p in ("float64", "float32")] for s in made)
    for exact, first, second in zip(reference, single, again, strict=True):
        assert list(first) == list(second)
        for name, value in first.items():
            assert second[name].dtype == value.dtype
            floor = max(rms(value - exact[name]), ROUNDING * rms(exact[name]))
            assert rms(second[name] - exact[name]) <= 4 * floor


def _run(source: Source, feeds: list[dict[str, np.ndarray]], precision: str) -> Any:
    return runner.run(source, feeds, precision=precision, options=Options())


@pytest.mark.slow
def test_mnist(tmp_path: Path) -> None:
    feeds = [{"image": images(n, 28, 28, 1)} for n in (3, 1)]
    there_and_back(FIXTURES / "mnist_cnn.keras", tmp_path, feeds)


@pytest.mark.parametrize("name", SMALL)
def test_keras_applications(name: str, tmp_path: Path) -> None:
    model = create(name)
    model.save(tmp_path / f"{name}.keras")
    size = size_of(name)
    there_and_back(tmp_path / f"{name}.keras", tmp_path, [{model.layers[0].name: images(2, size, size, 3)}])
