"""Keras models where TensorFlow has oneDNN on, which is its default on most servers, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import convert
from tests.suites.fused import model_of
from tests.support.tensorflow_networks import close, onnxruntime_of

pytest.importorskip("keras", reason="the Keras backend writes with Keras")

PREDICT = """
import sys
import keras, numpy
numpy.save(sys.argv[3], keras.saving.load_model(sys.argv[1]).predict(numpy.load(sys.argv[2]), verbose=0))
"""


PADDED = {
    "conv2d_of_more_channels": (3, 6, 6, 6),
    "conv3d_of_more_channels": (2, 4, 4, 2, 4),
    "conv3d_behind_pad": (2, 4, 7, 6, 8),
}
"""Behind a Pad: the layer has its pads for its own, and none for channels, or none but those."""


@pytest.mark.parametrize("family", PADDED)
def test_no_convolution_reads_pads_that_it_would_take_for_its_own(family: str, tmp_path: Path) -> None:
    """Where oneDNN is off, or this processor has other kernels, nothing else shows it."""
    import keras

    model, _ = model_of(family, "none", "none", "float32")
    model.opset_import[0].version = 20
    convert.convert(model, "keras", tmp_path / "m.keras", verify=False)
    layers = keras.saving.load_model(tmp_path / "m.keras").layers
    (layer,) = (found for found in layers if type(found).__name__.startswith("Conv"))
    before = layer.input._keras_history.operation
    assert not isinstance(before, keras.src.ops.numpy.Pad)
    assert layer.padding == "valid" or not type(before).__name__.startswith("ZeroPadding")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "added", "act"),
    [
        ("conv2d", "none", "MaxMultiple"),
        *(("matmul", added, "Relu") for added in ("wider", "one_wider", "wider_negative")),
        ("batches_of_one_row", "longer", "Relu"),
        *((family, added, "Relu") for family in PADDED for added in ("bias", "none")),
    ],
)
def test_what_onednn_fuses_wrongly_is_not_fused(family: str, added: str, act: str, tmp_path: Path) -> None:
    model, arrays = model_of(family, added, act, "float32")
    model.opset_import[0].version = 20
    x, given, found = arrays["x"].astype(np.float32), tmp_path / "x.npy", tmp_path / "y.npy"
    onnx.save(model, tmp_path / "m.onnx")
    convert.convert(tmp_path / "m.onnx", "keras", tmp_path / "m.keras", verify=False)
    np.save(given, x)
    command = [sys.executable, "-c", PREDICT, str(tmp_path / "m.keras"), str(given), str(found)]
    subprocess.run(command, env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}, check=True, capture_output=True)
    (want,) = onnxruntime_of(model, {"x": x})
    assert np.load(found).shape == want.shape
    assert want.shape in ((1, 5, 32), (1, 6, 2, 4), (3, 6, 7, 6), *PADDED.values())
    close(np.load(found), want)
