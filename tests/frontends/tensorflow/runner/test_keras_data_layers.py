"""Image layers on bytes are run as `predict` runs them, which is what the graph contains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convert
from tests.support.keras_helper import keras, layers
from tests.support.run_targets import run_target


@pytest.mark.slow
def test_resized_bytes_are_what_predict_gives(tmp_path: Path) -> None:
    """Called outside a graph, Keras 3.15 rounds resized images to bytes."""
    x = keras.Input((None, None, 3), name="x", dtype="uint8")
    y = layers.Rescaling(1 / 127.5, -1.0)(layers.Resizing(6, 5, interpolation="bicubic")(x))
    model = keras.Model(x, y)
    model.save(tmp_path / "m.keras")
    report = convert.convert(tmp_path / "m.keras", "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any("Resizing of integers" in str(note) for note in report.notes)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 9, 8, 3)).astype(np.uint8)
    (got,) = run_target("onnx", tmp_path / "m.onnx", [{"x": pictures}])
    np.testing.assert_allclose(got[report.outputs[0].name], model.predict(pictures, verbose=0), atol=1e-5)
