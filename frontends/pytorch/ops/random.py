"""Random numbers from PyTorch's distributions, but never the same numbers.

A model that draws random numbers cannot be compared number by number with its source; the verification says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import axis_of, size, vector
from ..common.values import as_value, cast, constant_like, is_float, torch_dtype
from ..rules import torch_op

# The smallest number, for a draw whose logarithm is taken.
_TINY = 2.0**-24


def uniform_numbers(g: Graph, dims: Any, low: float = 0.0, high: float = 1.0) -> ir.Value:
    """Return float32 in [low, high); `dims` are ints and run-time ints, or a shape as a tensor."""
    shape = dims if isinstance(dims, ir.Value) else vector(g, list(dims))
    zeros = g.ConstantOfShape(shape, value=ir.Tensor(np.zeros(1, np.float32)))
    return g.RandomUniformLike(zeros, dtype=ir.DataType.FLOAT, low=float(low), high=float(high))


def normal_numbers(g: Graph, dims: Any) -> ir.Value:
    """Return float32 with mean 0 and deviation 1."""
    shape = dims if isinstance(dims, ir.Value) else vector(g, list(dims))
    zeros = g.ConstantOfShape(shape, value=ir.Tensor(np.zeros(1, np.float32)))
    return g.RandomNormalLike(zeros, dtype=ir.DataType.FLOAT)


@torch_op("rand")
def rand(g, size, *, dtype=None):
    return cast(g, uniform_numbers(g, size), dtype or torch.get_default_dtype())


@torch_op("randn")
def randn(g, size, *, dtype=None):
    return cast(g, normal_numbers(g, size), dtype or torch.get_default_dtype())


@torch_op("rand_like")
def rand_like(g, x, *, dtype=None):
    return cast(g, uniform_numbers(g, g.dims(x)), dtype or torch_dtype(g, x))


@torch_op("randn_like")
def randn_like(g, x, *, dtype=None):
    return cast(g, normal_numbers(g, g.dims(x)), dtype or torch_dtype(g, x))


def _random_integers(g: Graph, dims: Any, low: Any, high: Any, dtype: torch.dtype) -> ir.Value:
    """Return integers from low to high - 1."""
    if isinstance(low, ir.Value) or isinstance(high, ir.Value):
        first, end = (cast(g, as_value(g, n, torch.int64), ir.DataType.FLOAT) for n in (low, high))
        drawn = g.Floor(g.Add(g.Mul(uniform_numbers(g, dims), g.Sub(end, first)), first))
        last = g.Sub(end, constant_like(g, 1.0, end))
        return cast(g, g.Max(g.Min(drawn, last), first), dtype)
    drawn = g.Floor(uniform_numbers(g, dims, low, high))
    # Rounding to float32 may give the excluded end.
    return cast(g, g.Clip(drawn, constant_like(g, float(low), drawn), constant_like(g, float(high - 1), drawn)), dtype)


@torch_op("randint")
def randint(g, high, size, *, dtype=None):
    return _random_integers(g, size, 0, high, dtype or torch.int64)


@torch_op("randint.low")
def randint_low(g, low, high, size, *, dtype=None):
    return _random_integers(g, size, low, high, dtype or torch.int64)


@torch_op("randint_like")
def randint_like(g, x, high, *, dtype=None):
    return _random_integers(g, g.dims(x), 0, high, dtype or torch_dtype(g, x))


@torch_op("randint_like.low_dtype")
def randint_like_low(g, x, low, high, *, dtype=None):
    return _random_integers(g, g.dims(x), low, high, dtype or torch_dtype(g, x))


@torch_op("randperm")
def randperm(g, n, *, dtype=None):
    """Return the indices that sort random numbers."""
    order = g.TopK(uniform_numbers(g, [n]), vector(g, n), axis=0, outputs=2)[1]
    return cast(g, order, dtype or torch.int64)


@torch_op("bernoulli")
def bernoulli(g, x):
    """1 with the probability in x."""
    return cast(g, g.Less(uniform_numbers(g, g.dims(x)), cast(g, x, torch.float32)), g.dtype(x))


@torch_op("bernoulli.p", "bernoulli.float")
def bernoulli_p(g, x, p=0.5):
    return cast(g, g.Less(uniform_numbers(g, g.dims(x)), constant_like(g, p, g.const(0.0))), g.dtype(x))


@torch_op("bernoulli.Tensor")
def bernoulli_tensor(g, x, p):
    return cast(g, g.Less(uniform_numbers(g, g.dims(x)), cast(g, p, torch.float32)), g.dtype(x))


@torch_op("uniform")
def uniform(g, x, from_=0.0, to=1.0):
    return cast(g, uniform_numbers(g, g.dims(x), from_, to), g.dtype(x))


@torch_op("normal", "normal_functional")
def normal(g, x, mean=0.0, std=1.0):
    return _scale_and_shift(g, normal_numbers(g, g.dims(x)), mean, std, g.dtype(x))


@torch_op("normal.Tensor_float", "normal.Tensor_Tensor")
def normal_about(g, mean, std=1.0):
    shape = g.dims(mean)
    if isinstance(std, ir.Value):
        shape = g.Shape(g.Add(mean, cast(g, std, g.dtype(mean))))
    return _scale_and_shift(g, normal_numbers(g, shape), mean, std, g.dtype(mean))


@torch_op("normal.float_Tensor")
def normal_within(g, mean, std):
    return _scale_and_shift(g, normal_numbers(g, g.dims(std)), mean, std, g.dtype(std))


@torch_op("normal.float_float")
def normal_of_size(g, mean, std, size, *, dtype=None):
    return _scale_and_shift(g, normal_numbers(g, size), mean, std, dtype or torch.get_default_dtype())


def _scale_and_shift(g: Graph, drawn: ir.Value, mean: Any, std: Any, dtype: Any) -> ir.Value:
    drawn = cast(g, drawn, dtype)
    return g.Add(g.Mul(drawn, as_value(g, std, g.dtype(drawn))), as_value(g, mean, g.dtype(drawn)))


@torch_op("log_normal")
def log_normal(g, x, mean=1.0, std=2.0):
    return g.Exp(_scale_and_shift(g, normal_numbers(g, g.dims(x)), mean, std, g.dtype(x)))


@torch_op("exponential")
def exponential(g, x, lambd=1.0):
    drawn = g.Neg(g.Log(uniform_numbers(g, g.dims(x), _TINY, 1.0)))
    return cast(g, g.Div(drawn, constant_like(g, float(lambd), drawn)), g.dtype(x))


@torch_op("geometric")
def geometric(g, x, p):
    """Return the number of trials until the first success."""
    drawn = g.Log(uniform_numbers(g, g.dims(x), _TINY, 1.0))
    return cast(g, g.Ceil(g.Div(drawn, constant_like(g, math.log1p(-p), drawn))), g.dtype(x))


@torch_op("cauchy")
def cauchy(g, x, median=0.0, sigma=1.0):
    drawn = g.Tan(uniform_numbers(g, g.dims(x), -math.pi / 2, math.pi / 2))
    return _scale_and_shift(g, drawn, median, sigma, g.dtype(x))


@torch_op("multinomial")
def multinomial(g, x, num_samples, replacement=False):
    """Indices by weight: the maxima of log(weight) plus Gumbel noise; one draw per index, or the best indices of one
    draw.
    """
    if not is_float(g, x):
        raise Unsupported("multinomial over weights that are not floating")
    logs = g.Log(cast(g, x, torch.float32))
    axis = axis_of(g, x, -1)
    if not replacement:
        return g.TopK(_add_gumbel_noise(g, logs, g.dims(logs)), vector(g, num_samples), axis=axis, outputs=2)[1]
    rows = g.Unsqueeze(logs, [axis])
    dims = vector(g, [*(size(g, x, d) for d in range(axis)), num_samples, size(g, x, axis)])
    return g.ArgMax(_add_gumbel_noise(g, rows, dims), axis=axis + 1, keepdims=0)


def _add_gumbel_noise(g: Graph, logs: ir.Value, dims: ir.Value) -> ir.Value:
    return g.Sub(logs, g.Log(g.Neg(g.Log(uniform_numbers(g, dims, _TINY, 1.0)))))


torch_op.gap(
    "draws random numbers from a distribution that ONNX has no generator for; pass them to forward as an input",
    "poisson",
    "binomial",
    "random",
    "random.from",
    "random.to",
    "_standard_gamma",
    "_sample_dirichlet",
)
