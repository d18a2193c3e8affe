"""Writes out the nodes that a backend declines: by the lowerings of `table.py`, else by ONNX's function bodies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from convert.errors import BadInput, Unsupported
from convert.graph import OPSET, location_of
from convert.graph.shape_inference import infer_facts, with_inner_nodes
from convert.graph.trainable import add_formula_constants
from convert.graph.values import names_in_use, nodes_of
from convert.legalize.function_bodies import call_function, has_function
from convert.legalize.replacement import Replacement
from convert.legalize.table import LEARNERS, LOWERINGS, Lowering
from convert.rules.node_rules import note_refusal
from convert.rules.onnx_schemas import operator_of

Takes = Callable[[ir.Node], bool]

# ONNX's functions are nested at most three deep; more would be a defect.
_DEPTH = 8


def write_out(model: ir.Model, takes: Takes) -> bool:
    """Replace every node that `takes` declines and that can be written out; return whether anything changed.

    A lowering is preferred if it accepts the node, and if the backend accepts the operators in it or they can be
    written out in turn. Otherwise ONNX's function body is used, which for some operators loses digits. A node without
    either stays, with the lowering's reason (`convert.rules.node_rules.note_refusal`).
    """
    modified = _lower_all(model, takes)
    for _ in range(_DEPTH):
        found = False
        for number, node in enumerate(list(nodes_of(model.graph))):
            if not takes(node):
                found |= call_function(model, node, f"{node.op_type}_{number}")
        if not found:
            break
        common.InlinePass()(model)
        # The nodes inside a function have no dtypes and shapes yet, and nested functions depend on them.
        infer_facts(model)
        _lower_all(model, takes)
        modified = True
    return modified


def operators_written_out() -> list[str]:
    """Return the operators that are written out if a backend has no rule: by a lowering or an ONNX function body."""
    schemas = {(s.domain, s.name) for s in onnx.defs.get_all_schemas()}
    named = (f"{domain}::{name}" if domain else name for domain, name in schemas)
    return sorted({*LOWERINGS, *filter(has_function, named)})


def _lower_all(model: ir.Model, takes: Takes) -> bool:
    """Replace nodes by their lowerings, repeatedly; return whether any was replaced."""
    waiting = deque((node, 0) for node in model.graph.all_nodes() if operator_of(node) in LOWERINGS)
    replacement, inferred = Replacement(model, {}), True
    while waiting:
        node, depth = waiting.popleft()
        lowering = LOWERINGS.get(operator_of(node))
        if lowering is None or takes(node) or depth > _DEPTH:
            continue
        if not replacement.names:
            replacement.names = names_in_use(model)
        if any(v is not None and (v.dtype is None or v.shape is None) for v in node.inputs) and not inferred:
            infer_facts(model)  # for the result of a lowered operator that ONNX's inference does not know
            inferred = True
        made = _lowered(replacement, node, lowering, takes)
        if made is None:
            continue
        inferred = False
        waiting.extendleft((n, depth + 1) for n in reversed(list(with_inner_nodes(made))))
    if replacement.changed:
        infer_facts(model)
    return replacement.changed


def _lowered(replacement: Replacement, node: ir.Node, lowering: Lowering, takes: Takes) -> list[ir.Node] | None:
    """Replace `node` by its lowering; return the new nodes, or None if it stays."""
    opset = replacement.model.opset_imports.get("", OPSET)
    try:
        built = replacement.build(lambda g: lowering.lower(g, node), opset, location_of(node))
    except Unsupported as error:
        note_refusal(node, error.problems[0].why if error.problems else str(error))
        return None
    except (ValueError, LookupError) as error:
        if operator_of(node) not in LEARNERS:  # a fact that is unknown, such as a rank
            note_refusal(node, str(error))
            return None
        text = f"{location_of(node)}: its attributes do not fit each other or its input ({error})"
        raise BadInput(text, hint="is the file damaged?") from error
    if built is None:
        return None
    g, results = built
    for made in with_inner_nodes(list(g.graph)):
        again = operator_of(made)
        if not takes(made) and not (again in LOWERINGS or has_function(again)):
            note_refusal(node, f"it would take {again}")
            return None
    if operator_of(node) not in LEARNERS:  # the constants of a learner are what it has learnt
        add_formula_constants(replacement.model, list(g.graph.initializers))
    return replacement.place_graph(node, g, results)
