"""Writes a Resize so that it survives onnxruntime's optimizer, which moves a Transpose through it.

The optimizer applies the whole permutation to `sizes` and `scales`, even if `axes` limits them to some dims
(onnxruntime 1.31). Then the file does not load, or other dims are resized. So this module gives sizes and scales for
all dims. A weighted Resize may also end up with dims that the kernel does not support; a reshape keeps the Transpose in
front of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Dim, register_initializer
from convert.graph.values import known_dims

from .all_dims import emitted_before, picked_before

# Operators that a Transpose is not moved through.
_BARRIERS = frozenset({"Conv", "ConvTranspose", "Flatten", "Gemm", "MaxPool", "AveragePool", "Reshape"})


def full_resize(model: ir.Model) -> bool:
    """Rewrite every Resize of a model with a Transpose. Return whether anything changed."""
    nodes = list(model.graph.all_nodes())
    if not any(n.op_type == "Transpose" and not n.domain for n in nodes):
        return False
    found = [n for n in nodes if n.op_type == "Resize" and not n.domain]
    changed = [_merge_batch_and_channels(n) or ("axes" in n.attributes and _widen(n)) for n in found]
    return any(changed)


def _merge_batch_and_channels(node: ir.Node) -> bool:
    """Resize [1, N·C, spatial…] instead of [N, C, spatial…] if a Transpose before the Resize would move other dims to
    these positions.
    """
    x, y = node.inputs[0], node.outputs[0]
    shape = None if x is None else known_dims(x)
    if x is None or shape is None or node.attributes.get_string("mode", "nearest") == "nearest":
        return False
    if not isinstance(node.graph, ir.Graph):
        return False
    axes, before = list(range(2, len(shape))), _permutations_before(x)
    if before and "axes" not in node.attributes and _may_resize_first_two(node, shape):
        return _after_same_dims(node, x)
    # kernels of the other modes do not support these dims
    channels_last = node.attributes.get_string("mode", "nearest") == "linear"
    if not any(_makes_other_dims(perm, axes, channels_last) for perm in before) or 0 in (known_dims(y) or ()):
        return False
    if not any(isinstance(d, int) for d in shape[:2]):
        return _after_same_dims(node, x)
    if "axes" not in node.attributes and _keeps_first_two(node, shape):
        _narrow(node, axes)
    if list(node.attributes.get_ints("axes") or ()) != axes:
        return False
    _flatten(node, x, y, shape)
    return True


def _after_same_dims(node: ir.Node, x: ir.Value) -> bool:
    """Reshape the input to its own dims; onnxruntime removes such a reshape if all dims are known."""
    assert isinstance(node.graph, ir.Graph)
    assert x.shape is not None
    same = _reshaped(node, x, [0] * len(x.shape), "same")
    same.outputs[0].shape = x.shape
    node.replace_input_with(0, same.outputs[0])
    node.graph.insert_before(node, same)
    if "axes" in node.attributes:
        _widen(node)
    return True


def _flatten(node: ir.Node, x: ir.Value, y: ir.Value, shape: Sequence[Dim]) -> None:
    """Merge the first two dims before the Resize and split them after it; [1, 1, H, W] is resized as [H, W]."""
    assert isinstance(node.graph, ir.Graph)
    first, second, *rest = shape
    after, same = known_dims(y), [0] * len(rest)
    inner = [*_other_two(first, second), *same]
    outer = [*([first, -1] if isinstance(first, int) else [-1, second if isinstance(second, int) else -1]), *same]
    if first == second == 1 and len(rest) > 1 and all(isinstance(d, int) for d in (*rest, *(after or [None]))):
        inner, outer = [int(d or 0) for d in rest], [int(d or 0) for d in after or ()]
        node.attributes.pop("axes")
    inside = _reshaped(node, x, inner, "flat")
    node.replace_input_with(0, inside.outputs[0])
    node.graph.insert_before(node, inside)
    outside = _reshaped(node, y, outer, "full")
    node.graph.insert_after(node, outside)
    ir.convenience.replace_all_uses_with(y, outside.outputs[0], replace_graph_outputs=True)
    outside.replace_input_with(0, y)
    outside.outputs[0].name, y.name = y.name, f"{y.name}_flat"
    outside.outputs[0].shape, y.shape = y.shape, None


def _other_two(first: Dim, second: Dim) -> tuple[int, int]:
    """Return two dims to use instead of these that no Transpose produces: onnxruntime treats moving a 1 as no
    change.
    """
    if first == 1 and isinstance(second, int):
        least = next((n for n in range(2, math.isqrt(second) + 1) if second % n == 0), None)
        return (-1, 1) if least is None else (least, second // least)
    return (1, -1)


def _keeps_first_two(node: ir.Node, shape: Sequence[Dim]) -> bool:
    """Return whether a Resize with numbers for every dim keeps the first two dims of its input."""
    if node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return False
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False
    scales, result = _given(node, 2), known_dims(node.outputs[0])
    if scales is not None:
        content = scales.const_value
        return content is not None and bool((content.numpy()[:2] == 1).all())
    return result is not None and None not in shape[:2] and result[:2] == shape[:2]


def _may_resize_first_two(node: ir.Node, shape: Sequence[Dim]) -> bool:
    """Return whether it is known at run time only if a Resize changes one of the first two dims."""
    scales, result = _given(node, 2), known_dims(node.outputs[0])
    if scales is not None:
        return scales.const_value is None
    pairs = zip(shape[:2], (result or [None] * len(shape))[:2], strict=True)
    return any(a is None or b is None or (a != b and not (isinstance(a, int) and isinstance(b, int))) for a, b in pairs)


def _given(node: ir.Node, index: int) -> ir.Value | None:
    """Return the scales (2) or the sizes (3), or None if they are left out."""
    value = [*node.inputs, None, None, None][index]
    return None if value is None or value.shape == ir.Shape([0]) else value


def _narrow(node: ir.Node, axes: list[int]) -> None:
    """Keep the scales or sizes for these axes only."""
    index = 2 if _given(node, 2) is not None else 3
    given, graph = _given(node, index), node.graph
    assert given is not None
    assert isinstance(graph, ir.Graph)
    name = f"{node.outputs[0].name}_{given.name}_of_some"
    if given.const_value is not None:
        narrow = register_initializer(graph, name, ir.tensor(given.const_value.numpy()[axes]))
    else:
        places = register_initializer(graph, f"{name}_order", ir.tensor(np.array(axes, np.int64)))
        gather = ir.Node("", "Gather", [given, places], num_outputs=1, name=name)
        narrow = gather.outputs[0]
        narrow.name, narrow.type, narrow.shape = f"{name}_value", given.type, ir.Shape([len(axes)])
        gather.metadata_props.update(node.metadata_props)
        graph.insert_before(node, gather)
    node.replace_input_with(index, narrow)
    node.attributes["axes"] = ir.AttrInt64s("axes", axes)


def _reshaped(node: ir.Node, x: ir.Value, target: list[int], name: str) -> ir.Node:
    assert isinstance(node.graph, ir.Graph)
    shape = register_initializer(node.graph, f"{node.name}_{name}", ir.tensor(np.array(target, np.int64)))
    made = ir.Node("", "Reshape", [x, shape], num_outputs=1, name=f"{node.name}_{name}")
    made.outputs[0].name, made.outputs[0].type = f"{x.name}_{name}", x.type
    made.metadata_props.update(node.metadata_props)
    return made


def _makes_other_dims(perm: list[int], axes: list[int], channels_last: bool) -> bool:
    """Return whether the resized dims have other positions before the Transpose.

    channels_last: positions that are one smaller do not count, because the kernel supports them.
    """
    moved = sorted(perm[a] for a in axes)
    return moved != axes and not (channels_last and moved == [a - 1 for a in axes])


def _permutations_before(x: ir.Value) -> list[list[int]]:
    """Return the permutations of every Transpose before `x` with only operators in between that it can be moved
    through.
    """
    found, pending, seen = [], [x], set()
    while pending:
        node = pending.pop().producer()
        if node is None or node in seen or node.op_type in _BARRIERS:
            continue
        seen.add(node)
        perm = node.attributes.get_ints("perm") if node.op_type == "Transpose" else None
        if perm is not None and x.shape is not None and len(perm) == len(x.shape):
            found.append([int(a) for a in perm])
        pending += [v for v in node.inputs if v is not None]
    return found


def _widen(node: ir.Node) -> bool:
    x, roi, scales, sizes = [*node.inputs, None, None, None][:4]
    shape, graph = None if x is None else known_dims(x), node.graph
    given = next((v for v in (scales, sizes) if v is not None and v.shape != ir.Shape([0])), None)
    plain = node.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch"
    if x is None or shape is None or graph is None or given is None or roi is not None or not plain:
        return False
    axes = [a % len(shape) for a in node.attributes["axes"].as_ints()]
    order = [axes.index(a) if a in axes else len(axes) + a for a in range(len(shape))]
    others = [d for a, d in enumerate(shape) if a not in axes]
    name, content = f"{node.outputs[0].name}_{given.name}", given.const_value  # others may share the value
    if content is not None and (given is scales or all(isinstance(d, int) for d in others)):
        own = [1 if given is scales or not isinstance(d, int) else d for d in shape]
        full = np.concatenate([content.numpy(), np.array(own, content.numpy().dtype)])[order]
        wide = register_initializer(graph, f"{name}_of_all_dims", ir.tensor(full))
    else:
        rest = _rest(node, given is scales, len(shape), name)
        wide = picked_before(node, given, rest, order, f"{name}_of_all_dims")
    node.replace_input_with(2 if given is scales else 3, wide)
    node.attributes.pop("axes")
    return True


def _rest(node: ir.Node, scaled: bool, rank: int, name: str) -> ir.Value:
    """Return a scale of 1, or the size, for each dim."""
    assert isinstance(node.graph, ir.Graph)
    if scaled:
        return register_initializer(node.graph, f"{name}_ones", ir.tensor(np.ones(rank, np.float32)))
    shape = ir.Node("", "Shape", [node.inputs[0]], num_outputs=1, name=f"{name}_own")
    sizes = node.inputs[3]
    assert sizes is not None
    return emitted_before(node, shape, sizes, rank)
