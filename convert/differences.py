"""What runtimes compute otherwise at the edge of numbers (NaN, infinities, denormals, limits of integers), declared.

A frontend or backend lists such operators of the shared graph in `DIFFERENCES`. `convert ops` shows them, the report of
a model that has one of them has a note, and a difference that only the special inputs of a verification show is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class Difference:
    """What a runtime makes of special values in some operators of the shared graph, other than these would have it."""

    operators: tuple[str, ...]
    reason: str
    integers: bool | None = None
    """Whether it concerns integers (of the first input) or, False, floats; None for both."""
    rank: int | None = None
    """The rank of the first input that it concerns; None for all."""
    excuses: bool = True
    """Whether a verdict takes a difference behind such an operator for this one. What it recognizes by itself needs no
    excuse: numbers in place of NaN where all else is right, denormals that count as 0."""

    empty: bool = False
    """Whether it concerns inputs without elements only: first inputs with a dim that is not fixed, or is 0."""

    def of(self, node: ir.Node) -> bool:
        """Whether it concerns this node."""
        if node.op_type not in self.operators:
            return False
        first = node.inputs[0] if node.inputs else None
        dtype, shape = (None, None) if first is None else (first.dtype, first.shape)
        if self.rank is not None and shape is not None and len(shape) != self.rank:
            return False
        if self.empty and shape is not None and all(isinstance(dim, int) and dim for dim in shape):
            return False
        return self.integers is None or dtype is None or dtype.is_floating_point() != self.integers


def differences_in(model: ir.Model, declared: Sequence[Difference]) -> list[tuple[Difference, list[str]]]:
    """Those that concern nodes of `model`, each with the operators."""
    names: dict[int, set[str]] = {}
    for node in model.graph.all_nodes():
        for i, difference in enumerate(declared):
            if difference.of(node):
                names.setdefault(i, set()).add(node.op_type)
    return [(declared[i], sorted(found)) for i, found in sorted(names.items())]


def difference_notes(model: ir.Model, declared: Sequence[Difference]) -> list[str]:
    """A sentence for each that concerns `model`."""
    found = differences_in(model, declared)
    return [f"special values: {', '.join(names)}: {difference.reason}" for difference, names in found]


def reasons_by_operator(declared: Iterable[Difference]) -> Mapping[str, str]:
    """For `convert ops`: what differs, by operator."""
    found: dict[str, list[str]] = {}
    for difference in declared:
        for operator in difference.operators:
            found.setdefault(operator, []).append(difference.reason)
    return {operator: "; ".join(reasons) for operator, reasons in found.items()}
