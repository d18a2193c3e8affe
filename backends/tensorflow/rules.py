"""The table of the TensorFlow backend: which ONNX operator becomes which TensorFlow computation.

Inputs are TensorFlow's tensors or constants; `t` (`emit.py`) answers questions about them.

>>> import numpy as np
>>> from convert.backends.tensorflow import onnx_op
>>> @onnx_op("mine::Cube")
... def cube(t, x, *, scale=1.0):
...     return scale * x * x * x
>>> float(onnx_op.apply(None, "mine::Cube", [np.float32(2)], {"scale": 0.5}))
4.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import onnx_ir as ir
from onnx.defs import OpSchema

from convert.graph.metadata import CHANNELS_LAST
from convert.rules import Rule, Schema, onnx_schemas
from convert.rules.node_rules import NodeRules
from convert.rules.onnx_schemas import operator_of

__all__ = [
    "CALIBRATED",
    "CHANNELS_LAST",
    "LITE",
    "channels_last",
    "onnx_op",
    "onnx_schema",
    "operator_of",
    "schema",
]

LITE = "convert.lite"
"""The domain of nodes without a TensorFlow Lite built-in; they have rules of their own."""

CALIBRATED = "convert.calibrated"
"""The metadata key of nodes whose ranges TensorFlow Lite's converter is going to measure on samples."""


def standard_operator(operator: str) -> str:
    """Return a key of the table without the domains of this package."""
    return operator.removeprefix(f"{CHANNELS_LAST}::").removeprefix(f"{LITE}::")


def onnx_schema(operator: str) -> OpSchema | None:
    """Return ONNX's schema for a key of the table, including channels-last nodes; None for others."""
    return onnx_schemas.onnx_schema(standard_operator(operator))


def schema(operator: str) -> Schema | None:
    """Return the schema for a key of the table, as `convert.rules.onnx_schemas.schema` does."""
    return onnx_schemas.schema(standard_operator(operator))


onnx_op = NodeRules("TensorFlow", schema=schema, runs_framework=True)


def channels_last(
    *operators: str,
    data: Sequence[int] = (0,),
    outputs: Sequence[int] = (0,),
    when: Callable[[ir.Node], bool] | None = None,
) -> Callable[[Rule], Rule]:
    """Register a rule whose `data` inputs and `outputs` are channels-last, for the nodes that `when` accepts.

    The rule serves the nodes that the layout pass has moved. It also serves nodes that the pass could not see (inside a
    subgraph, or of unknown rank), between transposes.
    """

    def register(rule: Rule) -> Rule:
        onnx_op(*(f"{CHANNELS_LAST}::{operator}" for operator in operators))(rule)
        onnx_op(*operators, when=when)(_between_transposes(rule, tuple(data), tuple(outputs)))
        return rule

    return register


_WEIGHTED = ("Conv", "ConvTranspose")
"""Operators whose data has the rank of their weights, by definition."""


def _between_transposes(rule: Rule, data: tuple[int, ...], outputs: tuple[int, ...]) -> Rule:
    @wraps(rule)
    def channels_first(t: Any, *inputs: Any, **attributes: Any) -> Any:
        if t.node.op_type in _WEIGHTED:
            inputs = (t.of_rank(inputs[0], inputs[1].shape.rank), *inputs[1:])
        moved = [t.channels_last(x) if i in data and x is not None else x for i, x in enumerate(inputs)]
        result = rule(t, *moved, **attributes)
        if not isinstance(result, tuple):
            return t.channels_first(result)
        return tuple(t.channels_first(y) if i in outputs and y is not None else y for i, y in enumerate(result))

    return channels_first
