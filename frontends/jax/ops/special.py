"""Functions of CHLO: those that ONNX has, and others written out in ONNX's operators."""

from __future__ import annotations

import math

import numpy as np

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.values import constant
from convert.numerics import bessel, bits, gamma, incomplete, inverses

from ..regions import Region
from ..rules import elementwise_op, stablehlo_op, tensor_op
from ..types import ResultType
from ..values import Tensor, as_sizes, plain, whole
from .elementwise import like, same
from .reduce import is_counter
from .shape import int64
from .sort import sort_keys, sortable

for _name, _operator in {
    "chlo.acos": "Acos", "chlo.acosh": "Acosh", "chlo.asin": "Asin", "chlo.asinh": "Asinh", "chlo.atan": "Atan",
    "chlo.atanh": "Atanh", "chlo.cosh": "Cosh", "chlo.erf": "Erf", "chlo.sinh": "Sinh", "chlo.tan": "Tan",
}.items():  # fmt: skip
    elementwise_op(_name)(same(_operator))

for _name, _function in {
    "chlo.lgamma": gamma.lgamma, "chlo.digamma": gamma.digamma, "chlo.zeta": gamma.zeta,
    "chlo.erf_inv": inverses.erfinv, "chlo.erfc": incomplete.erfc, "chlo.bessel_i1e": bessel.i1e,
}.items():  # fmt: skip
    elementwise_op(_name)(lambda g, *x, function=_function: function(g, *x))


@elementwise_op("chlo.square")
def square(g, x):
    return g.Mul(x, x)


@elementwise_op("chlo.is_inf")
def is_inf(g, x):
    return g.IsInf(x)


@elementwise_op("chlo.is_pos_inf")
def is_pos_inf(g, x):
    return g.IsInf(x, detect_negative=0)


@elementwise_op("chlo.is_neg_inf")
def is_neg_inf(g, x):
    return g.IsInf(x, detect_positive=0)


@elementwise_op("chlo.next_after")
def next_after(g, x, y):
    return bits.next_after(g, x, y)


@elementwise_op("chlo.conj")
def conj(g, x):
    """Return x, because real numbers are their own conjugates."""
    return g.Identity(x)


@elementwise_op("chlo.polygamma")
def polygamma(g, n, x):
    """Return (-1)ⁿ⁺¹ n! ζ(n + 1, x) for a constant n, and the digamma function for n = 0."""
    order = constant(n)
    if order is None or order.size != 1:
        raise Unsupported("an order that is no single constant")
    degree = int(order.numpy().ravel()[0])
    if degree == 0:
        return gamma.digamma(g, x)
    factor = (-1) ** (degree + 1) * math.factorial(degree)
    return g.Mul(gamma.zeta(g, like(g, degree + 1.0, x), x), like(g, float(factor), x))


@stablehlo_op("@ApproxTopK")
def approximate_top_k(g, x, places, start, first_place, *, reduction_dim, top_k, is_fallback, results, regions,
                      aggregate_to_topk=True, recall_target=1.0, reduction_input_size_override=-1):  # fmt: skip
    """Return exact results, as on a CPU; equal elements may come in another order."""
    if not is_fallback or not aggregate_to_topk or not is_counter(places, reduction_dim):
        raise Unsupported("the part of an approximation for a TPU")
    x, k = plain(x), Tensor(g.const(np.array([top_k], np.int64)), (1,), sizes=as_sizes([top_k]))
    return _first(g, x, k, reduction_dim, results, largest=_largest_first(regions))


@tensor_op("@stablehlo.dynamic_top_k")
def dynamic_top_k(g, x, k, *, results):
    """Return the `k` largest elements along the last axis and their indices, for a computed `k`."""
    return _first(g, whole(g, x), k, x.rank - 1, results, largest=True)


@tensor_op("@stablehlo.dynamic_approx_top_k")
def dynamic_approximate_top_k(g, x, places, start, first_place, k, *, reduction_dim, is_fallback, results, regions,
                              aggregate_to_topk=True, recall_target=1.0, reduction_input_size_override=-1):  # fmt: skip
    """Return exact results, as `approximate_top_k` does, for a computed `k`."""
    if not is_fallback or not aggregate_to_topk or not is_counter(whole(g, places).value, reduction_dim):
        raise Unsupported("the part of an approximation for a TPU")
    return _first(g, whole(g, x), k, reduction_dim, results, largest=_largest_first(regions))


def _largest_first(regions: list[Region]) -> bool:
    """Return whether a comparator puts the largest element first. Raises `Unsupported` for other orders."""
    keys = sort_keys(regions[0]) if len(regions) == 1 else None
    if keys is None or len(keys) != 1 or keys[0][0] != (0, ""):
        raise Unsupported("an approximate order that is not that of the operand")
    return keys[0][1]


def _first(g: Graph, x: Tensor, k: Tensor, axis: int, results: list[ResultType], *, largest: bool) -> list[Tensor]:
    """Return the first `k` elements of the sorted axis, and their former indices."""
    key = sortable(g, x.value)
    count = g.Reshape(int64(g, k.value), g.const(np.array([1], np.int64)))
    values, places = g.TopK(key, count, axis=axis, largest=int(largest), sorted=1, outputs=2)
    values = values if key is x.value else g.GatherElements(x.value, places, axis=axis)
    size = None if k.sizes is None else k.sizes.item().dim
    dims = tuple(size if a == axis else d for a, d in enumerate(x.dims))
    made = (values, g.Cast(places, to=results[1].dtype))
    return [Tensor(g.facts(v, t.dtype, dims), dims) for v, t in zip(made, results, strict=True)]


@stablehlo_op("chlo.top_k")
def top_k(g, x, *, k, results, largest=True, sorted=True, is_stable=True):
    """Return the k largest elements and their indices.

    Among equal elements the first comes first, as in ONNX. So `is_stable`, which JAX 0.12 writes, changes nothing.
    """
    key = sortable(g, x)
    values, places = g.TopK(key, [k], axis=-1, largest=int(largest), sorted=1, outputs=2)
    values = values if key is x else g.GatherElements(x, places, axis=-1)
    return [values, g.Cast(places, to=results[1].dtype)]
