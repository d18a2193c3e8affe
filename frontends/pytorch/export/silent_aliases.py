"""Calls whose result is memory of an argument although their schema does not say so, as calls that say it.

PyTorch's functionalisation goes by schemas: it would take what such a call gives for fresh memory, and a write to it
would not be seen in the argument.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ..common.einsum_views import view_labels
from ..torch_internals import OpOverload, schema_of, with_graph

_ATEN = torch.ops.aten


def without_silent_aliases(program: ExportedProgram) -> ExportedProgram:
    """The program with views, or the arguments themselves, for what `is_silent_alias` says it of.

    The rows of an unbind, which functionalisation puts together again for one size of the other dims, are each
    selected. The program itself stays as it was.
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
    """True for a call that returns an argument, or a view of it, and whose schema does not say so."""
    return node.target in _UNSAFE or _views_of(node) is not None


_UNSAFE = {
    _ATEN.unsafe_chunk.default: _ATEN.chunk.default,
    _ATEN.unsafe_split.Tensor: _ATEN.split.Tensor,
    _ATEN.unsafe_split_with_sizes.default: _ATEN.split_with_sizes.default,
}
"""Operators whose pieces are memory of the whole although their schema does not say so, with those that say it."""


def _replace(node: torch.fx.Node) -> Iterator[tuple[str, str]]:
    """Put views in the place of a call, or of what is taken out of its list; gives old and new names."""
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
    """What a call gives as views of its arguments, a list for each of several results; None where it is fresh."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    rule = _RULES.get(schema_of(node.target).name.removeprefix("aten::"))
    return None if rule is None else rule(node)


def _dropped(node: torch.fx.Node) -> View | None:
    """A dropout that does nothing."""
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
    """What `torch.atleast_3d` and its like put in front, and behind for the third."""
    rank = x.meta["val"].dim()
    before, behind = {1: 1, 2: 2, 3: 2}[least] - rank, max(0, least - max(rank, 2))
    calls = [(_ATEN.unsqueeze.default, 0)] * max(before, 0) + [(_ATEN.unsqueeze.default, -1)] * behind
    return x, calls


def _permuted(node: torch.fx.Node) -> View | None:
    """An einsum of one operand that sums nothing, with diagonals of the labels that it has twice."""
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
    """What has its shape already; PyTorch lets nobody write to the others, whose elements are one."""
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
    """Put a select in the place of each row that is taken out of the unbind `node`."""
    whole, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
    for row in list(node.users):
        row.target, row.args = _ATEN.select.int, (whole, dim, row.args[1])
    node.graph.erase_node(node)
