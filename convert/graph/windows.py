"""The windows of convolutions and pools, as the attributes of their nodes say."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph.values import input_at
from convert.semantics.windows import Size, Window

_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""The input of a convolution that is its weight."""
_POOLS = ("AveragePool", "LpPool", "MaxPool")


def window_of(node: ir.Node) -> Window | None:
    """Return the window of a convolution or pool as its attributes say.

    None for other nodes, unknown kernels, and attributes that contradict each other, which a rule refuses.
    """
    if node.op_type not in (*_WEIGHTS, *_POOLS):
        return None
    kernel: Sequence[int] | None = node.attributes.get_ints("kernel_shape")
    if not kernel and node.op_type in _WEIGHTS:
        weight = input_at(node, _WEIGHTS[node.op_type])
        dims = [] if weight is None or weight.shape is None else list(weight.shape)[2:]
        kernel = [d for d in dims if isinstance(d, int)]
        kernel = kernel if len(kernel) == len(dims) else None
    strides, dilations, pads = (node.attributes.get_ints(name) for name in ("strides", "dilations", "pads"))
    if not kernel:
        return None
    steps = [list(numbers or kernel) for numbers in (kernel, strides, dilations)]
    fits = all(len(numbers) == len(kernel) and min(numbers) > 0 for numbers in steps)
    fits = fits and (not pads or len(pads) == 2 * len(kernel))
    return Window.of(kernel, strides, dilations, pads) if fits else None


def spatial_sizes(x: ir.Value | None, rank: int) -> list[int | None]:
    """Return the sizes of the last `rank` dims of a channels-first tensor; None for unknown ones."""
    if x is None or x.shape is None or len(x.shape) != rank + 2:
        return [None] * rank
    return [n if isinstance(n, int) else None for n in list(x.shape)[2:]]


def transposed_window(node: ir.Node, given: Window, sizes: Sequence[int | None]) -> tuple[Window, list[Size]] | None:
    """Return the window of a ConvTranspose with explicit pads, and its output padding.

    Returns None if they depend on an unknown size, or if the lengths of attributes do not fit.
    """
    extra = list(node.attributes.get_ints("output_padding", ())) or [0] * given.rank
    output_shape = list(node.attributes.get_ints("output_shape", ()))
    if len(extra) != given.rank or 0 < len(output_shape) < given.rank:
        return None
    return given.transposed(sizes, extra, node.attributes.get_string("auto_pad", "NOTSET") or "NOTSET", output_shape)
