"""Makes the windows of convolutions and pools explicit: no auto_pad, ceil_mode or output_shape, where sizes allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from convert.graph import Graph, location_of
from convert.graph.node_inference import correct_inference
from convert.graph.values import names_in_use, nodes_of
from convert.graph.windows import spatial_sizes, transposed_window, window_of
from convert.legalize.replacement import Replacement
from convert.semantics.windows import Window


def normalize_windows(model: ir.Model) -> bool:
    """Give convolutions and pools explicit pads; return whether anything changed.

    Afterwards no pool has ceil_mode. `auto_pad` is left, as SAME_UPPER or SAME_LOWER, if the pads depend on an unknown
    size; so is `output_shape`.
    """
    replacement = Replacement(model, {})
    changed = [_normalize(replacement, node) for node in list(nodes_of(model.graph)) if not node.domain]
    return any(changed)


def _normalize(replacement: Replacement, node: ir.Node) -> bool:
    given = window_of(node)
    if given is None:
        return False
    sizes = spatial_sizes(node.inputs[0], given.rank)
    auto_pad = node.attributes.get_string("auto_pad", "NOTSET") or "NOTSET"
    if node.op_type == "ConvTranspose":
        return _normalize_transposed(node, given, sizes, auto_pad)
    ceil = bool(node.attributes.get_int("ceil_mode", 0))
    if auto_pad == "NOTSET" and not ceil:
        return False
    node.attributes.pop("ceil_mode", None)  # it makes no difference to SAME, which has ceil(size / stride) windows
    padded = given.with_auto_pad(sizes, auto_pad)
    if padded is None:
        return ceil
    node.attributes.pop("auto_pad", None)
    if not ceil or auto_pad.startswith("SAME"):
        _set_pads(node, padded)
        return True
    longer = padded.with_ceil_mode(sizes)
    counts = node.op_type == "AveragePool" and node.attributes.get_int("count_include_pad", 0) != 0
    if counts and any(a > b for a, b in zip(longer.after, padded.after, strict=True)):
        _count_own_pads(replacement, node, padded, longer)
    else:
        _set_pads(node, longer)
    return True


def _normalize_transposed(node: ir.Node, given: Window, sizes: Sequence[int | None], auto_pad: str) -> bool:
    if auto_pad == "NOTSET" and "output_shape" not in node.attributes:
        return False
    made = transposed_window(node, given, sizes)
    if made is None:
        return False
    window, more = made
    for name in ("auto_pad", "output_shape", "output_padding"):
        node.attributes.pop(name, None)
    _set_pads(node, window)
    if any(more):
        node.attributes["output_padding"] = ir.AttrInt64s("output_padding", more)
    correct_inference(node)  # ONNX's inference was wrong about some forms of SAME
    return True


def _count_own_pads(replacement: Replacement, node: ir.Node, padded: Window, longer: Window) -> None:
    """Pad the input of a mean that counts its pads, so that only the elements that ceil_mode adds are not counted."""
    if not replacement.names:
        replacement.names = names_in_use(replacement.model)
    rest = [(0, a - b) for a, b in zip(longer.after, padded.after, strict=True)]
    kept: dict[str, Any] = {k: v for k, v in node.attributes.items() if k not in ("count_include_pad", "pads")}

    def build(g: Graph) -> list[ir.Value | None]:
        x: ir.Value | None = node.inputs[0]
        if any(padded.pads):
            x = g.Pad(x, [0, 0, *padded.before, 0, 0, *padded.after])
        return [g.node("AveragePool", [x], {**kept, "pads": longer.with_pads(rest).pads})]

    built = replacement.build(build, replacement.model.opset_imports.get("", 23), location_of(node))
    assert built is not None
    replacement.place_graph(node, *built)


def _set_pads(node: ir.Node, window: Window) -> None:
    node.attributes["pads"] = ir.AttrInt64s("pads", window.pads)
