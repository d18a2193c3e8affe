"""Rewrites 1-D convolutions and pools, which TensorFlow computes in 2-D with a dim of 1, in 1-D again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from convert.graph import Graph

from ..common.lazy_reshape import squeeze_weight, transpose
from .matching import inputs_of, perm_of

_WINDOWS = ("Conv", "MaxPool", "AveragePool")
_ACTIVATIONS = ("Relu", "Clip", "Tanh")  # TensorFlow Lite fuses these into a convolution, before the dim is removed
_ATTRIBUTES = {"kernel_shape", "strides", "dilations", "pads", "auto_pad", "group"}


def squeeze_through_windows(g: Graph, value: ir.Value, axis: int) -> ir.Value | None:
    """Return `value` without its dim `axis` of 1, if that was inserted before convolutions and pools; None for
    others.
    """
    maker = value.producer()
    if maker is None or maker.domain or value.shape is None:
        return None
    if maker.op_type == "Unsqueeze":
        axes = g.static(maker.inputs[1])
        return maker.inputs[0] if axes is not None and [int(a) % len(value.shape) for a in axes] == [axis] else None
    turned = perm_of(value)
    if turned is not None:
        source, perm = turned
        found = squeeze_through_windows(g, source, perm[axis])
        left = [p - (p > perm[axis]) for i, p in enumerate(perm) if i != axis]
        return None if found is None else transpose(g, found, left)
    if maker.op_type in _ACTIVATIONS:
        found = None if maker.inputs[0] is None else squeeze_through_windows(g, maker.inputs[0], axis)
        given = {name: attribute.value for name, attribute in maker.attributes.items()}
        return None if found is None else g.node(maker.op_type, [found, *maker.inputs[1:]], given)
    return _squeeze_window(g, maker, axis) if maker.op_type in _WINDOWS and len(value.shape) == 4 and axis > 1 else None


def _squeeze_window(g: Graph, maker: ir.Node, axis: int) -> ir.Value | None:
    attributes = _attributes_without_dim(maker, axis - 2)
    weights = list(maker.inputs[1:])
    if attributes is None or maker.inputs[0] is None or len(maker.outputs) != 1:
        return None
    if maker.op_type == "Conv":
        if weights[0] is None or weights[0].const_value is None:
            return None
        weights[0] = squeeze_weight(g, weights[0], axis)
    x = squeeze_through_windows(g, maker.inputs[0], axis)
    if x is None:
        return None
    if maker.op_type == "Conv":
        x, attributes = fold_pad(g, x, attributes)
    return g.node(maker.op_type, [x, *weights], attributes)


def _attributes_without_dim(maker: ir.Node, spatial: int) -> dict[str, Any] | None:
    """Return the attributes without those of one spatial dim; None if the window is not trivial there."""
    given = {name: attribute.value for name, attribute in maker.attributes.items()}
    kernel, pads = given.get("kernel_shape"), given.get("pads")
    if not given.keys() <= _ATTRIBUTES or kernel is None or kernel[spatial] != 1:
        return None
    if pads is not None and (pads[spatial], pads[spatial + len(kernel)]) != (0, 0):
        return None
    cut: dict[str, list[int]] = {
        name: _drop_entry(given[name], spatial) for name in ("kernel_shape", "strides", "dilations") if name in given
    }
    if pads is not None:
        cut["pads"] = _drop_entry(pads[: len(kernel)], spatial) + _drop_entry(pads[len(kernel) :], spatial)
    return given | cut


def _drop_entry(numbers: Sequence[int], place: int) -> list[int]:
    return [n for i, n in enumerate(numbers) if i != place]


def unpadded_source(g: Graph, x: ir.Value, *, positive: bool = False) -> tuple[ir.Value, list[int], list[int]] | None:
    """Return the unpadded source of `x`, [N, C, …], and the zero padding before and after in each spatial dim.

    positive: only if the source is never negative, so that zero padding does not change a maximum.
    """
    turned = perm_of(x)
    padded, perm = turned if turned is not None else (x, None)
    found = inputs_of(padded, "Pad")
    maker = padded.producer()
    if maker is None or not 2 <= len(found) <= 3 or len(found) != len(maker.inputs) or x.shape is None:
        return None
    if maker.attributes.get_string("mode", "constant") != "constant":
        return None
    pads, fill = g.static(found[1]), 0.0 if len(found) == 2 else g.static(found[2])
    rank = len(x.shape)
    if pads is None or fill is None or float(fill) != 0.0 or len(pads) != 2 * rank or min(pads) < 0:
        return None
    order = perm or list(range(rank))
    before, after = ([int(pads[p + half]) for p in order] for half in (0, rank))
    if any(before[:2]) or any(after[:2]) or (positive and not _is_positive(found[0])):
        return None
    source = found[0] if perm is None else transpose(g, found[0], perm)
    return source, before[2:], after[2:]


def fold_pad(g: Graph, x: ir.Value, attributes: dict[str, Any]) -> tuple[ir.Value, dict[str, Any]]:
    """Return the input of a convolution and its attributes, with zero padding before it merged into `pads`."""
    found = unpadded_source(g, x) if "pads" in attributes else None
    if found is None:
        return x, attributes
    return found[0], attributes | {
        "pads": [a + b for a, b in zip(attributes["pads"], [*found[1], *found[2]], strict=True)]
    }


def _is_positive(value: ir.Value) -> bool:
    """Return whether the operator that computes `value` never returns a negative number."""
    maker = value.producer()
    if maker is not None and maker.op_type == "Clip" and len(maker.inputs) > 1 and maker.inputs[1] is not None:
        low = maker.inputs[1].const_value
        return low is not None and float(low.numpy()) >= 0
    return maker is not None and maker.op_type in ("Relu", "Sigmoid", "Softplus", "Abs") and not maker.domain
