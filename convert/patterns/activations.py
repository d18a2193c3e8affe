"""Patterns of activations. All are exact identities, up to rounding."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import constant, known_dims
from convert.patterns.expressions import Tensor, either, op
from convert.patterns.find import Pattern

_x = Tensor("x")
_far = 1 - op("Erf", -_x * math.sqrt(0.5))
_erfc = either(_far, op("Where", Tensor("is_near"), Tensor("near"), _far))
"""erfc(x / √2); readers of Erfc select another form where 1 − erf would lose the digits."""
_cubic = either(_x + 0.044715 * _x**3, _x * (1 + 0.044715 * _x**2))
_positive = either(op("Max", _x + 3, 0.0), op("Relu", _x + 3))
_log1p_exp = op("Log", 1 + op("Exp", _x))
_slope = Tensor("slope")


def _prelu(g: Graph, found: Any) -> ir.Value | None:
    slope, dims = known_dims(found.slope), known_dims(found.x)
    fits = slope is not None and dims is not None and len(slope) <= len(dims)
    return g.PRelu(found.x, found.slope) if fits and constant(found.slope) is not None else None


def _swish(g: Graph, found: Any) -> ir.Value | None:
    """Return Swish, unless the gate is needed besides: then a product costs less."""
    gates = [v for v in found.value.producer().inputs if v is not found.x]
    if any(len(v.uses()) != 1 or v.is_graph_output() for v in gates):
        return None
    node = ir.Node("", "Swish", [found.x], num_outputs=1)  # of opset 24, which the builder does not know
    g.graph.append(node)
    return node.outputs[0]


ACTIVATIONS = (
    Pattern(lambda g, found: g.Gelu(found.x), 0.5 * _x * either(1 + op("Erf", _x * math.sqrt(0.5)), _erfc)),
    Pattern(
        lambda g, found: g.Gelu(found.x, approximate="tanh"),
        0.5 * _x * (1 + op("Tanh", math.sqrt(2 / math.pi) * _cubic)),
    ),
    Pattern(
        lambda g, found: g.HardSwish(found.x),
        _x * either(op("Clip", _x + 3, 0.0, 6.0), op("Min", _positive, 6.0)) / 6,
    ),
    Pattern(lambda g, found: g.Mish(found.x), _x * op("Tanh", either(op("Softplus", _x), _log1p_exp))),
    # If the power overflows, the logarithm is infinite and Softplus is x.
    Pattern(lambda g, found: g.Softplus(found.x), _log1p_exp),
    Pattern(lambda g, found: g.Sigmoid(found.x), 1 / (1 + op("Exp", -_x))),
    # TensorFlow Lite writes both numbers in float32, as ONNX's defaults are.
    Pattern(
        lambda g, found: g.Selu(found.x),
        op("Where", op("Greater", _x, 0.0), 1.0507010221481323 * _x, 1.7580993175506592 * (op("Exp", _x) - 1)),
    ),
    Pattern(_prelu, op("Relu", _x) - _slope * op("Relu", -_x)),
)
SWISH = Pattern(_swish, _x * op("Sigmoid", _x))
