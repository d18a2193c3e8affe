"""The pattern of a local response norm that PyTorch wrote as a pool over channels."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import constant, constant_integers, input_at, known_dims
from convert.patterns.expressions import Attribute, Number, Tensor, either, op
from convert.patterns.find import Pattern, replace_layers
from convert.patterns.matcher import maker_of, match


def find_response_norms(model: ir.Model) -> bool:
    """Turn x / (k + alpha · mean of x² over `size` neighbouring channels)^beta into LRN; return whether there was one.

    `torch.nn.functional.local_response_norm` computes the mean by an AveragePool over three dims (two for 1-d data) on
    padded channels, which few runtimes support. For an even size ONNX's window is shifted (LRN-13: one channel fewer
    before than after), so such norms stay.
    """
    return replace_layers(model, (RESPONSE_NORM,))


def _response_norm(g: Graph, found: Any) -> ir.Value | None:
    dims, (size, *rest), ones = known_dims(found.x) or (), found.kernel_shape, {1}
    plain = not any(found.pads or ()) and {*(found.strides or ones), *(found.dilations or ones), *rest} <= ones
    if not plain or found.ceil_mode or size % 2 == 0 or len(dims) < 3 or None in dims:
        return None
    lifted = _unpadded(found.padded, size // 2)
    node, shape = maker_of(lifted), None if lifted is None else known_dims(lifted)
    if constant_integers(found.axes) != [1] or shape is None or len(shape) != len(rest) + 3:
        return None
    if shape[:3] != (dims[0], 1, dims[1]) or node is None or node.op_type not in ("Reshape", "Unsqueeze"):
        return None
    bound = {"x": found.x, "dtype": found.x.dtype}
    if not any(match(_x**2, node.inputs[0], bound)):
        return None
    return g.LRN(found.x, alpha=found.alpha, beta=found.beta, bias=found.bias, size=size)


def _unpadded(value: ir.Value, amount: int) -> ir.Value | None:
    """Return the input of a Pad that adds `amount` zeros before and after dim 2 and nothing else; else None."""
    pad = maker_of(value)
    if pad is None or pad.op_type != "Pad" or pad.attributes.get_string("mode", "constant") != "constant":
        return None
    x, fill, chosen = pad.inputs[0], input_at(pad, 2), input_at(pad, 3)
    zeros, rank = constant(fill), len(known_dims(value) or ())
    amounts, axes = constant_integers(pad.inputs[1]), [*range(rank)] if chosen is None else constant_integers(chosen)
    if amounts is None or axes is None or (fill is not None and (zeros is None or zeros.numpy().any())):
        return None
    pairs = {a % rank: (amounts[i], amounts[i + len(axes)]) for i, a in enumerate(axes)}
    return x if {a: pair for a, pair in pairs.items() if pair != (0, 0)} == {2: (amount, amount)} else None


_x, _padded, _axes = Tensor("x"), Tensor("padded"), Tensor("axes")
_window = {name: Attribute(name) for name in ("kernel_shape", "pads", "strides", "dilations", "ceil_mode")}
_mean = op("Squeeze", op("AveragePool", _padded, **_window), _axes)
_sums = Number("bias") + Number("alpha") * either(op("Reshape", _mean, Tensor("shape")), _mean)
RESPONSE_NORM = Pattern(_response_norm, _x / op("Pow", _sums, Number("beta")))
