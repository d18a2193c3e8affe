"""Restores forward's names of inputs in a captured program, because torch.export lowercases them."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from ..torch_internals import pytree
from .arguments import arrange_arguments


def restore_names(program: ExportedProgram, module: nn.Module, names: Iterable[str]) -> None:
    """Rename the inputs of `program` to `names`, those of the examples that `module` was captured with, in place.

    torch.export turns `X` and `x` into `x` and `x_1`.
    """
    ordered = pytree.tree_leaves(arrange_arguments(module, {name: name for name in names}))
    specs = [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    if len(ordered) != len(specs) or all(name == name.lower() for name in ordered):
        return
    new = {spec.arg.name: name for spec, name in zip(specs, ordered, strict=True)}
    others = {node.name for node in program.graph.nodes} - new.keys()
    if others & set(new.values()):
        return
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in new:
            node.name = node.target = new[node.name]
    calls = [entry.signature for entry in program.module_call_graph if entry.signature is not None]
    results = program.graph_signature.output_specs
    ends = [*(s.arg for s in (*specs, *results)), *(a for call in calls for a in (*call.inputs, *call.outputs))]
    for end in {id(end): end for end in ends}.values():
        end.name = new.get(end.name, end.name)
    for result in results:  # an input that forward writes to
        result.target = new.get(str(result.target), result.target)
    program.graph_module.recompile()
