"""Adapters between opsets, where ONNX's version converter has none or needlessly complex ones.

An adapter is `adapter(g, node, target) -> results or None`. It builds the replacement in `g` and returns one value for
each output of `node`; None leaves the node to the next way of conversion. Lifts and lowerings build at the target
opset, expansions at the node's own (their nodes are lowered in turn).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.values import is_used
from convert.passes.opset.broadcasts import lower_extremum, lower_sum
from convert.passes.opset.compare_schemas import COUNTED_FROM_ZERO, axis_from_zero, short_mask
from convert.passes.opset.expansions import has_resize
from convert.passes.opset.old_adapters import (
    count_axis_from_zero,
    drop_neutral,
    lower_clip,
    lower_constant_to_initializer,
    lower_depth_to_space,
    lower_gemm,
    lower_pad,
    lower_slice,
    lower_top_k,
)
from convert.passes.opset.old_lifts import (
    lift_batch_norm,
    lift_clip,
    lift_dropout,
    lift_pad,
    lift_recurrent,
    lift_resize,
)
from convert.passes.opset.quantize import dequantize, lift_quantize, quantize
from convert.passes.opset.scan import lift_scan

Results = Sequence[ir.Value | None] | None
Adapter = Callable[[Graph, ir.Node, int], Results]


# -- lifting ----------------------------------------------------------------------------------------------------------


def _lift_broadcast(g: Graph, node: ir.Node, target: int) -> Results:
    """Lift Add, Mul, … from before opset 7, where the second operand is aligned with `axis` of the first, not with its
    last dim.
    """
    x, y = node.inputs
    if not node.attributes.get_int("broadcast", 0) or x is None or y is None:
        return [g.node(node.op_type, [x, y])]
    axis = node.attributes.get_int("axis", -1)
    if "axis" in node.attributes:
        axis = axis + g.rank(x) if axis < 0 else axis
        missing = g.rank(x) - axis - g.rank(y)
        if missing > 0:
            y = g.Unsqueeze(y, np.arange(g.rank(y), g.rank(y) + missing, dtype=np.int64))
    return [g.node(node.op_type, [x, y])]


def _lift_softmax(g: Graph, node: ir.Node, target: int) -> Results:
    """Lift Softmax from before opset 13, which flattens to 2-D at `axis`; today's form is equal if `axis` is the last
    one.
    """
    x = node.inputs[0]
    if x is None or x.shape is None:
        return None
    rank, axis = g.rank(x), node.attributes.get_int("axis", 1)
    if axis not in (rank - 1, -1):
        return None if node.op_type != "Hardmax" else [_hardmax_of_the_rest(g, x, axis % rank)]
    return [g.node(node.op_type, [x], {"axis": -1})]


def _hardmax_of_the_rest(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    """Return a Hardmax over all dims from `axis` on.

    ONNX's converter, which handles Softmax, would use `axis` alone.
    """
    return g.Reshape(g.Hardmax(g.Flatten(x, axis=axis), axis=-1), g.Shape(x))


def _lift_scatter(g: Graph, node: ir.Node, target: int) -> Results:
    """Scatter, which opset 11 renamed to ScatterElements."""
    return [g.node("ScatterElements", node.inputs, dict(node.attributes))]


def _lift_prelu(g: Graph, node: ir.Node, target: int) -> Results:
    """Lift PRelu from before opset 7, which has one slope or one per channel; later slopes are aligned with the last
    axis.
    """
    x, slope = node.inputs
    if node.graph is None or node.graph.opset_imports.get("", target) >= 7 or x is None or slope is None:
        return [g.PRelu(x, slope)]
    if g.rank(slope) == 1 and g.shape(slope) != (1,) and g.rank(x) > 2:
        slope = g.Unsqueeze(slope, np.arange(1, g.rank(x) - 1, dtype=np.int64))
    return [g.PRelu(x, slope)]


def _lift_upsample(g: Graph, node: ir.Node, target: int) -> Results:
    """Upsample, which opset 10 replaced by Resize; before opset 9 its scales are an attribute."""
    x, scales = [*node.inputs, None][:2]
    given = node.attributes.get_floats("scales")
    if scales is None and given is not None:
        scales = g.const(np.array(given, dtype=np.float32))
    mode = node.attributes.get_string("mode", "nearest")
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": mode}
    return [g.node("Resize", [x, None, scales], attributes)]


_BROADCASTING = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")

LIFTS: dict[str, Adapter] = {
    "Scan": lift_scan,
    "Scatter": _lift_scatter,
    "PRelu": _lift_prelu,
    "Upsample": _lift_upsample,
    "Clip": lift_clip,
    "Pad": lift_pad,
    "Resize": lift_resize,
    "Dropout": lift_dropout,
    "BatchNormalization": lift_batch_norm,
    "QuantizeLinear": lift_quantize,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), lift_recurrent),
    **dict.fromkeys(_BROADCASTING, _lift_broadcast),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _lift_softmax),
}


# -- lowering ---------------------------------------------------------------------------------------------------------


def _lower_axes(g: Graph, node: ir.Node, target: int) -> Results:
    """Squeeze, Unsqueeze and reductions: `axes` was an attribute."""
    data, axes = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    attributes = {k: a for k, a in node.attributes.items() if k != "noop_with_empty_axes"}
    given = None if axes is None else _constant(node, 1, "axes")
    if given is not None and target < 11 and data is not None and data.shape is not None:
        # Negative axes came in opset 11; those of Unsqueeze refer to its result.
        given = given % (len(data.shape) + (len(given) if node.op_type == "Unsqueeze" else 0))
    keeps = node.attributes.get_int("noop_with_empty_axes", 0) != 0
    if (given is None or not len(given)) and keeps:
        return [g.Identity(data)] if node.op_type in _PLAIN else None
    axes_list = given.tolist() if given is not None and len(given) else None
    return [g.node(node.op_type, [data], {**attributes, "axes": axes_list})]


_PLAIN = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp")


def _lower_split(g: Graph, node: ir.Node, target: int) -> Results:
    """Split: no `num_outputs` before opset 18; sizes as an attribute before opset 13."""
    data, axis = node.inputs[0], node.attributes.get_int("axis", 0)
    count = len(node.outputs)
    sizes = None
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        if target >= 13:
            return None
        sizes = _constant(node, 1, "split").tolist()
    else:
        dim = data.shape[axis] if data is not None and data.shape is not None else None
        if not isinstance(dim, int):
            raise Unsupported(f"opset {target} cannot split a dim of unknown size into {count} unequal parts")
        chunk = -(-dim // count)
        sizes = [max(0, min(chunk, dim - i * chunk)) for i in range(count)]
    given = [data, np.array(sizes, dtype=np.int64)] if target >= 13 else [data]
    axis = axis_from_zero(node, axis) if target < 11 else axis
    attributes = {"axis": axis, "split": None if target >= 13 else sizes}
    made = g.node("Split", given, attributes, outputs=count)
    return [made] if count == 1 else made


def _lower_pad(g: Graph, node: ir.Node, target: int) -> Results:
    """Pad before opset 18 has no `axes`: it pads every axis."""
    if node.attributes.get_string("mode", "constant") == "wrap":
        raise Unsupported(f"mode='wrap' is not in opset {target}")
    if target < 11:
        return lower_pad(g, node, target)
    if len(node.inputs) < 4 or node.inputs[3] is None:
        return None
    data, rank = node.inputs[0], g.rank(node.inputs[0])  # type: ignore[arg-type]
    pads, axes = _constant(node, 1, "pads"), _constant(node, 3, "axes") % rank
    full = np.zeros(2 * rank, dtype=np.int64)
    for i, axis in enumerate(axes):
        full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
    return [g.node("Pad", [data, full, node.inputs[2]], dict(node.attributes))]


def _lower_resize(g: Graph, node: ir.Node, target: int) -> Results:
    """Resize before opset 18 has sizes for every axis; before opset 13 `roi` and `scales` are required."""
    if not has_resize(node, target):
        return None
    attributes = dict(node.attributes)
    for name in ("antialias", "keep_aspect_ratio_policy"):
        attributes.pop(name, None)
    inputs = [*node.inputs, None, None, None][:4]
    axes = attributes.pop("axes", None)
    if axes is not None:
        if inputs[1] is not None and inputs[1].const_value is None:
            return None
        inputs = _full_resize(g, node, inputs, [a % g.rank(inputs[0]) for a in axes.as_ints()])  # type: ignore[arg-type]
    if target < 13:
        empty = g.const(np.zeros(0, np.float32))
        inputs = [inputs[0], inputs[1] or empty, inputs[2] or empty, inputs[3]]
    return [g.node("Resize", inputs, attributes)]


def _full_resize(g: Graph, node: ir.Node, inputs: list[ir.Value | None], axes: list[int]) -> list[ir.Value | None]:
    x, rank = inputs[0], g.rank(inputs[0])  # type: ignore[arg-type]
    order = np.array([axes.index(a) if a in axes else len(axes) + a for a in range(rank)], dtype=np.int64)
    scales, sizes, roi = inputs[2], inputs[3], None
    if inputs[1] is not None and inputs[1].const_value is not None and inputs[1].const_value.size:
        part = inputs[1].const_value.numpy()
        start, end = np.zeros(rank, part.dtype), np.ones(rank, part.dtype)
        start[axes], end[axes] = part[: len(axes)], part[len(axes) :]
        roi = g.const(np.concatenate([start, end]))
    if scales is not None:
        scales = g.Gather(g.Concat(scales, np.ones(rank, np.float32), axis=0), order, axis=0)
    if sizes is not None:
        sizes = g.Gather(g.Concat(sizes, g.dims(x), axis=0), order, axis=0)  # type: ignore[arg-type]
    return [x, roi, scales, sizes]


def _lower_softmax(g: Graph, node: ir.Node, target: int) -> Results:
    """Softmax over one axis, where the older one flattens: the axis is transposed to the end and back."""
    x = node.inputs[0]
    rank = g.rank(x)  # type: ignore[arg-type]
    axis = node.attributes.get_int("axis", -1) % max(rank, 1)
    if axis == rank - 1:
        return [g.node(node.op_type, [x], {"axis": axis})]
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return [g.Transpose(g.node(node.op_type, [g.Transpose(x, perm=perm)], {"axis": rank - 1}), perm=perm)]


def _lower_constant(g: Graph, node: ir.Node, target: int) -> Results:
    """Constant before opset 12 holds a tensor, before opset 9 only a floating-point one."""
    if target < 9:
        return lower_constant_to_initializer(g, node)
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is None:
        return None
    return [g.node("Constant", [], {"value": ir.AttrTensor("value", ir.Tensor(tensor.numpy(), dtype=tensor.dtype))})]


def _lower_cast_like(g: Graph, node: ir.Node, target: int) -> Results:
    """CastLike becomes a Cast if the dtype is known."""
    like = node.inputs[1]
    if like is None or like.dtype is None:
        return None
    return [g.Cast(node.inputs[0], to=like.dtype)]


def _lower_dropout(g: Graph, node: ir.Node, target: int) -> Results:
    """Lower Dropout in inference mode to its input. If its mask is used, other adapters handle it."""
    training = _maybe_constant(node, 2)
    if len(node.inputs) > 2 and (training is None or bool(training)):
        raise Unsupported(f"training_mode is not in opset {target}")
    if len(node.outputs) > 1 and is_used(node.outputs[1]):
        return None
    return [g.Identity(node.inputs[0]), None][: len(node.outputs)]


def _lower_grid_sample(g: Graph, node: ir.Node, target: int) -> Results:
    """GridSample before opset 20 has other names of modes, and images only."""
    if target < 16 or g.rank(node.inputs[0]) != 4:  # type: ignore[arg-type]
        return None
    attributes = dict(node.attributes)
    mode = attributes.pop("mode", None)
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode.as_string() if mode else "linear", "nearest")
    return [g.node("GridSample", node.inputs, {**attributes, "mode": name})]


def _lower_quantize(g: Graph, node: ir.Node, target: int) -> Results:
    """Quantization before opset 13 is per tensor only, and has fewer dtypes."""
    written = (quantize if node.op_type == "QuantizeLinear" else dequantize)(g, node, target)
    made = None if written is None else written[0].producer()
    if made is not None and made.op_type != node.op_type:
        return written
    node = made or node
    scale = node.inputs[1]
    if scale is None or scale.shape is None or len(scale.shape) != 0:
        raise Unsupported(f"opset {target} has no scale by axis")
    return [g.node(node.op_type, node.inputs)]


def _lower_reshape(g: Graph, node: ir.Node, target: int) -> Results:
    """Reshape before opset 14 copies a dim for each zero in `shape`; `allowzero` matters for empty tensors only.

    Empty tensors first get as many dims as the result has, all of them zero, to copy from.
    """
    x, wanted = node.inputs[0], _maybe_constant(node, 1)
    known = x is not None and x.shape is not None and x.shape.is_static()
    full = known and 0 not in x.shape.numpy()  # type: ignore[union-attr]
    if full or (wanted is not None and 0 not in wanted):
        return [g.Reshape(*node.inputs)]
    rank = len(node.outputs[0].shape) if node.outputs[0].shape is not None else None
    if rank is None:
        raise Unsupported(f"allowzero=1 is not in opset {target}")
    if rank > 1:
        flat = g.Reshape(x, np.array([-1]))
        some = g.Cast(g.Cast(g.Shape(flat), to=ir.DataType.BOOL), to=ir.DataType.INT64)
        spread = g.Reshape(flat, np.array([-1, *[1] * (rank - 1)]))
        x = g.Tile(spread, g.Concat(np.array([1]), *[some] * (rank - 1), axis=0))
    return [g.Reshape(x, node.inputs[1])]


def _lower_shape(g: Graph, node: ir.Node, target: int) -> Results:
    """Shape before opset 15 returns all dims."""
    if target < 10:
        rank = g.rank(node.inputs[0])  # type: ignore[arg-type]
        chosen = np.arange(rank)[node.attributes.get_int("start", 0) : node.attributes.get_int("end", rank)]
        return [g.Gather(g.Shape(node.inputs[0]), chosen.astype(np.int64), axis=0)]
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", 2**31 - 1)
    return [g.Slice(g.Shape(node.inputs[0]), np.array([start]), np.array([end]), np.array([0]))]


def _lower_attention(g: Graph, node: ir.Node, target: int) -> Results:
    """Attention before opset 24 needs a mask entry for every key.

    The keys beyond a shorter mask are hidden from all queries.
    """
    given = list(node.inputs)
    while given and given[-1] is None:
        given.pop()
    missing, mask = short_mask(node), [*given, *[None] * 4][3]
    if missing == 0 or mask is None or target < 23 or len(given) > 6:
        return None
    hidden = False if g.dtype(mask) == ir.DataType.BOOL else -np.inf
    amount = _missing_keys(g, node, mask) if missing is None else np.array([0, missing])
    full = g.Pad(mask, amount, g.const(hidden, g.dtype(mask)), np.array([-1]))
    made = g.node("Attention", [*given[:3], full, *given[4:]], dict(node.attributes), outputs=len(node.outputs))
    return made if isinstance(made, list) else [made]


def _missing_keys(g: Graph, node: ir.Node, mask: ir.Value) -> ir.Value:
    """Return how many entries to add before and after the last dim of a mask, as [2], computed at run time."""

    def length(x: ir.Value | None, axis: int) -> ir.Value:
        assert x is not None
        assert x.shape is not None
        place = len(x.shape) + axis
        return g.Shape(x, start=place, end=place + 1)

    keys = length(node.inputs[1], -2)
    past = [*node.inputs, *[None] * 5][4]
    keys = keys if past is None else g.Add(keys, length(past, -2))
    zero = np.array([0], np.int64)
    return g.Concat(g.const(zero), g.Max(g.Sub(keys, length(mask, -1)), zero), axis=0)


_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    "ReduceSumSquare",
)

LOWERINGS: dict[str, tuple[int, Adapter]] = {
    **dict.fromkeys(("Squeeze", "Unsqueeze", "ReduceSum"), (13, _lower_axes)),
    **dict.fromkeys(_REDUCTIONS, (18, _lower_axes)),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), (13, _lower_softmax)),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), (13, _lower_quantize)),
    "Reshape": (14, _lower_reshape),
    "Shape": (15, _lower_shape),
    "Split": (18, _lower_split),
    "Pad": (18, _lower_pad),
    "Resize": (19, _lower_resize),
    "Slice": (10, lower_slice),
    "Clip": (11, lower_clip),
    "TopK": (11, lower_top_k),
    "Gemm": (11, lower_gemm),
    "DepthToSpace": (11, lower_depth_to_space),
    "AveragePool": (19, drop_neutral),
    "MaxPool": (10, drop_neutral),
    "Constant": (12, _lower_constant),
    "CastLike": (15, _lower_cast_like),
    "Dropout": (12, _lower_dropout),
    "GridSample": (20, _lower_grid_sample),
    "Attention": (24, _lower_attention),
    **dict.fromkeys(COUNTED_FROM_ZERO - {"Split"}, (11, count_axis_from_zero)),
    **dict.fromkeys(("Max", "Min"), (8, lower_extremum)),
    **dict.fromkeys(("Sum", "Mean"), (8, lower_sum)),
}
"""For each operator: the opset that introduced its present form, and the adapter to the form before."""


def _maybe_constant(node: ir.Node, index: int) -> np.ndarray | None:
    if index >= len(node.inputs) or node.inputs[index] is None:
        return None
    tensor = ir.convenience.get_const_tensor(node.inputs[index])  # type: ignore[arg-type]
    return None if tensor is None else np.atleast_1d(tensor.numpy())


def _constant(node: ir.Node, index: int, name: str) -> np.ndarray:
    content = _maybe_constant(node, index)
    if content is None:
        raise Unsupported(f"its input {name!r} is computed, and the older opset wants it as a constant")
    return content
