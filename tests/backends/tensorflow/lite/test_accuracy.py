"""Accuracy of a trained classifier in float, with 8-bit and 16-bit activations, on data held out of training."""

from __future__ import annotations

from pathlib import Path

import pytest

from convert.request.options import Options
from fixtures.digits import accuracy, load_test
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

pytestmark = pytest.mark.slow

MNIST = Path(__file__).parents[4] / "fixtures" / "mnist_cnn.onnx"


def test_digits_are_classified_alike(tmp_path: Path) -> None:
    images, labels = load_test()
    found = []
    for quantize in ("", "int8", "int16x8"):
        options = Options(quantize=quantize, calibrate={"image": images[:64]} if quantize else {})
        path = encode(graph_of(MNIST), tmp_path / f"as_{quantize}", options)
        found.append(accuracy(run(path, {"image": images})["log_probs"], labels))
    assert found[0] > 0.95
    assert max(found) - min(found) <= 0.01, found
