"""Adapters to the operators before opset 11: constants as attributes, fewer attributes, non-negative axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.passes.opset.broadcasts import repeated_to_one_shape
from convert.passes.opset.compare_schemas import axis_from_zero
from convert.semantics.slices import slice_of

Results = Sequence[ir.Value | None] | None


def constant_input(node: ir.Node, index: int, name: str) -> np.ndarray | None:
    """Return a constant input that the older opset has as an attribute; None if it is left out.

    Raises `Unsupported` if it is computed.
    """
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None:
        raise Unsupported(f"its input {name!r} is computed, and the older opset wants it as a constant")
    return tensor.numpy().reshape(-1)


def lower_slice(g: Graph, node: ir.Node, target: int) -> Results:
    """Slice before opset 10: constant bounds, and no steps."""
    x = node.inputs[0]
    assert x is not None
    starts, ends, axes, steps = (
        constant_input(node, i + 1, n) for i, n in enumerate(("starts", "ends", "axes", "steps"))
    )
    assert starts is not None
    assert ends is not None
    places = np.arange(len(starts)) if axes is None else axes % g.rank(x)
    if steps is not None and (steps != 1).any():
        for start, end, axis, step in zip(starts, ends, places, steps, strict=True):
            length = g.shape(x)[int(axis)]
            if not isinstance(length, int):
                raise Unsupported(f"opset {target} takes no steps along a dim of unknown size")
            chosen = np.arange(length)[slice_of(int(start), int(end), int(step), length)]
            x = g.Gather(x, chosen.astype(np.int64), axis=int(axis))
        return [x]
    attributes = {"starts": starts.tolist(), "ends": ends.tolist(), "axes": places.tolist()}
    return [g.node("Slice", [x], attributes)]


def lower_clip(g: Graph, node: ir.Node, target: int) -> Results:
    """Clip before opset 11: bounds are attributes. Computed bounds, and bounds of integers, become Max and Min."""
    x, low, high = [*node.inputs, None, None][:3]
    assert x is not None
    if g.dtype(x).is_floating_point() and all(v is None or ir.convenience.get_const_tensor(v) for v in (low, high)):
        ends = (constant_input(node, i, n) for i, n in ((1, "min"), (2, "max")))
        given = {n: float(e[0]) for n, e in zip(("min", "max"), ends, strict=True) if e is not None}
        if len(given) < 2 or given["min"] <= given["max"]:  # onnxruntime does not load crossed bounds
            return [g.node("Clip", [x], given)]
    y = x
    for operator, bound in (("Max", low), ("Min", high)):
        if bound is not None:
            y = g.node(operator, repeated_to_one_shape(g, [y, bound]) if target < 8 else [y, bound])
    return [g.Identity(y) if y is x else y]


def lower_pad(g: Graph, node: ir.Node, target: int) -> Results:
    """Pad before opset 11: amounts for every axis and the value are attributes."""
    x = node.inputs[0]
    assert x is not None
    pads, value, axes = (constant_input(node, i, n) for i, n in ((1, "pads"), (2, "constant_value"), (3, "axes")))
    assert pads is not None
    mode, rank = node.attributes.get_string("mode", "constant"), g.rank(x)
    full = np.zeros(2 * rank, np.int64)
    for i, axis in enumerate(range(rank) if axes is None else axes % rank):
        full[axis], full[rank + axis] = pads[i], pads[len(pads) // 2 + i]
    filled = 0.0 if value is None else float(value[0])
    dtype = g.dtype(x)
    wide = x if dtype.is_floating_point() else g.Cast(x, to=_floating(dtype))
    y = g.node("Pad", [wide], {"mode": mode, "pads": full.tolist(), "value": filled})
    return [y if wide is x else g.Cast(y, to=dtype)]


def _floating(dtype: ir.DataType) -> ir.DataType:
    """Return a floating-point dtype that represents all integers of another exactly."""
    if dtype.bitwidth > 32:
        raise Unsupported("the older opset pads floating numbers only")
    return ir.DataType.FLOAT if dtype.bitwidth <= 16 else ir.DataType.DOUBLE


def lower_top_k(g: Graph, node: ir.Node, target: int) -> Results:
    """TopK before opset 11: the largest, sorted; before opset 10 k is an attribute."""
    x, attributes = node.inputs[0], dict(node.attributes)
    assert x is not None
    attributes.pop("sorted", None)
    largest = attributes.pop("largest", None)
    turned = largest is not None and not largest.as_int()
    if turned and not g.dtype(x).is_floating_point():
        raise Unsupported(f"opset {target} takes the largest only")
    axis = node.attributes.get_int("axis", -1) % g.rank(x)
    inputs: list[ir.Value | None] = [g.Neg(x) if turned else x, node.inputs[1]]
    number = {}
    if target < 10:
        k = constant_input(node, 1, "K")
        assert k is not None
        inputs, number = inputs[:1], {"k": int(k[0])}
    values, places = g.node("TopK", inputs, {"axis": axis, **number}, outputs=2)
    return [g.Neg(values) if turned else values, places]


def count_axis_from_zero(g: Graph, node: ir.Node, target: int) -> Results:
    """Make the axis non-negative, as before opset 11.

    onnxruntime does not load an older Flatten with a negative axis.
    """
    given = node.attributes.get_int("axis", 0)
    axis = axis_from_zero(node, given)
    return None if axis == given else [g.node(node.op_type, node.inputs, {**node.attributes, "axis": axis})]


def drop_neutral(g: Graph, node: ir.Node, target: int) -> Results:
    """Pools without the attributes that older ones lack, if these have no effect."""
    attributes = dict(node.attributes)
    if all(n == 1 for n in node.attributes.get_ints("dilations", ())):
        attributes.pop("dilations", None)
    if target < 10 and not node.attributes.get_int("ceil_mode", 0):
        attributes.pop("ceil_mode", None)
    if attributes.keys() == node.attributes.keys():
        return None
    made = g.node(node.op_type, node.inputs, attributes, outputs=len(node.outputs))
    return made if isinstance(made, list) else [made]


def lower_gemm(g: Graph, node: ir.Node, target: int) -> Results:
    """Gemm before opset 11 requires a third input."""
    a, b, c = [*node.inputs, None][:3]
    if c is not None or a is None:
        return None
    return [g.node("Gemm", [a, b, g.const(np.zeros(1, g.dtype(a).numpy()), g.dtype(a))], dict(node.attributes))]


def lower_depth_to_space(g: Graph, node: ir.Node, target: int) -> Results:
    """DepthToSpace with mode CRD, which was added in opset 11."""
    x = node.inputs[0]
    assert x is not None
    if node.attributes.get_string("mode", "DCR") != "CRD":
        return [g.node("DepthToSpace", [x], {"blocksize": node.attributes.get_int("blocksize")})]
    _, channels, height, width = g.shape(x)
    size = node.attributes.get_int("blocksize")
    if not all(isinstance(n, int) for n in (channels, height, width)):
        raise Unsupported(f"opset {target} cannot express mode='CRD' for dims of unknown size")
    assert isinstance(channels, int)
    assert isinstance(height, int)
    assert isinstance(width, int)
    depth = channels // size**2
    y = g.Reshape(x, np.array([-1, depth, size, size, height, width]))
    y = g.Transpose(y, perm=[0, 1, 4, 2, 5, 3])
    return [g.Reshape(y, np.array([-1, depth, height * size, width * size]))]


def lower_constant_to_initializer(g: Graph, node: ir.Node) -> Results:
    """A Constant of a dtype that the older operator lacks becomes an initializer."""
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    return None if tensor is None else [g.Identity(g.const(tensor))]
