"""Replaces the nodes that compute a layer by the operator that ONNX has for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from convert.graph import OPSET, Graph, location_of
from convert.graph.values import is_used, known_dims, names_in_use
from convert.legalize.replacement import Replacement
from convert.patterns.expressions import Either, Expression, Number, Operator, Product, Repeated, Sum, Tensor
from convert.patterns.matcher import match

Build = Callable[[Graph, Any], ir.Value | None]


@dataclass(frozen=True)
class Pattern:
    """A layer: the expression that computes it, and `build`, which adds its operator to a graph.

    `build(g, found)` gets what each placeholder stands for as an attribute of `found` (None for a missing part), and
    returns None if the layer is not what the expression computes there, for example along other axes.
    """

    build: Build
    expression: Expression


def replace_layers(model: ir.Model, patterns: Sequence[Pattern]) -> bool:
    """Replace every value that a pattern computes by the layer; return whether anything was replaced.

    Nodes are tried once each, the last one first, so that a layer is found before its parts, and only with the patterns
    that can end in such a node and whose operators the graph has. Nodes that nothing else uses are removed.
    """
    if model.opset_imports.get("", OPSET) < OPSET:
        return False  # it has no Gelu, LayerNormalization or Attention
    nodes = list(model.graph.all_nodes())
    present = {node.op_type for node in nodes}
    by_root: dict[str, list[Pattern]] = defaultdict(list)
    for one in patterns:
        if _operators(one.expression) <= present:
            for root in _roots(one.expression):
                by_root[root].append(one)
    replacement = Replacement(model, names_in_use(model)) if by_root else None
    for node in reversed(nodes if replacement is not None else []):
        if node.graph is None or node.domain not in ("", "ai.onnx") or len(node.outputs) != 1:
            continue
        candidates = by_root.get(node.op_type, ())
        if candidates and replacement is not None and is_used(node.outputs[0]):
            any(_replace(replacement, node, one) for one in candidates)
        elif replacement is not None and replacement.changed and not is_used(node.outputs[0]):
            node.graph.remove(node, safe=True)
    return replacement is not None and replacement.changed


class Found:
    """The values of a pattern's placeholders, as attributes; None for a placeholder that the pattern lacks."""

    def __init__(self, value: ir.Value, bound: Mapping[str, Any]) -> None:
        self.value = value
        self.__dict__.update(bound)

    def __getattr__(self, name: str) -> Any:
        return None


def find(one: Pattern, value: ir.Value) -> Iterator[Found]:
    """Yield the values of the placeholders for each way in which a pattern computes `value`."""
    for bound in match(one.expression, value, {"dtype": value.dtype}):
        yield Found(value, bound)


def _replace(replacement: Replacement, node: ir.Node, one: Pattern) -> bool:
    value = node.outputs[0]
    opset = replacement.model.opset_imports.get("", OPSET)
    for found in find(one, value):

        def lower(g: Graph, found: Any = found) -> list[ir.Value] | None:
            made = one.build(g, found)
            return None if made is None or not _fits(made, value) else [made]

        built = replacement.build(lower, opset, location_of(node))
        if built is not None:
            replacement.place_graph(node, *built)
            return True
    return False


def _fits(made: ir.Value, value: ir.Value) -> bool:
    """Return whether a layer has the dtype and the dims of what it replaces, as far as these are known."""
    new, old = known_dims(made), known_dims(value)
    pairs = zip(new or (), old or (), strict=False)
    differs = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
    same_rank = new is None or old is None or len(new) == len(old)
    return same_rank and not differs and made.dtype in (None, value.dtype)


def _operators(expression: Any) -> set[str]:
    """Return operators without which an expression cannot occur."""
    if isinstance(expression, Either):
        return set.intersection(*map(_operators, expression.choices))
    if isinstance(expression, Operator):
        inner = [_operators(e) for e in expression.inputs]
        return set().union(*inner, {expression.name} - {"Sqrt"})
    if isinstance(expression, Repeated):
        return {"Expand", *_operators(expression.x)}
    parts = expression.terms if isinstance(expression, Sum) else ()
    parts = expression.factors if isinstance(expression, Product) else parts
    return set().union(*(_operators(e) for _, e in parts))


def _roots(expression: Any) -> set[str]:
    """Return the operators that an expression may end in."""
    if isinstance(expression, Either):
        return set().union(*map(_roots, expression.choices))
    if isinstance(expression, (Sum, Product)):
        own = {"Add", "Sub"} if isinstance(expression, Sum) else {"Mul", "Div", "Reciprocal"}
        parts = expression.terms if isinstance(expression, Sum) else expression.factors
        needed = [e for _, e in parts if not isinstance(e, (Tensor, Number)) or not getattr(e, "optional", True)]
        return own | (_roots(needed[0]) if len(needed) == 1 else set())
    return {expression.name}
