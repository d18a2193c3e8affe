"""Bessel and Airy functions in float64, without the coefficients that PyTorch leaves out."""

from __future__ import annotations

from functools import partial, wraps

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics import bessel
from convert.numerics.series import Function

from ..common.values import cast, cast_to_floating
from ..rules import torch_op


def compute_in_double(function: Function) -> Function:
    """Return the rule of a `function` that is computed in float64 and rounded to the dtype of x."""

    @wraps(function)
    def rule(g: Graph, x: ir.Value) -> ir.Value:
        x = cast_to_floating(g, x)
        return cast(g, function(g, cast(g, x, ir.DataType.DOUBLE)), g.dtype(x))

    return rule


torch_op.same(
    compute_in_double,
    special_bessel_j0=partial(bessel.j0, monic=False),
    special_bessel_j1=partial(bessel.j1, monic=False),
    special_bessel_y0=partial(bessel.y0, monic=False),
    special_bessel_y1=partial(bessel.y1, monic=False),
    i0=bessel.i0,
    special_i0=bessel.i0,
    special_i0e=bessel.i0e,
    special_i1=bessel.i1,
    special_i1e=bessel.i1e,
    special_modified_bessel_i0=bessel.i0,
    special_modified_bessel_i1=bessel.i1,
    special_modified_bessel_k0=bessel.modified_k(0, False),
    special_modified_bessel_k1=bessel.modified_k(1, False),
    special_scaled_modified_bessel_k0=bessel.modified_k(0, True),
    special_scaled_modified_bessel_k1=bessel.modified_k(1, True),
    special_airy_ai=bessel.airy,
    special_spherical_bessel_j0=bessel.spherical_j0,
)
