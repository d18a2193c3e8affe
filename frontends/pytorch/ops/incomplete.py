"""Incomplete gamma functions and tails of the error function, computed in float64."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.incomplete import erfcx, incomplete_gamma, log_ndtr

from ..common.values import cast, cast_to_floating, promote_operands
from ..rules import torch_op
from .bessel import compute_in_double


@torch_op("igamma", "special_gammainc")
def igamma(g, a, x):
    return _incomplete_gamma_in_double(g, a, x, upper=False)


@torch_op("igammac", "special_gammaincc")
def igammac(g, a, x):
    return _incomplete_gamma_in_double(g, a, x, upper=True)


def _incomplete_gamma_in_double(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    a, x = (cast_to_floating(g, v) for v in promote_operands(g, a, x))
    wide = incomplete_gamma(g, *(cast(g, v, ir.DataType.DOUBLE) for v in (a, x)), upper=upper)
    return cast(g, wide, g.dtype(a))


torch_op.same(compute_in_double, special_erfcx=erfcx, special_log_ndtr=log_ndtr)
