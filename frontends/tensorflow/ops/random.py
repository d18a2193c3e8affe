"""Random numbers of the same distribution; no other runtime's generator gives the same numbers."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.inverses import ndtri

from ..common import shape_values
from ..common.lazy_reshape import cast, int64
from ..rules import tf_op

tf_op.gap(
    "its numbers follow from a seed by TensorFlow's own generator",
    "StatelessRandomUniform", "StatelessRandomUniformV2", "StatelessRandomUniformIntV2", "StatelessRandomNormal",
    "StatelessRandomNormalV2", "StatelessTruncatedNormalV2", "StatelessRandomGetKeyCounter", "StatelessMultinomial",
)  # fmt: skip
tf_op.gap("ONNX has no such distribution", "RandomGamma", "RandomPoisson")


@tf_op("RandomUniform")
def random_uniform(g: Graph, shape: ir.Value, *, seed: int, seed2: int, dtype: ir.DataType) -> ir.Value:
    return g.RandomUniformLike(_zeros_of_shape(g, shape, dtype), low=0.0, high=1.0, dtype=dtype)


@tf_op("RandomStandardNormal")
def random_standard_normal(g: Graph, shape: ir.Value, *, seed: int, seed2: int, dtype: ir.DataType) -> ir.Value:
    return g.RandomNormalLike(_zeros_of_shape(g, shape, dtype), mean=0.0, scale=1.0, dtype=dtype)


@tf_op("TruncatedNormal")
def truncated_normal(g: Graph, shape: ir.Value, *, seed: int, seed2: int, dtype: ir.DataType) -> ir.Value:
    """Return truncated normal numbers: quantiles of uniform numbers between the probabilities of -2 and 2
    deviations.
    """
    double = ir.DataType.DOUBLE
    least = math.erfc(math.sqrt(2)) / 2
    unit = g.RandomUniformLike(_zeros_of_shape(g, shape, double), low=least, high=1 - least, dtype=double)
    return cast(g, ndtri(g, unit), dtype)


@tf_op("RandomUniformInt")
def random_uniform_int(
    g: Graph, shape: ir.Value, minval: ir.Value, maxval: ir.Value, *, seed: int, seed2: int
) -> ir.Value:
    dtype = g.dtype(minval)
    unit = g.RandomUniformLike(
        _zeros_of_shape(g, shape, ir.DataType.DOUBLE), low=0.0, high=1.0, dtype=ir.DataType.DOUBLE
    )
    span = g.Cast(g.Sub(maxval, minval), to=ir.DataType.DOUBLE)
    return g.Add(g.Cast(g.Floor(g.Mul(unit, span)), to=dtype), minval)


@tf_op("RandomShuffle")
def random_shuffle(g: Graph, value: ir.Value, *, seed: int, seed2: int) -> ir.Value:
    """Return rows in the order of random keys."""
    count = g.Shape(value, start=0, end=1)
    keys = g.RandomUniformLike(g.Expand(g.const(0.0, ir.DataType.FLOAT), count), dtype=ir.DataType.FLOAT)
    _, order = g.TopK(keys, count, axis=0, outputs=2)
    return g.facts(g.Gather(value, order, axis=0), shape=g.shape(value))


@tf_op("Multinomial")
def multinomial(
    g: Graph, logits: ir.Value, num_samples: ir.Value, *, seed: int, seed2: int, output_dtype: ir.DataType
) -> ir.Value:
    """Return classes drawn by the logarithms of their weights."""
    count = shape_values.integer(num_samples, "num_samples")
    drawn = g.Multinomial(cast(g, logits, ir.DataType.FLOAT), sample_size=count, dtype=ir.DataType.INT32)
    return cast(g, g.facts(drawn, ir.DataType.INT32, [g.shape(logits)[0], count]), output_dtype)


def _zeros_of_shape(g: Graph, shape: ir.Value, dtype: ir.DataType) -> ir.Value:
    zeros = g.Expand(g.const(0.0, dtype), int64(g, shape))
    content = shape_values.content(shape)
    return zeros if content is None else g.facts(zeros, shape=content.tolist())
