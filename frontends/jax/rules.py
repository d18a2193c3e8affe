"""The operator table of the JAX frontend: `@stablehlo_op("add")` registers a rule for `stablehlo.add`.

Operators of CHLO keep their prefix (`"chlo.erf"`), whether they stand as operators or as a `composite` of that name.
A `custom_call` is called by its target (`"@lapack_spotrf_ffi"`). A rule gets its operands as values of the graph, and
attributes by name as Python's numbers, lists and arrays. It may also name, as keywords:

- `result`, `results`: the types of the first and of all results (`types.ResultType`);
- `operand_types`: the types of all operands;
- `regions`: the operator's regions (`regions.Region`);
- `sizes`: for each operand its content as sizes, where it is known (`sizes.Size`), else None.

A rule under `@elementwise_op` gets operands that may lack dims, or have 1 in them, where they are broadcast: ONNX's
operators broadcast by themselves, and no Expand is written. One under `@tensor_op` gets `values.Tensor`s, and may
return such. All other rules get whole operands.

>>> import onnx_ir as ir
>>> from convert.frontends.jax import stablehlo_op
>>> from convert.graph import Graph
>>> @stablehlo_op("mine.cube")
... def cube(g, x):
...     return g.Mul(g.Mul(x, x), x)
>>> g = Graph()
>>> x = g.input("x", ir.DataType.FLOAT, ("batch", 4))
>>> stablehlo_op.apply(g, "mine.cube", [x]).producer().op_type
'Mul'
"""

from __future__ import annotations

from collections.abc import Callable

from convert.rules import Rules, Schema
from convert.rules.table import Rule

# Attributes that choose an implementation or a device; they do not change the result on one device.
_ANY = Schema(
    implied=frozenset(
        {
            "precision_config", "result_accuracy", "indices_are_sorted", "mhlo.frontend_attributes", "mhlo.sharding",
            "sdy.sharding", "sdy.sharding_rule", "mhlo.layout_mode", "xla_shape", "_XlaHostComputeType",
        }
    )
)  # fmt: skip

stablehlo_op = Rules("StableHLO", schema=lambda operator: _ANY)

ELEMENTWISE: set[str] = set()
"""Operators whose rules take operands that ONNX broadcasts."""

ON_TENSORS: set[str] = set()
"""Operators whose rules take `values.Tensor`s."""


def elementwise_op(*operators: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule of elementwise operators, whose operands may still have to be
    broadcast.
    """
    ELEMENTWISE.update(operators)
    return stablehlo_op(*operators)


def tensor_op(*operators: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule which examines how its operands are broadcast."""
    ON_TENSORS.update(operators)
    return stablehlo_op(*operators)
