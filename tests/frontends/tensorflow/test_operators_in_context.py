"""TensorFlow operators in context: vectors of arbitrary sign, variants, optional values, text and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend

from convert.errors import Unsupported
from convert.graph import OPSET
from convert.outcome.report import Report
from convert.passes.opset.convert import convert_opset
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")

RNG = np.random.default_rng(11)


def _both(
    function: Any, opset: int = OPSET, **arrays: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the outputs of onnxruntime and of TensorFlow."""
    specs = [tf.TensorSpec(a.shape, a.dtype, name) for name, a in arrays.items()]
    concrete = tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
    model = frontend.read(Source("tf-function-object", model=concrete), Options(), Report("convert"))
    convert_opset(model, opset)
    return run(model, arrays), {n: v.numpy() for n, v in concrete(*map(tf.constant, arrays.values())).items()}


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 3, 4)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_vectors(shape: tuple[int, ...], full: bool) -> None:
    """The singular values are TensorFlow's; the vectors are orthonormal and give the matrix back."""
    x = RNG.uniform(-1, 1, shape).astype(np.float32)
    got, expected = _both(lambda x: dict(zip("suv", tf.linalg.svd(x, full_matrices=full), strict=True)), x=x)
    np.testing.assert_allclose(got["s"], expected["s"], rtol=1e-5)
    assert {n: v.shape for n, v in got.items()} == {n: v.shape for n, v in expected.items()}
    for name in "uv":
        product = got[name].swapaxes(-1, -2) @ got[name]
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(product.shape[-1]), product.shape), atol=1e-6)
    u, v = got["u"][..., :3], got["v"][..., :3]
    np.testing.assert_allclose((u * got["s"][:, None]) @ v.swapaxes(-1, -2), x, atol=1e-6)


def test_eigenvectors_of_a_symmetric_matrix() -> None:
    """The eigenvectors equal TensorFlow's except for their signs. The upper triangle is not read."""
    x = RNG.uniform(-1, 1, (3, 5, 5))
    got, expected = _both(lambda x: dict(zip("ev", tf.linalg.eigh(x), strict=True)), x=x)
    np.testing.assert_allclose(got["e"], expected["e"], rtol=1e-10)
    products = (got["v"] * expected["v"]).sum(-2)
    np.testing.assert_allclose(np.abs(products), np.ones((3, 5)), rtol=1e-10)


def test_truncated_normal_numbers_have_their_distribution() -> None:
    """The numbers are compared with quantiles of 100,000 numbers, whose error is at most about 0.006, and with the
    bounds.
    """
    numbers = lambda x: {"y": tf.random.truncated_normal([100_000]) + x}  # noqa: E731
    got, _ = _both(numbers, opset=20, x=np.zeros(1, np.float32))  # onnxruntime has no generator of opset 22
    assert np.abs(got["y"]).max() <= 2
    shares = np.linspace(0.02, 0.98, 49)
    tail = float(tf.math.erfc(tf.constant(np.sqrt(2)))) / 2
    quantiles = tf.math.ndtri(tf.constant(tail + shares * (1 - 2 * tail))).numpy()
    np.testing.assert_allclose(np.quantile(got["y"], shares), quantiles, atol=0.05)


def test_a_ragged_tensor_as_a_variant() -> None:
    def function(x: Any) -> Any:
        variant = tf.raw_ops.RaggedTensorToVariant(
            rt_nested_splits=[tf.constant([0, 2, 2, 5], tf.int64)], rt_dense_values=x, batched_input=False
        )
        splits, values = tf.raw_ops.RaggedTensorFromVariant(
            encoded_ragged=tf.identity(variant), input_ragged_rank=1, output_ragged_rank=1, Tvalues=tf.float32
        )
        return {"splits": splits[0], "values": values}

    got, expected = _both(function, x=RNG.uniform(-1, 1, 5).astype(np.float32))
    assert list(got) == list(expected)
    for name, value in got.items():
        np.testing.assert_array_equal(value, expected[name])


def test_optional_values() -> None:
    def function(x: Any) -> Any:
        some, none = tf.raw_ops.OptionalFromValue(components=[x, x + 1]), tf.raw_ops.OptionalNone()
        parts = tf.raw_ops.OptionalGetValue(
            optional=some, output_types=[tf.float32] * 2, output_shapes=[x.shape, x.shape]
        )
        there = [tf.raw_ops.OptionalHasValue(optional=o) for o in (some, none)]
        return {"sum": parts[0] + 2 * parts[1], "some": there[0], "none": there[1]}

    got, expected = _both(function, x=RNG.uniform(-1, 1, 5).astype(np.float32))
    for name, value in got.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)


def test_numbers_in_a_text() -> None:
    got, expected = _both(
        lambda x, y: {"text": tf.strings.format("a {} of {}, {}.", (x, y, 5))},
        x=np.array(7, np.int32), y=np.array(-3, np.int64),
    )  # fmt: skip
    assert str(got["text"]).encode() == expected["text"]
    with pytest.raises(Unsupported, match="tensors with dims"):
        _both(lambda x: {"text": tf.strings.format("a {}", x)}, x=np.zeros(2, np.float32))
