"""The gamma function and related ones (lgamma, digamma, polygamma, zeta) in float64, and inverse error functions."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics import gamma, inverses

from ..common.values import cast, cast_to_floating, constant_like, promote_operands
from ..rules import torch_op
from .bessel import compute_in_double

torch_op.same(
    compute_in_double,
    lgamma=gamma.lgamma,
    special_gammaln=gamma.lgamma,
    digamma=gamma.digamma,
    special_digamma=gamma.digamma,
    special_psi=gamma.digamma,
    special_ndtri=inverses.ndtri,
)


@torch_op("polygamma", "special_polygamma")
def polygamma(g, n, x):
    """(-1)^(n + 1) n! zeta(n + 1, x) for n of 2 and more."""
    if isinstance(n, ir.Value):
        raise Unsupported("polygamma of an order that is computed at run time")
    if n < 2:
        return compute_in_double((gamma.digamma, gamma.trigamma)[n])(g, x)
    factor = math.factorial(n) * (-1) ** (n + 1)

    def function(g: Graph, x: ir.Value) -> ir.Value:
        return g.Mul(gamma.zeta(g, constant_like(g, n + 1.0, x), x), constant_like(g, float(factor), x))

    return compute_in_double(function)(g, x)


@torch_op("special_zeta")
def zeta(g, x, q):
    a, b = (cast_to_floating(g, v) for v in promote_operands(g, x, q))
    wide = [cast(g, v, ir.DataType.DOUBLE) for v in (a, b)]
    return cast(g, gamma.zeta(g, *wide), g.dtype(a))


@torch_op("erfinv", "special_erfinv")
def erfinv(g, x):
    return inverses.erfinv(g, cast_to_floating(g, x))
