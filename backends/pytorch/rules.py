"""The table of the PyTorch backend: which ONNX operator becomes which PyTorch computation.

Inputs are tensors, as PyTorch sees them while it captures; `t` (`emit.py`) has what a rule may ask of them. A rule that
wants an input as it is known, numbers that are sizes or constants among them, names it: `@host("shape")`.

>>> import torch
>>> from convert.backends.pytorch import onnx_op
>>> @onnx_op("mine::Cube")
... def cube(t, x, *, scale=1.0):
...     return scale * x * x * x
>>> float(onnx_op.apply(None, "mine::Cube", [torch.tensor(2.0)], {"scale": 0.5}))
4.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convert.rules import Rule, Schema, onnx_schemas
from convert.rules.node_rules import NodeRules
from convert.rules.onnx_schemas import operator_of

__all__ = ["LINEAR", "OWN", "host", "host_inputs", "onnx_op", "operator_of", "schema"]

OWN = "convert.pytorch"
"""The domain of what `legalize` makes of ONNX's operators."""

LINEAR = f"{OWN}::Linear"
"""x [..., I], weight [O, I], bias [O] or absent: of MatMul by a constant matrix, and Add (`passes/fuse_linear.py`)."""


def schema(operator: str) -> Schema | None:
    """How a key of the table is called; see `convert.rules.onnx_schemas.schema`."""
    return onnx_schemas.schema(operator)


onnx_op = NodeRules("PyTorch", schema=schema, runs_framework=True)


def host(*names: str) -> Callable[[Rule], Rule]:
    """Give a rule these inputs as they are known (`values.py`) instead of as tensors; "*" is all that follow."""

    def mark(rule: Rule) -> Rule:
        rule.host_inputs = frozenset(names)  # type: ignore[attr-defined]
        return rule

    return mark


def host_inputs(rule: Any) -> frozenset[str]:
    """The inputs that `host` names."""
    return getattr(rule, "host_inputs", frozenset())
