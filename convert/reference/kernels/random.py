"""Reference kernels of random operators: different numbers in each run, from the requested distribution.

Values that depend on random numbers are never compared by their numbers (`convert/parity/compare/randomness.py`); all
other values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.graph.tensors import numpy_dtype
from convert.reference.table import kernel

Array = Any


@kernel("RandomNormal")
def random_normal(
    count: int, *, dtype: int, mean: float, scale: float, seed: Any = None, shape: Sequence[int]
) -> Array:
    return np.random.default_rng().normal(mean, scale, tuple(shape)).astype(_dtype(dtype))


@kernel("RandomNormalLike")
def random_normal_like(
    count: int, x: Array, *, dtype: Any = None, mean: float, scale: float, seed: Any = None
) -> Array:
    return np.random.default_rng().normal(mean, scale, x.shape).astype(_dtype(dtype, x))


@kernel("RandomUniform")
def random_uniform(count: int, *, dtype: int, high: float, low: float, seed: Any = None, shape: Sequence[int]) -> Array:
    return np.random.default_rng().uniform(low, high, tuple(shape)).astype(_dtype(dtype))


@kernel("RandomUniformLike")
def random_uniform_like(count: int, x: Array, *, dtype: Any = None, high: float, low: float, seed: Any = None) -> Array:
    return np.random.default_rng().uniform(low, high, x.shape).astype(_dtype(dtype, x))


@kernel("Bernoulli")
def bernoulli(count: int, x: Array, *, dtype: Any = None, seed: Any = None) -> Array:
    return (np.random.default_rng().random(x.shape) < x).astype(_dtype(dtype, x))


@kernel("Multinomial")
def multinomial(count: int, x: Array, *, dtype: int, sample_size: int, seed: Any = None) -> Array:
    """Multinomial of unnormalized log-probabilities x [batch, class]: the argmax after Gumbel noise is added."""
    noise = np.random.default_rng().gumbel(size=(x.shape[0], sample_size, x.shape[1]))
    return (x[:, None, :].astype(np.float64) + noise).argmax(-1).astype(_dtype(dtype))


@kernel("Dropout")
def dropout(count: int, x: Array, ratio: Array = None, training_mode: Array = None, *, seed: Any = None) -> Any:
    share = 0.5 if ratio is None else float(ratio)
    kept = np.ones(x.shape, bool)
    if training_mode is not None and bool(training_mode) and share > 0:
        kept = np.random.default_rng().random(x.shape) >= share
        x = np.where(kept, x / max(1 - share, np.finfo(np.float64).tiny), 0).astype(x.dtype)
    return (x, kept)[:count] if count > 1 else x


def _dtype(dtype: int | None, x: Array = None) -> Any:
    if dtype:
        return numpy_dtype(ir.DataType(dtype))
    return x.dtype if x.dtype.kind == "f" or x.dtype == ml_dtypes.bfloat16 else np.float32
