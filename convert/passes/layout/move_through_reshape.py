"""Merges two transposes around a Reshape that splits or merges dims, as in channel shuffles and heads of detectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.values import Dim, dims, int64s, rank
from convert.passes.layout.cancel import permutation

Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Neighbouring dims before a Reshape, and the dims that hold the same elements after it."""


def join_transposes(model: ir.Model) -> bool:
    """Swap a Reshape with one of the two Transposes around it, so that the Transposes become neighbours.

    Returns whether any was swapped.

    Transpose-Reshape-Transpose becomes Reshape-Transpose if the Reshape splits dims, Transpose-Reshape if it merges
    dims. A node that changes nothing becomes an Identity, which the clean-up drops.
    """
    names, modified = ModelNames(model.graph), False
    for graph in model.graphs():
        for node in list(graph):
            if node.op_type == "Reshape" and not node.domain:
                modified |= _join_around(node, names)
    return modified


def _join_around(reshape: ir.Node, names: ModelNames) -> bool:
    first, last = _neighbors(reshape)
    if first is None or last is None:
        return False
    x, y = first.outputs[0], reshape.outputs[0]
    one, two = permutation(first), permutation(last)
    if one is None or two is None or rank(first.inputs[0]) is None or rank(x) is None or rank(y) is None:
        return False
    groups = dim_groups(dims(x), dims(y))
    if groups is None:
        return False
    if all(len(before) == 1 for before, _ in groups):
        return _split_first(first, reshape, last, groups, names)
    if all(len(after) == 1 for _, after in groups):
        return _merge_last(first, reshape, last, groups, names)
    return False


def _neighbors(reshape: ir.Node) -> tuple[ir.Node | None, ir.Node | None]:
    """Return the Transposes before and after, if the results in between have no other consumer; else two None."""
    x, y = reshape.inputs[0], reshape.outputs[0]
    first = None if x is None else x.producer()
    users = [use.node for use in y.uses()]
    if x is None or first is None or first.graph is not reshape.graph or len(x.uses()) != 1 or x.is_graph_output():
        return None, None
    if len(users) != 1 or users[0].graph is not reshape.graph or y.is_graph_output():
        return None, None
    return first, users[0]


def dim_groups(before: Sequence[Dim], after: Sequence[Dim]) -> list[Group] | None:
    """Return groups of dims that hold the same elements before and after a Reshape, in order.

    Returns None if any is unknown.
    """
    groups: list[Group] = []
    i = j = int(_same_batch(before, after))
    groups += [((0,), (0,))] * i
    while i < len(before) and j < len(after):
        start, first = i, j
        if before[i] is not None and before[i] == after[j]:
            i, j = i + 1, j + 1
        else:
            i, j = i + 1, j + 1
            while (sizes := _sizes(before[start:i], after[first:j])) is not None and sizes[0] != sizes[1]:
                i, j = (i + 1, j) if sizes[0] < sizes[1] else (i, j + 1)
                if i > len(before) or j > len(after):
                    return None
            if sizes is None:
                return None
        groups.append((tuple(range(start, i)), tuple(range(first, j))))
    return groups if i == len(before) and j == len(after) else None


def _same_batch(before: Sequence[Dim], after: Sequence[Dim]) -> bool:
    """Return whether the first dims are equal: all other dims are known and have equal products."""
    if not before or not after or isinstance(before[0], int) or isinstance(after[0], int):
        return False
    rest = _sizes(before[1:], after[1:])
    return rest is not None and rest[0] == rest[1]


def _sizes(before: Sequence[Dim], after: Sequence[Dim]) -> tuple[int, int] | None:
    """Return the numbers of elements on both sides; None unless all dims are known and positive."""
    known = [[d for d in side if isinstance(d, int) and d > 0] for side in (before, after)]
    return (math.prod(known[0]), math.prod(known[1])) if [*map(len, known)] == [len(before), len(after)] else None


def _split_first(first: ir.Node, reshape: ir.Node, last: ir.Node, groups: Sequence[Group], names: ModelNames) -> bool:
    """Split the dims of the input of `first`, then transpose once; return False if impossible."""
    one, two = permutation(first), permutation(last)
    source, y = first.inputs[0], reshape.outputs[0]
    assert one is not None
    assert two is not None
    assert source is not None
    parts = [groups[one.index(axis)][1] for axis in range(len(one))]
    order = [a for part in parts for a in part]
    if not _retarget(reshape, dims(source), [dims(y)[a] for a in order], names):
        return False
    reshape.replace_input_with(0, source)
    _set_perm(last, [order.index(a) for a in two])
    assert first.graph is not None
    first.graph.remove(first, safe=True)
    return True


def _merge_last(first: ir.Node, reshape: ir.Node, last: ir.Node, groups: Sequence[Group], names: ModelNames) -> bool:
    """Transpose once, so that the dims to merge are adjacent, then merge them; return False if impossible."""
    one, two = permutation(first), permutation(last)
    x, y = first.outputs[0], reshape.outputs[0]
    assert one is not None
    assert two is not None
    order = [a for axis in two for a in groups[axis][0]]
    before, after = dims(x), dims(y)
    if not _retarget(reshape, [before[a] for a in order], [after[a] for a in two], names):
        return False
    x.shape = ir.Shape([before[a] for a in order])
    _set_perm(first, [one[a] for a in order])
    _set_perm(last, range(len(two)))
    return True


def _retarget(reshape: ir.Node, source: Sequence[Dim], shape: Sequence[Dim], names: ModelNames) -> bool:
    """Make a Reshape of a tensor of shape `source` return `shape`.

    Returns False if more than one dim is unknown, not counting a leading dim that both shapes share.
    """
    wanted = [d if isinstance(d, int) else -1 for d in shape]
    if wanted.count(-1) > 1 and isinstance(shape[0], str) and shape[0] == source[0]:
        wanted[0] = 0  # Reshape copies the batch
    if wanted.count(-1) > 1 or 0 in shape:
        return False
    reshape.replace_input_with(1, names.array(f"{reshape.outputs[0].name}_shape", int64s(wanted)))
    reshape.attributes.pop("allowzero", None)
    reshape.outputs[0].shape = ir.Shape(list(shape))
    return True


def _set_perm(node: ir.Node, perm: Sequence[int]) -> None:
    if all(a < b for a, b in pairwise(perm)):
        node.op_type = "Identity"
        node.attributes.clear()
    else:
        node.attributes["perm"] = ir.AttrInt64s("perm", list(perm))
