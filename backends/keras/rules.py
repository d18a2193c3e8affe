"""The table of the Keras backend: which ONNX operator becomes which layers and operations of Keras.

Inputs are Keras's tensors or constants; `k` (`emitter.py`) answers questions about them.

>>> import numpy as np
>>> from convert.backends.keras import onnx_op
>>> @onnx_op("mine::Cube")
... def cube(k, x, *, scale=1.0):
...     return scale * x * x * x
>>> float(onnx_op.apply(None, "mine::Cube", [np.float32(2)], {"scale": 0.5}))
4.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import onnx_ir as ir

from convert.graph.metadata import CHANNELS_LAST
from convert.rules import Argument, Rule, Schema, onnx_schemas
from convert.rules.node_rules import NodeRules

OWN = "convert.keras"
"""The domain of operators that `legalize` creates:

- Dense (x [..., I], weight [I, O], bias [O]), from MatMul and Add
- Expand and ConstantOfShape with their shape as the attribute `dims` (numbers and names of dims)
- MultiHeadAttention (`passes/fuse_attention.py`)
"""

DENSE = f"{OWN}::Dense"
HEADS = f"{OWN}::MultiHeadAttention"


def schema(operator: str) -> Schema | None:
    """Return the schema for a key of the table, as `convert.rules.onnx_schemas.schema` does."""
    if operator == DENSE:
        return Schema((Argument("x"), Argument("w"), Argument("b")))
    if operator == HEADS:
        names = ("query", "key", "value", *(f"{part}_{w}" for part in ("q", "k", "v", "o") for w in ("kernel", "bias")))
        return Schema(tuple(Argument(name, None) for name in names), (Argument("is_causal", 0),))
    return onnx_schemas.schema(operator.removeprefix(f"{CHANNELS_LAST}::"))


onnx_op = NodeRules("Keras", schema=schema, runs_framework=True)


def key_of(node: ir.Node) -> str:
    """Return the key of a node in the table. A node that the layout pass moved has the key of ONNX's operator if there
    is no channels-last rule.
    """
    key = onnx_schemas.operator_of(node)
    return key if key in onnx_op else key.removeprefix(f"{CHANNELS_LAST}::")


def channels_last(*operators: str, data: Sequence[int] = (0,)) -> Callable[[Rule], Rule]:
    """Register a rule whose `data` inputs and first output are channels-last.

    The layout pass moves some nodes to channels-last; the rule serves those directly, and the other nodes between
    transposes.
    """

    def register(rule: Rule) -> Rule:
        @wraps(rule)
        def channels_first(k: Any, *inputs: Any, **attributes: Any) -> Any:
            moved = [k.channels_last(x) if i in data and x is not None else x for i, x in enumerate(inputs)]
            return k.channels_first(rule(k, *moved, **attributes))

        onnx_op(*(f"{CHANNELS_LAST}::{operator}" for operator in operators))(rule)
        onnx_op(*operators)(channels_first)
        return rule

    return register
