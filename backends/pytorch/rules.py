"""The table of the PyTorch backend: which ONNX operator becomes which PyTorch computation.

Inputs are tensors, as PyTorch sees them during capture; `t` (`emit.py`) answers questions about them. A rule that needs
an input as a host value, with numbers that are sizes or constants, names it: `@host("shape")`.

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
"""The domain of operators that `legalize` makes from ONNX's operators."""

LINEAR = f"{OWN}::Linear"
"""x [..., I], weight [O, I], bias [O] or absent: MatMul by a constant matrix, and Add (`passes/fuse_linear.py`)."""


def schema(operator: str) -> Schema | None:
    """Return the schema for a key of the table, as `convert.rules.onnx_schemas.schema` does."""
    return onnx_schemas.schema(operator)


onnx_op = NodeRules("PyTorch", schema=schema, runs_framework=True)


def host(*names: str) -> Callable[[Rule], Rule]:
    """Pass these inputs to a rule as host values (`values.py`) instead of tensors; "*" means all further inputs."""

    def mark(rule: Rule) -> Rule:
        rule.host_inputs = frozenset(names)  # type: ignore[attr-defined]
        return rule

    return mark


def host_inputs(rule: Any) -> frozenset[str]:
    """Return the inputs that `host` names."""
    return getattr(rule, "host_inputs", frozenset())
