"""Rules for random numbers. A `seed` refers to ONNX's own generator, whose numbers no other runtime reproduces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.padding import slice_axis
from ..common.random import random_fill
from ..common.shapes import concat, dim, dims
from ..net import Net
from ..rules import onnx_op
from .linear import fully_connected


@onnx_op("RandomUniform")
def random_uniform(net: Net, *, dtype: int, high: float, low: float, seed: float | None, shape: Sequence[int]) -> Blob:
    return cast(net, _uniform(net, _constant(net, shape), low, high), ir.DataType(dtype))


@onnx_op("RandomUniformLike")
def random_uniform_like(net: Net, x: Blob, *, dtype: int | None, high: float, low: float, seed: float | None) -> Blob:
    return cast(net, _uniform(net, dims(net, x), low, high, x), x.dtype if dtype is None else ir.DataType(dtype))


@onnx_op("RandomNormal")
def random_normal(net: Net, *, dtype: int, mean: float, scale: float, seed: float | None, shape: Sequence[int]) -> Blob:
    return cast(net, _normal(net, _constant(net, shape), mean, scale), ir.DataType(dtype))


@onnx_op("RandomNormalLike")
def random_normal_like(net: Net, x: Blob, *, dtype: int | None, mean: float, scale: float, seed: float | None) -> Blob:
    return cast(net, _normal(net, dims(net, x), mean, scale, x), x.dtype if dtype is None else ir.DataType(dtype))


@onnx_op("Multinomial")
def multinomial(net: Net, x: Blob, *, dtype: int, sample_size: int, seed: float | None) -> Blob:
    """Multinomial-22: count how many running sums of the probabilities are below a uniform number; `x` holds
    logarithms.
    """
    probabilities = net.Softmax(widen(net, x, FLOAT), axis=1)
    count = net.shape(x)[1]
    assert isinstance(count, int)
    sums = fully_connected(net, probabilities, net.const(np.tri(count, dtype=np.float32)), None)
    # The last sum is 1 up to rounding; no number exceeds it.
    sums = net.facts(net.ExpandDims(slice_axis(net, sums, 1, 0, count - 1), dims=[1]), FLOAT[0],
                     (net.shape(x)[0], 1, count - 1))  # fmt: skip
    shape = concat(net, [dim(net, x, 0), net.const(np.array([sample_size, 1], np.int64))])
    drawn = net.facts(_uniform(net, shape, 0.0, 1.0), FLOAT[0], (net.shape(x)[0], sample_size, 1))
    past = cast(net, net.GE(drawn, sums), ir.DataType.INT32)
    return cast(
        net, net.facts(net.op("ReduceSum", [past], axes=[2], keepdims=0), ir.DataType.INT32), ir.DataType(dtype)
    )


def _constant(net: Net, shape: Sequence[int]) -> Blob:
    return net.const(np.array(shape, np.int64))


def _uniform(net: Net, shape: Blob, low: float, high: float, like: Blob | None = None) -> Blob:
    return random_fill(net, "UniformFill", shape, {"min": float(low), "max": float(high)}, like)


def _normal(net: Net, shape: Blob, mean: float, scale: float, like: Blob | None = None) -> Blob:
    return random_fill(net, "GaussianFill", shape, {"mean": float(mean), "std": float(scale)}, like)
