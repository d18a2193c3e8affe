"""Declared differences of runtimes for special values (NaN, infinities, denormals, integer limits).

A frontend or backend lists them, by operator of the shared graph, in `DIFFERENCES`. `convert ops` shows them. The
report of a model with such an operator gets a note, and so does a difference that only the special inputs of a
verification reveal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.notes import Note


@dataclass(frozen=True)
class Difference:
    """How a runtime's result for special values differs from that of some operators of the shared graph."""

    operators: tuple[str, ...]
    """Operators of the shared graph; () for everything that `sources` are read as."""
    reason: str
    integers: bool | None = None
    """True: concerns integers (of the first input); False: floats; None: both."""
    rank: int | None = None
    """The rank of the first input that it concerns; None for all."""
    excuses: bool = True
    """Whether a verification attributes a difference after such an operator to this one.

    Two differences are recognized without a declaration, and need none: numbers instead of NaN where all else is right,
    and denormals treated as 0.
    """

    empty: bool = False
    """Whether it concerns only inputs without elements: first inputs with a dim that is dynamic or 0."""

    flushes: bool = False
    """Whether denormal numbers are treated as 0, so that comparisons with zero change.

    A verification feeds such a target no denormals.
    """
    reductions: tuple[str, ...] = ()
    """The values of the attribute `reduction` that it concerns; () for all."""
    activations: tuple[str, ...] = ()
    """The values in the attribute `activations` that it concerns; () for all."""
    nonfinite: bool = False
    """Whether it concerns NaN and infinities in the operator's inputs: without them, nothing is attributed to it."""
    equal: bool = False
    """Whether it is the choice between equal elements.

    Then only results that depend on their positions (all results of the operator but the first) are attributed to it,
    and only if the first input has equal elements.
    """
    within: float = 0.0
    """The largest absolute error of negative results, if it concerns ordinary numbers; 0 if only special values."""
    sources: tuple[str, ...] = ()
    """Operators of the source, without overloads, whose nodes it concerns; () for all."""

    def of(self, node: ir.Node) -> bool:
        """Return whether the difference concerns this node."""
        if self.operators and node.op_type not in self.operators:
            return False
        if self.reductions and node.attributes.get_string("reduction", "none") not in self.reductions:
            return False
        if self.activations and not set(self.activations) & set(node.attributes.get_strings("activations", [])):
            return False
        if self.sources:
            from convert.graph.metadata import OPERATOR_KEY  # imports onnx, which is slow

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
    """Return the differences that concern nodes of `model`, each with the operators."""
    names: dict[int, set[str]] = {}
    for node in model.graph.all_nodes():
        for i, difference in enumerate(declared):
            if difference.of(node):
                names.setdefault(i, set()).add(_called(node, difference))
    return [(declared[i], sorted(found)) for i, found in sorted(names.items())]


def _called(node: ir.Node, difference: Difference) -> str:
    """Return the source's name of the operator if the difference is declared for `sources`, else ONNX's."""
    from convert.graph.metadata import OPERATOR_KEY

    return node.metadata_props[OPERATOR_KEY].split(".")[0] if difference.sources else str(node.op_type)


def difference_notes(model: ir.Model, declared: Sequence[Difference]) -> list[Note]:
    """Return a note for each difference that concerns `model`."""
    from convert.outcome.notes import Note

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
    """Return the reasons by operator, for `convert ops`."""
    found: dict[str, list[str]] = {}
    for difference in declared:
        for operator in difference.sources or difference.operators:
            found.setdefault(operator, []).append(difference.reason)
    return {operator: "; ".join(reasons) for operator, reasons in found.items()}
