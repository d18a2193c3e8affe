"""Functions of CHLO: those that ONNX has, and others written out in ONNX's operators."""

from __future__ import annotations

import math

from convert.errors import Unsupported
from convert.graph.values import constant
from convert.numerics import bessel, bits, gamma, incomplete, inverses

from ..rules import elementwise_op, stablehlo_op
from .elementwise import like, same
from .reduce import is_counter
from .sort import sortable

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
def approximate_top_k(g, x, places, start, first_place, *, reduction_dim, top_k, is_fallback, results,
                      aggregate_to_topk=True, recall_target=1.0, reduction_input_size_override=-1):  # fmt: skip
    """Return exact results, as on a CPU; the comparator puts the largest first, as in `approx_max_k`, and ties take the
    first.
    """
    if not is_fallback or not aggregate_to_topk or not is_counter(places, reduction_dim):
        raise Unsupported("the part of an approximation for a TPU")
    values, found = g.TopK(x, [top_k], axis=reduction_dim, largest=1, sorted=1, outputs=2)
    return [values, g.Cast(found, to=results[1].dtype)]


@stablehlo_op("chlo.top_k")
def top_k(g, x, *, k, results, largest=True, sorted=True, is_stable=True):
    """Return the k largest elements and their indices.

    Among equal elements the first comes first, as in ONNX. So `is_stable`, which JAX 0.12 writes, changes nothing.
    """
    key = sortable(g, x)
    values, places = g.TopK(key, [k], axis=-1, largest=int(largest), sorted=1, outputs=2)
    values = values if key is x else g.GatherElements(x, places, axis=-1)
    return [values, g.Cast(places, to=results[1].dtype)]
