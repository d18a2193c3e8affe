"""Regions of operators: bodies of loops and branches, and the scalar functions of reductions and sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from jaxlib.mlir import ir as mlir

from convert.graph import Graph

from .types import ResultType, attribute_value, result_type
from .values import Tensor, join_pairs, plain, split_pairs


@dataclass(frozen=True)
class Region:
    """A block, with the values around it and the walker that lowers it."""

    lower_block: Callable[..., list[Any]]
    block: mlir.Block
    around: dict[mlir.Value, Any]

    def types(self) -> list[ResultType | None]:
        """The types of its arguments."""
        return [result_type(a.type) for a in self.block.arguments]

    def lower(self, g: Graph, arguments: Sequence[Any]) -> list[Any]:
        """Write the block to `g`, with these arguments."""
        inner = dict(zip(self.block.arguments, arguments, strict=True))
        return self.lower_block(g, self.block, {**self.around, **inner})

    def lower_parts(self, g: Graph, parts: Sequence[Any] = ()) -> list[Any]:
        """Write the block as `lower` does; its arguments and results have two parts in place of a complex tensor."""
        return split_pairs(self.lower(g, join_pairs(parts, self.types())))

    def apply(self, g: Graph, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Apply the scalar function to tensors element by element; complex tensors are given and returned as two.

        Raises `Unsupported` if it is more than a function of elements.
        """
        given = join_pairs([plain(v) for v in values], self.types())
        inner = dict(zip(self.block.arguments, given, strict=True))
        return [t.value for t in split_pairs(self.lower_block(g, self.block, {**self.around, **inner}, lifted=True))]

    def operations(self) -> list[mlir.Operation]:
        """The operators of the block, including its return."""
        return [op.operation for op in self.block.operations]

    def returned(self) -> list[mlir.Value]:
        """The values that it returns."""
        return list(self.operations()[-1].operands)

    def monoid(self) -> str:
        """Return the operator that is applied to its two arguments, e.g. `add`; "" if it does something else."""
        found = self.operations()
        if len(found) != 2 or len(self.block.arguments) != 2:
            return ""
        op, end = found
        both = {hash(v) for v in op.operands} == {hash(v) for v in self.block.arguments}
        returned = len(op.results) == 1 and len(end.operands) == 1 and op.results[0] == end.operands[0]
        return op.name.removeprefix("stablehlo.") if both and returned and len(op.operands) == 2 else ""

    def gives_argument(self, number: int) -> bool:
        """Return whether the block only returns one of its arguments."""
        found = self.operations()
        return len(found) == 1 and list(found[0].operands) == [self.block.arguments[number]]


def maker(value: mlir.Value) -> mlir.Operation | None:
    """Return the operator that computes a value; None for an argument of a block."""
    owner = value.owner
    return owner.operation if isinstance(owner, (mlir.Operation, mlir.OpView)) else None


def attribute_of(op: mlir.Operation, name: str) -> Any:
    """Return an attribute of an operator; None if it has none of that name."""
    return attribute_value(op.attributes[name]) if name in op.attributes else None


__all__ = ["Region", "Tensor", "attribute_of", "maker"]
