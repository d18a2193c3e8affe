"""What runtimes compute otherwise at the edge of numbers (NaN, infinities, denormals, limits of integers), declared.

A frontend or backend lists such operators of the shared graph in `DIFFERENCES`. `convert ops` shows them, the report of
a model that has one of them has a note, and a difference that only the special inputs of a verification show is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convert.notes import Note

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class Difference:
    """What a runtime makes of special values in some operators of the shared graph, other than these would have it."""

    operators: tuple[str, ...]
    """Of the shared graph; () for whatever `sources` are read as."""
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

    flushes: bool = False
    """Whether it is that denormal numbers count as 0: what compares them, or asks for zeros, decides otherwise then. A
    verification gives such a target none."""
    reductions: tuple[str, ...] = ()
    """The values of the attribute `reduction` that it concerns; () for all."""
    activations: tuple[str, ...] = ()
    """What the attribute `activations` has one of; () for all."""
    nonfinite: bool = False
    """Whether it is about NaN and infinities that reach the operator: where none do, it is no excuse."""
    equal: bool = False
    """Whether it is which of equal elements comes first: no excuse but for what depends on their places (all results of
    the operator behind the first), and where the first input has such elements."""
    within: float = 0.0
    """The largest absolute error of negative results, where it is about ordinary numbers; 0 for special values only."""
    sources: tuple[str, ...] = ()
    """The source's operators, without their overloads, whose nodes it concerns; () for all."""

    def of(self, node: ir.Node) -> bool:
        """Whether it concerns this node."""
        if self.operators and node.op_type not in self.operators:
            return False
        if self.reductions and node.attributes.get_string("reduction", "none") not in self.reductions:
            return False
        if self.activations and not set(self.activations) & set(node.attributes.get_strings("activations", [])):
            return False
        if self.sources:
            from convert.graph.metadata import OPERATOR_KEY  # costs an import of onnx

            if node.metadata_props.get(OPERATOR_KEY, "").split(".")[0] not in self.sources:
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
                names.setdefault(i, set()).add(_called(node, difference))
    return [(declared[i], sorted(found)) for i, found in sorted(names.items())]


def _called(node: ir.Node, difference: Difference) -> str:
    """As the source calls the operator where that is what the difference is about."""
    from convert.graph.metadata import OPERATOR_KEY

    return node.metadata_props[OPERATOR_KEY].split(".")[0] if difference.sources else str(node.op_type)


def difference_notes(model: ir.Model, declared: Sequence[Difference]) -> list[Note]:
    """Return a note for each difference that concerns `model`."""
    notes = []
    for difference, names in differences_in(model, declared):
        text = f"{', '.join(names)}: {difference.reason}"
        notes.append(
            Note(text, code="kernel-numbers", operators=names)
            if difference.within
            else Note(f"special values: {text}", code="special-values", operators=names)
        )
    return notes


def reasons_by_operator(declared: Iterable[Difference]) -> Mapping[str, str]:
    """For `convert ops`: what differs, by operator."""
    found: dict[str, list[str]] = {}
    for difference in declared:
        for operator in difference.sources or difference.operators:
            found.setdefault(operator, []).append(difference.reason)
    return {operator: "; ".join(reasons) for operator, reasons in found.items()}
