"""Complex tensors at the boundary, where they are pairs of real numbers, and in arithmetic, against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

import convert

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Log": tf.math.log,
    "Sqrt": tf.sqrt,
    "Rsqrt": tf.math.rsqrt,
    "Tanh": tf.tanh,
    "Square": tf.square,
    "Pow": lambda z: tf.pow(z, tf.constant(1.5 - 0.5j, z.dtype)),
    "Equal": lambda z: tf.equal(z, tf.reverse(z, [1])),
    "NotEqual": lambda z: tf.not_equal(z, tf.reverse(z, [1])),
    "MatMul": lambda z: tf.matmul(z, z, adjoint_a=True),
    "MatMul of a transpose": lambda z: tf.matmul(z, z, transpose_b=True),
    "BatchMatMul": lambda z: tf.matmul(z[None], z[None], adjoint_b=True),
    "Einsum": lambda z: tf.einsum("ij,kj->ik", z, tf.math.conj(z)),
}


def numbers(rows: int, dtype: Any = np.complex64) -> np.ndarray:
    """Return numbers in every quadrant and on both axes."""
    z = np.random.default_rng(rows).normal(size=(rows, 5, 2)).view(np.complex128)[..., 0]
    z[0, :4] = 2, -3, 0.5j, -1j
    return z.astype(dtype)


def parts(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1) if np.iscomplexobj(z) else z


NARROW = ("Log", "Tanh", "Pow")
"""Functions that use Atan, Sinh and Cosh, for which onnxruntime has no float64 kernels."""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in FUNCTIONS for d in (tf.complex64, tf.complex128) if d == tf.complex64 or n not in NARROW],
)
def test_a_complex_input_and_output_are_pairs(name: str, dtype: Any) -> None:
    function = tf.function(FUNCTIONS[name], input_signature=[tf.TensorSpec([None, 5], dtype, "z")], autograph=False)
    session = onnxruntime.InferenceSession(convert.to_onnx(function, verify=False).SerializeToString())
    for rows in (3, 1):
        z = numbers(rows, dtype.as_numpy_dtype)
        expected = parts(function(tf.constant(z)).numpy())
        (found,) = session.run(None, {"z": parts(z)})
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=2e-5 if dtype == tf.complex64 else 1e-12, atol=1e-6)


def test_pairs_are_told_and_verified(tmp_path: Path) -> None:
    def spectrum(x: Any, z: Any) -> Any:
        return {"whole": tf.signal.fft(tf.cast(x, tf.complex64) * z), "size": tf.abs(z)}

    specs = [tf.TensorSpec([None, 8], name="x"), tf.TensorSpec([None, 8], tf.complex64, "z")]
    report = convert.convert(tf.function(spectrum, input_signature=specs), "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert [(x.name, x.shape[-1]) for x in (*report.inputs, *report.outputs)] == [
        ("x", 8), ("z", 2), ("size", 8), ("whole", 2),
    ]  # fmt: skip
    assert sum(note.code == "complex-pairs" for note in report.notes) == 2


def test_the_dims_of_a_complex_input_are_named_as_those_of_a_real_one() -> None:
    function = tf.function(tf.identity, input_signature=[tf.TensorSpec([None, 4], tf.complex64, "z")])
    for spec in ("z:complex64[rows,4]", "z:float32[rows,4,2]", "z:[rows,4]"):
        (given,) = convert.to_onnx(function, spec, verify=False).graph.input
        assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == ["rows", 4, 2]
    with pytest.raises(convert.UsageError, match="complex64"):
        convert.to_onnx(function, "z:float64[rows,4,2]", verify=False)


@pytest.mark.slow
def test_a_saved_model_of_complex_numbers_is_a_target_too(tmp_path: Path) -> None:
    """The target is called by name and run in a session, with complex tensors as pairs, like the source."""

    def spectrum(x: Any, z: Any) -> Any:
        return {"whole": tf.signal.fft(tf.cast(x, tf.complex64) * z), "size": tf.abs(z)}

    module = tf.Module()
    specs = [tf.TensorSpec([None, 8], name="x"), tf.TensorSpec([None, 8], tf.complex64, "z")]
    module.spectrum = tf.function(spectrum, input_signature=specs)
    tf.saved_model.save(module, str(tmp_path / "s"), signatures=module.spectrum.get_concrete_function())
    convert.convert(tmp_path / "s", "onnx", tmp_path / "m.onnx", verify=False)
    report = convert.verify(tmp_path / "m.onnx", tmp_path / "s")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
