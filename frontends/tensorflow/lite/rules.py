"""The table of TensorFlow Lite's operators, `@tflite_op("CONV_2D")`, and what their rules share with TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.rules import Rules

from .. import ops  # noqa: F401  (fills the table of TensorFlow's rules)
from ..graph.attributes import DTYPES, decode
from ..rules import tf_op
from ..walker import GraphWalker
from .file import NUMBERS

tflite_op = Rules("TensorFlow Lite")
"""Rules are `rule(g, *inputs, **options)`, with options named as in schema.fbs, in snake case. They get quantized
tensors as real numbers, and the walker quantizes their results, except for the operators in `AS_STORED`.
"""

AS_STORED: set[str] = set()
"""Operators that only move elements, so that integers stay integers."""

_WALKER = GraphWalker(tf_op, {}, lambda name, shared: None)


def emit_tf(g: Graph, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any] | None = None) -> Any:
    """Apply the rule of TensorFlow's `operator`; return a value or a list of values. Inputs may be lists."""
    flat = [v for i in inputs for v in (i if isinstance(i, (list, tuple)) else [i])]
    found = _WALKER.apply(g, operator, flat, dict(attributes or {}), g.location)
    return found[0] if len(found) == 1 else found


def apply_node(g: Graph, node: Any, inputs: Sequence[Any]) -> list[Any]:
    """Apply the rule of a NodeDef, whose inputs are those of the operator that holds it, and return its results."""
    given = [_require_input(v) for v in inputs]
    public = {name: value for name, value in node.attr.items() if not name.startswith("_")}
    decoded = {name: decode(value, memoryview(b""), _no_function) for name, value in public.items()}
    return _WALKER.apply(g, node.op, given, decoded, g.location)


def _no_function(proto: Any) -> Any:
    raise Unsupported(f"the function {proto.name!r}, which a TensorFlow Lite file does not hold")


def tf_rule(operator: str) -> Callable[..., Any]:
    """Return the rule of an operator that is TensorFlow's, without attributes."""
    return lambda g, *inputs: emit_tf(g, operator, [_require_input(v) for v in inputs])


def _require_input(value: Any) -> Any:
    if value is None:
        raise Unsupported("an input is left out")
    return value


def dtype_of(number: int) -> ir.DataType:
    """Return the ONNX dtype for an option with one of TensorFlow Lite's dtype numbers."""
    found = DTYPES.get(NUMBERS.get(number, 0))
    if found is None:
        raise Unsupported(f"the dtype {number} is no dtype of tensors")
    return found


def padding_name(number: int) -> str:
    """Return `SAME` or `VALID` (schema.fbs, enum Padding)."""
    return ("SAME", "VALID")[number]


def fused_activation(g: Graph, x: ir.Value, number: int) -> ir.Value:
    """Apply a fused activation to `x` (schema.fbs, enum ActivationFunctionType)."""
    if number == 0:
        return x
    if number not in _ACTIVATIONS:
        raise Unsupported(f"the fused activation function {number}")
    return _ACTIVATIONS[number](g, x)


def activation_behind(g: Graph, x: ir.Value, number: int, operator: str) -> ir.Value:
    """Apply a fused activation after a non-recurrent operator; LiteRT's kernels support only the clipping ones.

    They ignore a Tanh, or reject it, so such a file has no defined meaning.
    """
    if number == _TANH or (number and operator in ("CONCATENATION", "L2_NORMALIZATION")):
        raise Unsupported(f"the fused activation function {number}, which LiteRT's kernels leave out or refuse")
    return fused_activation(g, x, number)


_TANH = 4
_ACTIVATIONS: dict[int, Callable[[Graph, ir.Value], ir.Value]] = {
    1: lambda g, x: g.Relu(x),
    2: lambda g, x: g.Clip(x, -1.0, 1.0),
    3: lambda g, x: g.Clip(x, 0.0, 6.0),
    _TANH: lambda g, x: g.Tanh(x),
}
