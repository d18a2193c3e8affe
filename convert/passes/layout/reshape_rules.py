"""Layout rules of operators that add, drop or regroup dims, or that read the shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.values import Dim, constant_integers, dims, input_at, int64s, inverse_permutation, rank
from convert.passes.layout.model import LayoutForm, Move, Side, free_sides, moved_axes, same_order, side_without_axes


def squeeze(node: ir.Node, move: Move) -> LayoutForm | None:
    """Squeeze by constant axes, or of all dims of size 1 if the shape is static."""
    full, given = rank(node.inputs[0]), input_at(node, 1)
    if full is None:
        return None
    axes = constant_integers(given)
    if given is None:
        shape = dims(node.inputs[0])  # type: ignore[arg-type]
        axes = [i for i, d in enumerate(shape) if d == 1] if all(isinstance(d, int) for d in shape) else None
    if axes is None:
        return None
    out = side_without_axes(full, [a % full for a in axes], move)
    constants = {} if given is None else {1: int64s(moved_axes(axes, move(full)))}
    return None if out is None else LayoutForm(free_sides(node, 0), (out,), constants=constants)


def unsqueeze(node: ir.Node, move: Move) -> LayoutForm | None:
    """Unsqueeze, the reverse of Squeeze: the input's layout is that of the moved output without the new axes."""
    full, axes = rank(node.outputs[0]), constant_integers(node.inputs[1])
    if full is None or axes is None:
        return None
    side = side_without_axes(full, [a % full for a in axes], move)
    constants = {1: int64s(moved_axes(axes, move(full)))}
    return None if side is None else LayoutForm((side, Side.AS_IS), (Side.FREE,), constants=constants)


def reshape(node: ir.Node, move: Move) -> LayoutForm | None:
    """Reshape within the spatial dims ([N, C, H, W] to [N, C, HW]), or if the moved dims have size 1."""
    x, y = node.inputs[0], node.outputs[0]
    before, after = rank(x), rank(y)
    if x is None or before is None or after is None or 0 in dims(x) or 0 in dims(y):
        return None
    source, target = dims(x), dims(y)
    keeps_batch = _keeps_batch(node, source, target)
    still_before = before > 2 and same_order(source, move(before))
    still_after = after > 2 and same_order(target, move(after))
    if before > 2 and after > 2 and keeps_batch and _keeps_channels(node, source, target, move):
        still_before = still_after = True
    if still_after:
        target = tuple(target[a] for a in move(after))
    elif not still_before:
        return None
    wanted = _reshape_target(target, keeps_batch)
    if wanted is None and (still_after or not _names_no_dim(node)):
        return None
    free = [Side.FREE if still else Side.AS_IS for still in (still_before, still_after)]
    attributes = () if wanted is None else (ir.AttrInt64("allowzero", 0),)
    return LayoutForm((free[0], Side.AS_IS), (free[1],), attributes, {} if wanted is None else {1: wanted})


def _names_no_dim(node: ir.Node) -> bool:
    """Return whether the constant shape has no zeros (copied dims) after its first entry."""
    wanted = constant_integers(node.inputs[1])
    return wanted is not None and 0 not in wanted[1:]


def _copies_dim(node: ir.Node, axis: int) -> bool:
    """Return whether the constant shape copies this dim from the input."""
    wanted = constant_integers(node.inputs[1])
    return wanted is not None and wanted[axis] == 0 and not node.attributes.get_int("allowzero", 0)


def _keeps_batch(node: ir.Node, source: Sequence[Dim], target: Sequence[Dim]) -> bool:
    """Return whether the first dim is known to be the same before and after."""
    if not source or not target:
        return False
    if (source[0] is not None and source[0] == target[0]) or _copies_dim(node, 0):
        return True
    rest, new = [d for d in source[1:] if isinstance(d, int)], [d for d in target[1:] if isinstance(d, int)]
    return len(rest) + 1 == len(source) and len(new) + 1 == len(target) and math.prod(rest) == math.prod(new)


def _keeps_channels(node: ir.Node, source: Sequence[Dim], target: Sequence[Dim], move: Move) -> bool:
    """Return whether the channel dim is known to be the same before and after."""
    first = move(4)[-1] == 1
    before, after = (1, 1) if first else (len(source) - 1, len(target) - 1)
    if source[before] is not None and source[before] == target[after]:
        return True
    return before == after and _copies_dim(node, after)


def _reshape_target(shape: Sequence[Dim], keeps_batch: bool) -> np.ndarray | None:
    """Return a constant shape for Reshape, with -1 for one unknown dim and 0 for a copied batch.

    Returns None if two are unknown.
    """
    wanted = [d if isinstance(d, int) else -1 for d in shape]
    if keeps_batch and wanted[:1] == [-1] and wanted.count(-1) > 1:
        wanted[0] = 0
    return int64s(wanted) if wanted.count(-1) <= 1 else None


def flatten(node: ir.Node, move: Move) -> LayoutForm | None:
    """Flatten if the moved dims have size 1, as after global pooling."""
    full = rank(node.inputs[0])
    if full is None or full < 3:
        return None
    perm, shape = move(full), dims(node.inputs[0])  # type: ignore[arg-type]
    axis = node.attributes.get_int("axis", 1)
    axis += full if axis < 0 else 0
    rows = {a for a in range(axis) if shape[a] != 1}
    if not same_order(shape, perm) or rows != {a for a in perm[:axis] if shape[a] != 1}:
        return None
    return LayoutForm((Side.FREE,), (Side.AS_IS,))


def shape(node: ir.Node, move: Move) -> LayoutForm | None:
    """Shape of a moved tensor, reordered by a Gather, which is cheaper than moving the tensor back."""
    full = rank(node.inputs[0])
    if full is None:
        return None
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", full)
    whole = (ir.AttrInt64("start", 0), ir.AttrInt64("end", full)) if len(node.attributes) else ()
    return LayoutForm((Side.FREE,), (Side.AS_IS,), whole, gather=inverse_permutation(move(full))[start:end])


def size(node: ir.Node, move: Move) -> LayoutForm | None:
    """Size: the number of elements does not depend on the layout."""
    return LayoutForm((Side.FREE,), (Side.AS_IS,))
