"""Placeholders with a default (`is_training`, `keep_prob`), which apply if they are not fed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import dtype_name
from convert.outcome.report import Report

from . import attributes
from .function_body import FunctionBody, Node

DEFAULTED = "PlaceholderWithDefault"
_MOST = 8  # number of elements of a default that are shown


def note_defaults(
    body: FunctionBody, called: Sequence[FunctionBody], buffer: memoryview, report: Report, *, cuttable: bool
) -> None:
    """Note which placeholders of `body` and of the functions that it calls are fixed to a default, and how to keep
    them.

    If the graph is `cuttable` and has the placeholder itself, `--input` keeps it an input.
    """
    for owner in (body, *called):
        for node in owner.live:
            if node.op == DEFAULTED:
                fixed = f"the placeholder {node.name} is fixed to its default{_default_text(owner, node, buffer)}"
                own = cuttable and owner is body
                report.note(
                    f"{fixed}; {_keeping(node) if own else 'to have it as an input, make it an argument'}",
                    code="default-input",
                )


def _default_text(body: FunctionBody, node: Node, buffer: memoryview) -> str:
    source = body.nodes.get(node.inputs[0].node)
    while source is not None and source.op == "Identity":
        source = body.nodes.get(source.inputs[0].node)
    if source is None or source.op != "Const":
        return f", which {node.inputs[0].node} computes"
    array = attributes.decode(source.attr["value"], buffer, str).numpy()
    return f" {np.array2string(array, separator=', ')}" if array.size <= _MOST else f", the constant {source.name}"


def _keeping(node: Node) -> str:
    dtype = attributes.dtype_of(node.attr["dtype"].type) or ir.DataType.FLOAT
    dims = attributes.shape_of(node.attr["shape"].shape) if "shape" in node.attr else None
    shape = "" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"
    return f"--input {node.name}:{dtype_name(dtype)}{shape} keeps it an input"
