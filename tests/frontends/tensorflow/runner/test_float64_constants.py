"""Functions with constants of their own: in float64 the source has these as its kernels for float64 do."""

from __future__ import annotations

from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow runs the sources")

import convert  # noqa: E402

FUNCTIONS = ("selu", "elu", "gelu", "leaky_relu", "relu6", "softplus", "softsign", "silu")


def test_activations_are_verified(tmp_path: Path) -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def activations(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {name: getattr(tf.nn, name)(x) for name in FUNCTIONS}

    report = convert.convert(activations.get_concrete_function(), "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert {row.name: row.twin for row in report.verdict.outputs if row.twin is None or row.twin > 1e-14} == {}
