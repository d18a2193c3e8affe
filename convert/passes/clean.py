"""The clean-up that every graph gets between frontend and backend: folded constants, no dead or repeated nodes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common

from convert.passes import run
from convert.passes.fold import fold_constants


def clean(model: ir.Model) -> bool:
    """Lift Constant nodes, fold constants, drop identities, repeated and unused nodes; whether anything changed."""
    return run(CLEAN, model)


def lift_constants(model: ir.Model) -> bool:
    """Constant nodes become initializers, whatever their size."""
    return common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model).modified


def drop_identities(model: ir.Model) -> bool:
    """Remove Identity nodes that do not tie a graph input to a graph output, and Dropout nodes of inference."""
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
    return common.IdentityEliminationPass()(model).modified or modified


def share_repeated(model: ir.Model) -> bool:
    """Equal nodes with equal inputs become one (random operators and control flow excepted)."""
    return common.CommonSubexpressionEliminationPass()(model).modified


def drop_unused(model: ir.Model) -> bool:
    """Remove nodes and initializers that no output depends on."""
    return common.RemoveUnusedNodesPass()(model).modified


CLEAN = (lift_constants, drop_identities, fold_constants, share_repeated, drop_unused)
