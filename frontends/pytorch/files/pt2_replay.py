"""Finds what contradicts itself in an exported program, by running its operators on tensors without content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from ..torch_internals import FakeTensorMode, OpOverload, pytree

_OF_DATA = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")
"""Errors of operators whose results depend on data, which tensors without content do not have."""


def find_contradiction(program: ExportedProgram) -> str:
    """Return the first contradiction in a program, or "".

    The file describes each tensor beside the operator that makes it. An operator that rejects its inputs as described,
    or makes another shape or dtype than described, contradicts the file, and so does a weight of another shape.
    """
    return next(_contradictions(program), "")


def _contradictions(program: ExportedProgram) -> Iterator[str]:
    try:
        _ = program.call_spec
    except Exception as error:
        yield f"its signature: {_first_line(error)}"
    described = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    signature = program.graph_signature
    for name, weight in {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.items():
        loaded = program.state_dict.get(weight, program.constants.get(weight))
        if text := _difference(loaded, described.get(name)):
            yield f"the weight {weight} is {text}"
    for node in program.graph.nodes:
        known = all("val" in each.meta for each in node.all_input_nodes)
        if known and node.op == "call_function" and isinstance(node.target, OpOverload):
            yield from _of_node(node)


def _of_node(node: torch.fx.Node) -> Iterator[str]:
    """Yield the error of a node's operator, or each result that differs from its description."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
    described = node.meta.get("val")
    modes = [leaf.fake_mode for leaf in pytree.tree_leaves((args, kwargs, described)) if hasattr(leaf, "fake_mode")]
    try:
        with torch.no_grad(), modes[0] if modes else FakeTensorMode():
            found = node.target(*args, **kwargs)  # type: ignore[operator]
    except Exception as error:
        if type(error).__name__ not in _OF_DATA:
            yield f"{node.name}: {_first_line(error)}"
        return
    lists = isinstance(found, (list, tuple)) and isinstance(described, (list, tuple))
    pairs: list[tuple[Any, Any]] = [*zip(found, described or (), strict=False)] if lists else [(found, described)]
    for one, other in pairs:
        if text := _difference(one, other):
            yield f"{node.name} makes {text}"


def _difference(found: Any, described: Any) -> str:
    """Return both shapes and dtypes, if both are tensors that differ in the dtype, the rank or a known size."""
    if not isinstance(found, torch.Tensor) or not isinstance(described, torch.Tensor):
        return ""
    known = [(a, b) for a, b in zip(found.shape, described.shape, strict=False) if type(a) is type(b) is int]
    if found.dtype == described.dtype and found.dim() == described.dim() and all(a == b for a, b in known):
        return ""
    return f"{_described(found)}, described as {_described(described)}"


def _described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape[:8]))}]"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"[:300]
