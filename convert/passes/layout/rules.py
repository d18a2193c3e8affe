"""The rules of the layout pass: which sides of a node may be moved, and what changes in the node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from convert.graph.values import constant, constant_integers, dims, input_at, int64s, is_used, rank
from convert.passes.layout.model import LayoutForm, Move, Rule, Side, free_sides, moved_axes, side_without_axes


def form_of(node: ir.Node, move: Move, table: Mapping[str, Rule]) -> LayoutForm:
    """Return the form of a node by `table`.

    All sides are as is if the table, the rule or an unknown fact does not allow more.
    """
    fixed = LayoutForm(
        tuple(Side.ANY if x is None else Side.AS_IS for x in node.inputs), (Side.AS_IS,) * len(node.outputs)
    )
    tensors = (*node.inputs, *node.outputs)
    if node.domain or node.op_type not in table or all((rank(x) or 0) < 3 for x in tensors):
        return fixed
    form = table[node.op_type](node, move)
    if form is None:
        return fixed
    for value, side in zip(tensors, (*form.inputs, *form.outputs), strict=True):
        if side in (Side.FREE, Side.MOVED) and (rank(value) or 0) < 3:
            return fixed
    return form


def elementwise(node: ir.Node, move: Move) -> LayoutForm | None:
    """Form of operators whose output elements depend only on the input elements at the same position, with
    broadcasting.
    """
    full = rank(node.outputs[0])
    inputs = []
    for x in node.inputs:
        own = rank(x)
        if x is None:
            inputs.append(Side.ANY)
        elif own is None:
            return None
        elif all(d == 1 for d in dims(x)):
            inputs.append(Side.ANY)
        else:
            inputs.append(Side.FREE if own == full else Side.BROADCAST)
    more = (Side.FREE if is_used(x) else Side.ANY for x in node.outputs[1:])
    return LayoutForm(tuple(inputs), (Side.FREE, *more))


def cast_like(node: ir.Node, move: Move) -> LayoutForm | None:
    """CastLike, whose second input only provides a dtype."""
    return LayoutForm((Side.FREE, Side.ANY), (Side.FREE,))


def axis_rule(*free: int, axis: int | None = None) -> Rule:
    """Return a rule for operators along attribute `axis`, with this default.

    The axis refers to the inputs at positions `free`, or to all inputs if none are given.
    """

    def rule(node: ir.Node, move: Move) -> LayoutForm | None:
        full = rank(node.outputs[0])
        old = node.attributes.get_int("axis", axis)
        if full is None or old is None:
            return None
        changed = ir.AttrInt64("axis", moved_axes([old], move(full))[0])
        inputs = free_sides(node, *(free or range(len(node.inputs))))
        return LayoutForm(inputs, (Side.FREE,) * len(node.outputs), (changed,))

    return rule


def quantize(node: ir.Node, move: Move) -> LayoutForm | None:
    """QuantizeLinear and DequantizeLinear with one scale, or one for each index along `axis`."""
    scale = rank(node.inputs[1])
    return axis_rule(0, axis=1)(node, move) if scale in (0, 1) else None


def dynamic_quantize(node: ir.Node, move: Move) -> LayoutForm | None:
    """DynamicQuantizeLinear: one scale and one zero point for the tensor."""
    return LayoutForm((Side.FREE,), (Side.FREE, Side.AS_IS, Side.AS_IS))


def reduction(node: ir.Node, move: Move) -> LayoutForm | None:
    """Reductions whose axes are a constant input, or absent."""
    full, given = rank(node.inputs[0]), input_at(node, 1)
    axes = [] if given is None else constant_integers(given)
    if full is None or axes is None:
        return None
    reduced = [a % full for a in axes]
    if not axes and not node.attributes.get_int("noop_with_empty_axes", 0):
        reduced = list(range(full))
    keep = node.attributes.get_int("keepdims", 1) or not reduced
    out = Side.FREE if keep else side_without_axes(full, reduced, move)
    constants = {1: int64s(moved_axes(axes, move(full)))} if axes else {}
    return None if out is None else LayoutForm(free_sides(node, 0), (out,), constants=constants)


def pick_along_axis(node: ir.Node, move: Move) -> LayoutForm | None:
    """ArgMax, ArgMin, and Gather with a scalar or a list: one axis changes its length or disappears."""
    full = rank(node.inputs[0])
    keep = rank(node.inputs[1]) if node.op_type == "Gather" else node.attributes.get_int("keepdims", 1)
    if full is None or keep not in (0, 1):
        return None
    axis = node.attributes.get_int("axis", 0) % full
    out = Side.FREE if keep else side_without_axes(full, [axis], move)
    changed = ir.AttrInt64("axis", moved_axes([axis], move(full))[0])
    return None if out is None else LayoutForm(free_sides(node, 0), (out,), (changed,))


def pad(node: ir.Node, move: Move) -> LayoutForm | None:
    """Pad with constant axes. Without axes: constant pads, or pads known only at run time, to which axes are added."""
    full = rank(node.inputs[0])
    if full is None:
        return None
    axes, pads = input_at(node, 3), constant_integers(node.inputs[1])
    if axes is None and pads is not None:
        both = int64s(pads).reshape(2, full)[:, list(move(full))]
        return LayoutForm(free_sides(node, 0), (Side.FREE,), constants={1: both.ravel()})
    numbers = list(range(full)) if axes is None else constant_integers(axes)
    if numbers is None:
        return None
    return LayoutForm(free_sides(node, 0), (Side.FREE,), constants={3: int64s(moved_axes(numbers, move(full)))})


def slices(node: ir.Node, move: Move) -> LayoutForm | None:
    """Slice with constant axes; without axes, with a known number of starts."""
    full, axes, starts = rank(node.inputs[0]), input_at(node, 3), node.inputs[1]
    if full is None or starts is None:
        return None
    numbers = constant_integers(axes)
    if axes is None and starts.shape is not None and isinstance(starts.shape[0], int):
        numbers = list(range(starts.shape[0]))
    if numbers is None:
        return None
    # The schema requires axes and starts to have the same dtype.
    index = np.int32 if starts.dtype == ir.DataType.INT32 else np.int64
    moved = np.array(moved_axes(numbers, move(full)), dtype=index)
    return LayoutForm(free_sides(node, 0), (Side.FREE,), constants={3: moved})


def tile(node: ir.Node, move: Move) -> LayoutForm | None:
    """Tile with constant repeats."""
    repeats, full = constant_integers(node.inputs[1]), rank(node.inputs[0])
    if repeats is None or full is None:
        return None
    return LayoutForm(free_sides(node, 0), (Side.FREE,), constants={1: int64s(repeats[a] for a in move(full))})


def expand(node: ir.Node, move: Move) -> LayoutForm | None:
    """Expand to a constant shape; the shape or the input may have a lower rank than the output."""
    target, full, own = constant_integers(node.inputs[1]), rank(node.outputs[0]), rank(node.inputs[0])
    if target is None or full is None or own is None:
        return None
    padded = [1] * (full - len(target)) + target
    first = Side.FREE if own == full else Side.BROADCAST
    return LayoutForm((first, Side.AS_IS), (Side.FREE,), constants={1: int64s(padded[a] for a in move(full))})


def cumsum(node: ir.Node, move: Move) -> LayoutForm | None:
    """CumSum along a constant axis."""
    axis, full = constant(node.inputs[1]), rank(node.inputs[0])
    if axis is None or full is None:
        return None
    old = axis.numpy()
    moved = np.array(moved_axes([int(old.ravel()[0])], move(full)), dtype=old.dtype)
    return LayoutForm(free_sides(node, 0), (Side.FREE,), constants={1: moved.reshape(old.shape)})


def mean_variance(node: ir.Node, move: Move) -> LayoutForm | None:
    """MeanVarianceNormalization over its attribute `axes`."""
    full = rank(node.inputs[0])
    if full is None:
        return None
    axes = moved_axes(node.attributes.get_ints("axes", (0, 2, 3)), move(full))
    return LayoutForm((Side.FREE,), (Side.FREE,), (ir.AttrInt64s("axes", sorted(axes)),))


def trailing_norm(node: ir.Node, move: Move) -> LayoutForm | None:
    """LayerNormalization and RMSNormalization over the dims from `axis` on, if these stay last when moved.

    Scale and bias must be constants with the shape of these dims.
    """
    full = rank(node.outputs[0])
    if full is None:
        return None
    axis = node.attributes.get_int("axis", -1) % full
    tail = [a - axis for a in move(full)[axis:]]
    if min(tail) < 0 or any(is_used(x) for x in node.outputs[1:]):
        return None
    constants = {}
    for i, x in enumerate(node.inputs[1:], start=1):
        tensor = constant(x)
        if x is not None and (tensor is None or len(tensor.shape) != len(tail)):
            return None
        if tensor is not None:
            constants[i] = np.transpose(tensor.numpy(), tail)
    outputs = (Side.FREE,) + (Side.AS_IS,) * (len(node.outputs) - 1)
    return LayoutForm(free_sides(node, 0), outputs, constants=constants)
