"""Forms of operators for the readers of opsets 7 and 8 (MXNet 1.9, CNTK 2.7) that other readers accept too.

MXNet has no product of more than two dims with a matrix, and no PRelu slope other than a vector. It pads the input of a
transposed convolution instead of cropping the output, which gives another shape without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import known_dims
from convert.passes.opset.adapters import Adapter

NEWEST_OLD = 8
"""The newest opset for old readers. Opset 9 came with IR version 4, and its readers are still maintained."""

_OLDEST = 7

_MOST_TAPS = 49
"""Maximum number of elements of a dilated kernel that become one convolution each."""

_TO_THE_END = 2**31 - 1


def product_of_matrices(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Rewrite MatMul of [..., m, k] and [k, n] as one of [rows, k], if at most one dim has to be inferred."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    left, right = known_dims(a), known_dims(b)
    if left is None or right is None or len(left) < 3 or len(right) != 2:
        return None
    front = [d if isinstance(d, int) else -1 for d in left[:-1]]
    k, n = right
    if front.count(-1) > 1 or 0 in front or not isinstance(k, int) or not isinstance(n, int):
        return None
    rows = -1 if -1 in front else prod(front)
    return [g.Reshape(g.MatMul(g.Reshape(a, [rows, k]), b), [*front, n])]


def prelu(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Rewrite PRelu as max(x, 0) − slope·max(−x, 0), which gives the same numbers."""
    x, slope = node.inputs
    assert x is not None
    if not g.dtype(x).is_floating_point():
        return None
    return [g.Sub(g.Relu(x), g.Mul(slope, g.Relu(g.Neg(x))))]


