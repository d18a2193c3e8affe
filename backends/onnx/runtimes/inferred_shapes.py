"""Writes operators so that ONNX's shape inference agrees with the kernels.

onnxruntime plans its buffers by that inference and checks later shapes against it. A file whose inference is wrong does
not load, or fails at run time. Inference is wrong in three cases:

- an Einsum that repeats a dim of 1
- a pool with ceil_mode before opset 22 whose last window would start in the padding
- a Resize of 5 elements by 2.6, for which it infers 12
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import known_dims
from convert.semantics.einsum import squeeze_labels
from convert.semantics.interpolation import resized_length
from convert.semantics.windows import Window


def write_inferred_shapes(model: ir.Model) -> bool:
    """Rewrite the operators that inference is wrong about. Return whether anything changed."""
    found = [node for node in model.graph.all_nodes() if node.op_type in _FORMS and not node.domain]
    changed = [_FORMS[node.op_type](node) for node in found]
    return any(changed)


def _squeeze_repeated_ones(node: ir.Node) -> bool:
    shapes = [None if v is None else known_dims(v) for v in node.inputs]
    if any(shape is None for shape in shapes):
        return False
    sizes = [[d if isinstance(d, int) else None for d in shape or ()] for shape in shapes]
    equation, squeezed = squeeze_labels(node.attributes.get_string("equation", ""), sizes)
    for place, (x, axes) in enumerate(zip(node.inputs, squeezed, strict=True)):
        if x is not None and axes:
            node.replace_input_with(place, _squeezed(node, x, axes, place))
    if any(squeezed):
        node.attributes["equation"] = ir.AttrString("equation", equation)
    return any(squeezed)


def _squeezed(node: ir.Node, x: ir.Value, axes: list[int], place: int) -> ir.Value:
    assert isinstance(node.graph, ir.Graph)
    name = f"{node.outputs[0].name}.{place}.squeezed"
    where = register_initializer(node.graph, f"{name}.axes", ir.tensor(np.array(axes, np.int64)))
    made = ir.Node("", "Squeeze", [x, where], num_outputs=1, name=name)
    made.metadata_props.update(node.metadata_props)
    made.outputs[0].name, made.outputs[0].type = name, x.type
    made.outputs[0].shape = ir.Shape([d for axis, d in enumerate(x.shape or ()) if axis not in axes])
    node.graph.insert_before(node, made)
    return made.outputs[0]


def _pad_for_last_window(node: ir.Node) -> bool:
    """Replace ceil_mode by pads if a window is left out.

    A mean that counts padding does not count the padding of ceil_mode; if another axis has such padding, the node is
    not changed.
    """
    x, auto_pad = node.inputs[0], node.attributes.get_string("auto_pad", "NOTSET")
    shape = None if x is None else known_dims(x)
    if not node.attributes.get_int("ceil_mode", 0) or shape is None or auto_pad.startswith("SAME"):
        return False
    strides, dilations, pads = (node.attributes.get_ints(name) for name in ("strides", "dilations", "pads"))
    own = None if auto_pad == "VALID" else pads
    given = Window.of(node.attributes.get_ints("kernel_shape") or (), strides, dilations, own)
    sizes = [n for n in shape[2:] if isinstance(n, int)]
    if len(sizes) < given.rank:
        return False
    wanted = given.with_ceil_mode(sizes)
    # The number of windows if none was left out: rounded up, it is what stride - 1 more elements give.
    whole = given.with_pads([(b, a + s - 1) for (b, a), s in zip(given.pairs, given.strides, strict=True)])
    dropped = wanted.counts(sizes) != whole.counts(sizes)
    longer = any(a > b for a, b in zip(wanted.after, given.after, strict=True))
    if not dropped or (longer and node.attributes.get_int("count_include_pad", 0) != 0):
        return False
    for name in ("ceil_mode", "auto_pad"):
        node.attributes.pop(name, None)
    node.attributes["pads"] = ir.AttrInt64s("pads", wanted.pads)
    return True


def _resize_to_sizes(node: ir.Node) -> bool:
    """Use sizes for axes whose length inference gets wrong. A second Resize scales the other axes.

    A node in a dtype that would be rounded twice is not changed.
    """
    x, scales = node.inputs[0], node.inputs[2] if len(node.inputs) > 2 else None
    shape, factors = None if x is None else known_dims(x), None if scales is None else scales.const_value
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    if x is None or shape is None or factors is None or not factors.size or mode == "tf_crop_and_resize":
        return False
    given = node.attributes.get_ints("axes") or range(len(shape))
    left = {a % len(shape): s for a, s in zip(given, factors.numpy().tolist(), strict=True) if s != 1}
    known = {a: n for a, n in enumerate(shape) if isinstance(n, int)}
    lengths = {a: (known[a], resized_length(known[a], s)) for a, s in left.items() if a in known}
    # If the product is just below an integer, the ratio of the sizes equals the scale.
    sizes = {a: m for a, (n, m) in lengths.items() if int(n * left[a]) != m}
    rest = {a: s for a, s in left.items() if a not in sizes}
    nearest = node.attributes.get_string("mode", "nearest") == "nearest"
    rounds = not nearest and x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE)
    if not sizes or (rest and rounds):
        return False
    assert isinstance(node.graph, ir.Graph)
    last = _resize(node, x, 3, "sizes", np.array(list(sizes.values()), np.int64), sizes)
    if rest:
        last.shape = ir.Shape([sizes.get(a, d) for a, d in enumerate(x.shape or ())])
        last = _resize(node, last, 2, "scales", np.array(list(rest.values()), np.float32), rest)
    y = node.outputs[0]
    last.name, y.name, last.shape = y.name, f"{y.name}.replaced", y.shape
    ir.convenience.replace_all_uses_with(y, last, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
    return True


def _resize(node: ir.Node, x: ir.Value, place: int, word: str, content: np.ndarray, axes: Iterable[int]) -> ir.Value:
    assert isinstance(node.graph, ir.Graph)
    name = f"{node.outputs[0].name}.by_{word}"
    inputs: list[ir.Value | None] = [x, None, None, None]
    inputs[place] = register_initializer(node.graph, name, ir.tensor(content))
    attributes = [a for a in node.attributes.values() if a.name != "axes"]
    made = ir.Node("", "Resize", inputs, [*attributes, ir.AttrInt64s("axes", list(axes))], num_outputs=1, name=name)
    made.metadata_props.update(node.metadata_props)
    made.outputs[0].name, made.outputs[0].type = f"{name}.resized", x.type
    node.graph.insert_before(node, made)
    return made.outputs[0]


_FORMS: dict[str, Callable[[ir.Node], bool]] = {
    "Einsum": _squeeze_repeated_ones,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pad_for_last_window),
    "Resize": _resize_to_sizes,
}
