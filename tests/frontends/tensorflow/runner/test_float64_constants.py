"""Functions with constants of their own: in float64 the source has these as its float64 kernels do."""

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


@pytest.mark.slow
def test_what_takes_or_computes_float32_is_verified_in_float64(tmp_path: Path) -> None:
    """The scale of 6 bits over [-3, 3] looks like a decimal that was written; InTopKV2 does not support double."""

    @tf.function(input_signature=[tf.TensorSpec([None, 32], name="x")])
    def narrow(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "quantized": tf.quantization.fake_quant_with_min_max_args(x, -3, 3, num_bits=6),
            "within": tf.math.in_top_k(tf.argmax(x[:, :5], -1), x, 3),
            "back": tf.signal.irfft(tf.signal.rfft(x)),
        }

    report = convert.convert(narrow.get_concrete_function(), "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert {row.name for row in report.verdict.outputs if row.twin is None or row.twin > 1e-12} == set()
