"""Repairs attributes that exporters wrote in a form that ONNX does not have and onnxruntime does not load.

The tests compare each form with the framework that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from convert.graph import location_of
from convert.outcome.report import Report
from convert.semantics.activations import DEFAULTS


def repair_nodes(model: ir.Model, report: Report) -> None:
    """Repair the attributes of all nodes in place, with a note for each."""
    for node in model.graph.all_nodes():
        mend = _REPAIRS.get(node.op_type) if node.domain == "" else None
        if mend is not None and (done := mend(node)):
            report.note(f"{done} of {location_of(node)}, a form that only its exporter reads", code="repaired")


def _negative_pads(node: ir.Node) -> str:
    """Write negative pads at the end of a ConvTranspose as output_padding, which lengthens the output as much.

    tf2onnx writes such pads.
    """
    pads = list(node.attributes.get_ints("pads", ()))
    rank = len(pads) // 2
    more = [max(0, -after) for after in pads[rank:]]
    extra = list(node.attributes.get_ints("output_padding", ())) or [0] * rank
    if not any(more) or len(extra) != len(more):
        return ""
    lengths = [a + b for a, b in zip(extra, more, strict=True)]
    node.attributes["output_padding"] = ir.AttrInt64s("output_padding", lengths)
    node.attributes["pads"] = ir.AttrInt64s("pads", [*pads[:rank], *(max(0, after) for after in pads[rank:])])
    return "negative pads were written as output_padding"


def _activations_of_one_direction(node: ir.Node) -> str:
    """Repeat the activations of a bidirectional layer that names those of one direction.

    PyTorch 1.0 to 1.2 wrote RNNs so; both directions have the same function there.
    """
    names = list(node.attributes.get_strings("activations", ()))
    both = node.attributes.get_string("direction", "forward") == "bidirectional"
    parameters = "activation_alpha" in node.attributes or "activation_beta" in node.attributes
    if not both or parameters or len(names) != len(DEFAULTS[node.op_type]):
        return ""
    node.attributes["activations"] = ir.AttrStrings("activations", names * 2)
    return "activations were repeated for the second direction"


_REPAIRS: dict[str, Callable[[ir.Node], str]] = {
    "ConvTranspose": _negative_pads,
    "RNN": _activations_of_one_direction,
    "GRU": _activations_of_one_direction,
    "LSTM": _activations_of_one_direction,
}
"""Functions that repair a node of an operator, and return what they did or an empty text."""
