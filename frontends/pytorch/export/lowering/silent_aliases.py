"""Rewrites calls whose result aliases an argument although their schema does not say so.

PyTorch's functionalization relies on schemas: it would treat such a result as fresh memory, and miss writes through it
to the argument.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ...common.einsum_views import view_labels
from ...torch_internals import OpOverload, schema_of, with_graph

_ATEN = torch.ops.aten


def without_silent_aliases(program: ExportedProgram) -> ExportedProgram:
    """Return the program with explicit views, or the arguments themselves, for calls that `is_silent_alias` accepts.

    Rows of an unbind become selects, because functionalization reassembles them for one size of the other dims. The
    given program is not changed.
    """
    if not any(is_silent_alias(n) or _is_unbind(n) for n in program.graph.nodes):
        return program
    module, signature = copy.deepcopy(program.graph_module), copy.deepcopy(program.graph_signature)
    for node in list(module.graph.nodes):
        if _is_unbind(node):
            _select_rows(node)
        elif node.target in _UNSAFE:
            node.target = _UNSAFE[node.target]
        elif is_silent_alias(node):
            for old, new in _replace(node):
                signature.replace_all_uses(old, new)
    return with_graph(program, module, signature)


def is_silent_alias(node: torch.fx.Node) -> bool:
    """Return whether a call returns an argument, or a view of it, without its schema saying so."""
    return node.target in _UNSAFE or _views_of(node) is not None


_UNSAFE = {
    _ATEN.unsafe_chunk.default: _ATEN.chunk.default,
    _ATEN.unsafe_split.Tensor: _ATEN.split.Tensor,
    _ATEN.unsafe_split_with_sizes.default: _ATEN.split_with_sizes.default,
}
"""Operators whose results alias the whole without their schema saying so, with equivalents that say it."""


def _replace(node: torch.fx.Node) -> Iterator[tuple[str, str]]:
    """Replace a call, or the items taken from its list, by views; yield old and new names."""
    views: Any = _views_of(node)
    places = [(node, views)] if isinstance(views, tuple) else [
        (item, views[_index(item)]) for item in list(node.users) if item.target is operator.getitem
    ]  # fmt: skip
    for place, view in places:
        if view is not None:
            with node.graph.inserting_before(place):
                made = _applied(place, *view)
            place.replace_all_uses_with(made)
            node.graph.erase_node(place)
            yield place.name, made.name
    if isinstance(views, list) and not node.users:
        node.graph.erase_node(node)


def _index(item: torch.fx.Node) -> Any:
    return item.args[1]


View = tuple[torch.fx.Node, list[tuple[Any, ...]]]
"""An argument, and the calls that make the view of it: operator and further arguments."""


def _applied(node: torch.fx.Node, x: torch.fx.Node, calls: Sequence[tuple[Any, ...]]) -> torch.fx.Node:
    for target, *rest in calls:
        made = node.graph.call_function(target, (x, *rest))
        made.meta = {**node.meta, "val": target(x.meta["val"], *rest)}
        x = made
    return x


def _views_of(node: torch.fx.Node) -> View | list[View | None] | None:
    """Return the results of a call as views of its arguments, a list for several results; None for fresh memory."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    rule = _RULES.get(schema_of(node.target).name.removeprefix("aten::"))
    return None if rule is None else rule(node)


def _dropped(node: torch.fx.Node) -> View | None:
    """Return the view for an inactive dropout."""
    training = node.args[2] if len(node.args) > 2 else node.kwargs.get("train", False)
    return None if training else (_first(node), [])


def _first(node: torch.fx.Node) -> Any:
    return node.args[0]


def _cast(node: torch.fx.Node) -> View | None:
    x = _first(node)
    return (x, []) if x.meta["val"].dtype == node.meta["val"].dtype else None


def _with_dims(least: int) -> Callable[[torch.fx.Node], Any]:
    def rule(node: torch.fx.Node) -> Any:
        x = _first(node)
        if not isinstance(x, torch.fx.Node):
            return [_with_rank(item, least) for item in x]
        return _with_rank(x, least)

    return rule


def _with_rank(x: torch.fx.Node, least: int) -> View:
    """Return the view that `torch.atleast_3d` and similar functions create, with dims of 1 in front, or behind for the
    third.
    """
    rank = x.meta["val"].dim()
    before, behind = {1: 1, 2: 2, 3: 2}[least] - rank, max(0, least - max(rank, 2))
    calls = [(_ATEN.unsqueeze.default, 0)] * max(before, 0) + [(_ATEN.unsqueeze.default, -1)] * behind
    return x, calls


def _permuted(node: torch.fx.Node) -> View | None:
    """Return the view for an einsum of one operand that sums nothing, with diagonals for repeated labels."""
    arguments: Any = node.args
    equation, operands = arguments[:2]
    found = view_labels(equation)
    if found is None:
        return None
    labels, calls = list(found[0]), []
    for label in found[1]:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            calls.append((_ATEN.diagonal.default, 0, first, second))
            labels = [c for i, c in enumerate(labels) if i not in (first, second)] + [label]
    return operands[0], [*calls, (_ATEN.permute.default, [labels.index(c) for c in found[1]])]


def _broadcast(node: torch.fx.Node) -> list[View | None]:
    """Return views for operands that already have the broadcast shape; PyTorch forbids writes to the others."""
    shapes = [result.shape for result in node.meta["val"]]
    return [
        (x, []) if list(map(str, x.meta["val"].shape)) == list(map(str, shape)) else None
        for x, shape in zip(_first(node), shapes, strict=True)
    ]


_RULES: dict[str, Callable[[torch.fx.Node], Any]] = {
    "dropout": _dropped,
    "feature_dropout": _dropped,
    "alpha_dropout": _dropped,
    "positive": lambda node: (_first(node), []),
    "type_as": _cast,
    "atleast_1d": _with_dims(1),
    "atleast_2d": _with_dims(2),
    "atleast_3d": _with_dims(3),
    "einsum": _permuted,
    "broadcast_tensors": _broadcast,
}


def _is_unbind(node: torch.fx.Node) -> bool:
    return node.target is _ATEN.unbind.int and all(user.target is operator.getitem for user in node.users)


def _select_rows(node: torch.fx.Node) -> None:
    """Replace each row taken from the unbind `node` by a select."""
    whole, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
    for row in list(node.users):
        row.target, row.args = _ATEN.select.int, (whole, dim, row.args[1])
    node.graph.erase_node(node)
