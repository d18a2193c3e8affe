"""Inlines the regions of `torch.enable_grad()` in forward, so that decompositions see them."""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch.export import ExportedProgram

from ...torch_internals import set_graph

_REGION = torch.ops.higher_order.wrap_with_set_grad_enabled


def without_grad_regions(program: ExportedProgram) -> ExportedProgram:
    """Return the program with regions that switch gradients on or off inlined.

    PyTorch 2.13 fails to decompose a program that switches them on ("list index out of range"), and no gradients are
    left to compute. The given program is not changed.
    """
    if not any(node.target is _REGION for node in program.graph.nodes):
        return program
    program = copy.copy(program)
    set_graph(program, copy.deepcopy(program.graph_module), copy.deepcopy(program.graph_signature))
    module: Any = program.graph_module
    while regions := [node for node in module.graph.nodes if node.target is _REGION]:
        for node in regions:
            _inline(program, module, node)
    module.graph.eliminate_dead_code()
    module.recompile()
    return program


def _inline(program: ExportedProgram, module: Any, node: Any) -> None:
    inner: Any = module.get_submodule(node.args[1].target)
    given = iter(node.args[2:])
    known: dict[torch.fx.Node, Any] = {}
    results: Any = ()
    with module.graph.inserting_before(node):
        for part in inner.graph.nodes:
            if part.op == "placeholder":
                known[part] = next(given)
            elif part.op == "output":
                results = torch.fx.map_arg(part.args[0], known.__getitem__)
            else:
                known[part] = module.graph.node_copy(part, known.__getitem__)
                if part.op == "get_attr":
                    known[part].target = f"{node.args[1].target}.{part.target}"
    for user in list(node.users):
        if user.target is not operator.getitem:
            raise AssertionError("a region gives a tuple")
        found = results[user.args[1]]
        user.replace_all_uses_with(found)
        program.graph_signature.replace_all_uses(user.name, found.name)
        module.graph.erase_node(user)
    module.graph.erase_node(node)
