"""The clean-up of every graph between frontend and backend: folds constants, removes dead and duplicate nodes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common

from convert.graph.values import constant_integers, is_random_node
from convert.passes import run_passes
from convert.passes.tidy.distinct_axes import name_axes_once
from convert.passes.tidy.fold import fold_constants
from convert.passes.tidy.joined_slices import slice_parts
from convert.passes.tidy.stack_sequences import stack_sequences


def clean(model: ir.Model) -> bool:
    """Lift Constant nodes, fold constants, drop identities, duplicate and unused nodes.

    Returns whether anything changed.
    """
    return run_passes(model, CLEAN)


def lift_constants(model: ir.Model) -> bool:
    """Turn Constant nodes of any size into initializers."""
    return common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model).modified


def drop_identities(model: ir.Model) -> bool:
    """Remove Identity nodes, inference-mode Dropouts, and Slices that take everything.

    Returns whether any was removed.

    An Identity between a graph input and a graph output stays. PyTorch's exporter writes a Slice for each `:`, and
    inference loses the name of its dim.
    """
    modified = False
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        training = node.inputs[2] if node.op_type == "Dropout" and len(node.inputs) > 2 else None
        unmasked = len(node.outputs) == 1 or not node.outputs[1].uses()
        if node.op_type == "Dropout" and node.domain == "" and training is None and unmasked and node.graph is not None:
            if len(node.outputs) > 1 and node.outputs[1].is_graph_output():
                continue
            identity = ir.Node("", "Identity", [node.inputs[0]], num_outputs=1, name=node.name)
            value, old = identity.outputs[0], node.outputs[0]
            value.name, value.type, value.shape = old.name, old.type, old.shape
            ir.convenience.replace_nodes_and_values(node.graph, node, [node], [identity], [old], [value])
            modified = True
    nodes = ir.traversal.RecursiveGraphIterator(model.graph)
    identities = [n for n in nodes if n.domain == "" and (n.op_type == "Identity" or _takes_all(n))]
    dropped = [_drop_identity(n) for n in identities]
    return any(dropped) or modified


def _takes_all(node: ir.Node) -> bool:
    """Return whether a node is a Slice that takes all elements for every length."""
    if node.op_type != "Slice":
        return False
    starts, ends = constant_integers(node.inputs[1]), constant_integers(node.inputs[2])
    steps = constant_integers(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else []
    if starts is None or ends is None or steps is None:
        return False
    return not any(starts) and all(end >= _ENDLESS for end in ends) and all(step == 1 for step in steps)


_ENDLESS = 2**31 - 1
"""The value that exporters write for an omitted end; no dim of a tensor in memory is longer."""


def _drop_identity(node: ir.Node) -> bool:
    """Let the consumers of an Identity read its input; return whether the node was removed.

    It stays if it computes a graph output that no other node can take over. onnx_ir's own pass is not used, because it
    merges two outputs of a graph and so loses a name, and makes an outer value the output of a subgraph.
    """
    x, y = node.inputs[0], node.outputs[0]
    if x is None or node.graph is None:
        return False
    if y.is_graph_output():
        maker = x.producer()
        if x.is_graph_output() or maker is None or maker.graph is not node.graph:
            return False
        name, y.name = y.name, None
        x.name = name
    if x.type is None:
        x.type = y.type
    if x.shape is None:
        x.shape = y.shape
    ir.convenience.replace_all_uses_with(y, x, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
    return True


def share_repeated(model: ir.Model) -> bool:
    """Merge equal nodes with equal inputs (CSE), except random operators and control flow.

    Nodes that compute outputs of a graph with more than `_MANY_OUTPUTS` of them stay as well, because onnx_ir's pass
    looks through all outputs for each that it merges. Returns whether any were merged.
    """
    told_apart = []
    has_many = len(model.graph.outputs) > _MANY_OUTPUTS
    for i, node in enumerate(model.graph.all_nodes()):
        if has_many and any(y.is_graph_output() for y in node.outputs):
            own = ir.AttrInt64(_OWN, i)
        elif is_random_node(node):
            # onnx_ir's pass merges two Bernoulli, or two Dropout in training mode, although their random numbers
            # differ.
            own = ir.AttrInt64(_OWN, i)
        elif not all(y.name for y in node.outputs):
            # It also merges two LSTMs that omit different outputs.
            own = ir.AttrString(_OWN, "".join("y" if y.name else "-" for y in node.outputs))
        else:
            continue
        node.attributes.add(own)
        told_apart.append(node)
    modified = common.CommonSubexpressionEliminationPass()(model).modified
    for node in told_apart:
        node.attributes.pop(_OWN)
    return modified


_MANY_OUTPUTS = 1000
"""Merging 3,000 outputs takes a minute, and the time grows with the square."""
_OWN = "convert.own"
"""An attribute that exists only during a pass, to keep equal nodes apart."""


def drop_unused(model: ir.Model) -> bool:
    """Remove nodes and initializers that no output depends on."""
    return common.RemoveUnusedNodesPass()(model).modified


CLEAN = (
    lift_constants,
    name_axes_once,
    drop_identities,
    stack_sequences,
    slice_parts,
    fold_constants,
    share_repeated,
    drop_unused,
)