def cropped_transposed_convolution(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Rewrite ConvTranspose without pads, followed by a Slice."""
    attributes = dict(node.attributes)
    if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in attributes:
        return None
    kernel = node.attributes.get_ints("kernel_shape")
    if not kernel:
        return None
    rank = len(kernel)
    pads = list(node.attributes.get_ints("pads", [0] * 2 * rank))
    more = list(node.attributes.get_ints("output_padding", [0] * rank))
    first, last = pads[:rank], [p - m for p, m in zip(pads[rank:], more, strict=True)]
    if not (any(first) or any(last)) or min(last) < 0:
        return None
    for name in ("pads", "output_padding"):
        attributes.pop(name, None)
    whole = g.node("ConvTranspose", node.inputs, attributes)
    return [_sliced(g, whole, {2 + i: (first[i], -last[i] or _TO_THE_END) for i in range(rank) if first[i] or last[i]})]


def slices_of_one_axis(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Rewrite Slice as one per axis, with negative ends. MXNet applies two axes to the first one, and checks positive
    ends against the sizes of the model's input.
    """
    x = node.inputs[0]
    assert x is not None
    starts, ends = (node.attributes.get_ints(name) for name in ("starts", "ends"))
    assert starts is not None
    assert ends is not None
    axes, dims = node.attributes.get_ints("axes", range(len(starts))), known_dims(x)
    if dims is None:
        return None
    bounds = {
        a % len(dims): (start, _from_the_end(end, dims[a])) for a, start, end in zip(axes, starts, ends, strict=True)
    }
    return [_sliced(g, x, bounds)]


def _from_the_end(end: int, size: int | str | None) -> int:
    if not isinstance(size, int) or end < 0:
        return end
    return _TO_THE_END if end >= size else end - size


def _sliced(g: Graph, x: ir.Value, bounds: Mapping[int, tuple[int, int]]) -> ir.Value:
    for axis, (start, end) in bounds.items():
        x = g.node("Slice", [x], {"axes": [axis], "starts": [start], "ends": [end]})
    return x


def means_for_instance_norm(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Rewrite InstanceNormalization by means over the spatial dims."""
    x, scale, bias = node.inputs
    assert x is not None
    dims = known_dims(x)
    if dims is None or g.dtype(x) != ir.DataType.FLOAT:
        return None
    axes, wide = list(range(2, len(dims))), [1, -1, *[1] * (len(dims) - 2)]
    epsilon = np.float32(node.attributes.get_float("epsilon", 1e-5))
    centred = g.Sub(x, g.node("ReduceMean", [x], {"axes": axes, "keepdims": 1}))
    variance = g.node("ReduceMean", [g.Mul(centred, centred)], {"axes": axes, "keepdims": 1})
    y = g.Div(centred, g.Sqrt(g.Add(variance, epsilon)))
    return [g.Add(g.Mul(y, g.Reshape(scale, wide)), g.Reshape(bias, wide))]


def full_reshape(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Give Reshape its sizes as numbers if they are known, without 0 (unchanged) and -1 (inferred)."""
    x, shape = node.inputs
    assert shape is not None
    dims, given = known_dims(node.outputs[0]), g.static(shape)
    if dims is None or given is None or not all(isinstance(d, int) for d in dims) or (given > 0).all():
        return None
    return [g.Reshape(x, dims)]


def plain_convolution(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Rewrite a Conv for CNTK: without dilations (CNTK lacks them on CPUs), and in 1D without a bias (CNTK adds it to
    the wrong dim).
    """
    x, weight, bias = [*node.inputs, None][:3]
    assert x is not None
    assert weight is not None
    attributes, kernel = dict(node.attributes), g.static(weight)
    dilations = node.attributes.get_ints("dilations", ())
    plain = node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET"
    if kernel is not None and plain and any(d != 1 for d in dilations) and kernel[0, 0].size <= _MOST_TAPS:
        y = _sum_of_taps(g, x, kernel, attributes)
    elif g.rank(weight) == 3 and bias is not None:
        y = g.node("Conv", [x, weight], attributes)
    else:
        return None
    wide = [1, -1, *[1] * (g.rank(weight) - 2)]
    return [y if bias is None else g.Add(y, g.Reshape(bias, wide))]


def _sum_of_taps(g: Graph, x: ir.Value, kernel: np.ndarray, attributes: dict[str, ir.Attr]) -> ir.Value:
    """Return a sum of convolutions of one element, one per kernel position.

    Zeros between the kernel's elements would turn infinities that the source does not read into NaN.
    """
    rank = kernel.ndim - 2
    dilations, pads = attributes.pop("dilations").as_ints(), attributes.pop("pads", None)
    attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", [1] * rank)
    if pads is not None and any(pads.as_ints()):
        begin, end = pads.as_ints()[:rank], pads.as_ints()[rank:]
        x = g.node("Pad", [x], {"mode": "constant", "pads": [0, 0, *begin, 0, 0, *end], "value": 0.0})
    terms = []
    for place in np.ndindex(*kernel.shape[2:]):
        bounds = {}
        for i, (k, d) in enumerate(zip(place, dilations, strict=True)):
            after = (kernel.shape[2 + i] - 1 - k) * d
            if k or after:
                bounds[2 + i] = (k * d, -after or _TO_THE_END)
        tap = kernel[(slice(None), slice(None), *place)].reshape(*kernel.shape[:2], *[1] * rank)
        terms.append(g.node("Conv", [_sliced(g, x, bounds), g.const(tap, g.dtype(x))], attributes))
    return reduce(g.Add, terms)


OLDER_FORMS = {
    "Conv": plain_convolution,
    "InstanceNormalization": means_for_instance_norm,
    "Reshape": full_reshape,
}
"""Alternative forms for opset 7 only, for CNTK; opset 8 does not use them, because they slow down other readers."""

FORMS = {
    "ConvTranspose": cropped_transposed_convolution,
    "MatMul": product_of_matrices,
    "PRelu": prelu,
    "Slice": slices_of_one_axis,
}
"""Alternative form by operator of opset 7 or 8; None if it is unchanged."""


def forms_of(opset: int) -> Mapping[str, Adapter]:
    """Return the alternative forms of an opset, by operator."""
    return FORMS | OLDER_FORMS if opset <= _OLDEST else FORMS if opset <= NEWEST_OLD else {}
