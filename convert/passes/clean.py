"""The clean-up that every graph gets between frontend and backend: folded constants, no dead or repeated nodes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common

from convert.graph.values import constant_integers, draws_numbers
from convert.passes import run_passes
from convert.passes.distinct_axes import name_axes_once
from convert.passes.fold import fold_constants
from convert.passes.stack_sequences import stack_sequences


def clean(model: ir.Model) -> bool:
    """Lift Constant nodes, fold constants, drop identities, repeated and unused nodes; whether anything changed."""
    return run_passes(model, CLEAN)


def lift_constants(model: ir.Model) -> bool:
    """Constant nodes become initializers, whatever their size."""
    return common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model).modified


def drop_identities(model: ir.Model) -> bool:
    """Remove Identity nodes that do not tie a graph input to a graph output, Dropout nodes of inference, and Slices
    that take all there is: PyTorch's exporter writes one for each `:`, and inference loses the name of its dim."""
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
    """Whether a node is a Slice from the first element to the last of whatever length there is."""
    if node.op_type != "Slice":
        return False
    starts, ends = constant_integers(node.inputs[1]), constant_integers(node.inputs[2])
    steps = constant_integers(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else []
    if starts is None or ends is None or steps is None:
        return False
    return not any(starts) and all(end >= _ENDLESS for end in ends) and all(step == 1 for step in steps)


_ENDLESS = 2**31 - 1
"""What exporters write for an end that is left out; no dim of a tensor in memory is longer."""


def _drop_identity(node: ir.Node) -> bool:
    """Let the users of an Identity read its input; keep it where it gives a graph output that has no other maker.

    (onnx_ir's own pass merges two outputs of a graph into one and loses a name, and makes an outer value the output of
    a subgraph.)
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
    """Equal nodes with equal inputs become one (random operators and control flow excepted)."""
    told_apart = []
    for i, node in enumerate(model.graph.all_nodes()):
        if draws_numbers(node):
            # onnx_ir's pass takes two Bernoulli, or two Dropout in training, for one: what they draw is not the same.
            own = ir.AttrInt64(_OWN, i)
        elif not all(y.name for y in node.outputs):
            # It takes two LSTM for one, of which each leaves an output out that the other gives.
            own = ir.AttrString(_OWN, "".join("y" if y.name else "-" for y in node.outputs))
        else:
            continue
        node.attributes.add(own)
        told_apart.append(node)
    modified = common.CommonSubexpressionEliminationPass()(model).modified
    for node in told_apart:
        node.attributes.pop(_OWN)
    return modified


_OWN = "convert.own"
"""An attribute that is there during a pass only, and tells nodes apart."""


def drop_unused(model: ir.Model) -> bool:
    """Remove nodes and initializers that no output depends on."""
    return common.RemoveUnusedNodesPass()(model).modified


CLEAN = (
    lift_constants,
    name_axes_once,
    drop_identities,
    stack_sequences,
    fold_constants,
    share_repeated,
    drop_unused,
)
