"""Regions of `torch.autocast("cpu")`: finds the casts that PyTorch makes there, which a captured program does not show.

PyTorch itself decides which operands an operator narrows or widens: the operator runs on the capture's fake tensors
with autocast on, and the casts are recorded. Halves are held in float32 and rounded where PyTorch rounds, because its
CPU kernels compute this way and CPU runtimes have few bfloat16 kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from convert.errors import Unsupported
from convert.graph import Graph

from ...common.locate import Locator
from ...common.values import onnx_dtype
from ...dispatch import KEEPING
from ...torch_internals import (
    HigherOrderOperator,
    OpOverload,
    TorchDispatchMode,
    guards_left_out,
    has_kernel,
    pytree,
    schema_of,
)

REGION = "wrap_with_autocast"
_CASTS = frozenset({"aten::to", "aten::_to_copy", "aten::type_as"})


@dataclass(frozen=True)
class Autocast:
    """The effect of autocast on one program.

    casts: the operands that a node gets in another dtype, by node. halves: the dtypes that are held in float32.
    """

    casts: Mapping[torch.fx.Node, Mapping[torch.fx.Node, torch.dtype]]
    halves: frozenset[ir.DataType]

    def operand(self, g: Graph, node: torch.fx.Node, operand: torch.fx.Node, value: Any) -> Any:
        """Return the value of `operand` as `node` gets it."""
        dtype = self.casts.get(node, {}).get(operand)
        if dtype is None or not isinstance(value, ir.Value):
            return value
        return self.widen(g, g.Cast(value, to=onnx_dtype(dtype)))

    def widen(self, g: Graph, value: Any) -> Any:
        """Return a half-precision result, or each of a list of them, in float32."""
        if isinstance(value, (list, tuple)):
            return [self.widen(g, item) for item in value]
        if isinstance(value, ir.Value) and value.dtype in self.halves:
            return g.Cast(value, to=ir.DataType.FLOAT)
        return value

    def expected(self, node: torch.fx.Node, name: str) -> Any:
        """Return capture's fake result of `node`; in float32 if the node only selects among rounded elements."""
        fake = node.meta.get("val")
        if not self.halves or name.removeprefix("aten::").rstrip("_") not in KEEPING:
            return fake
        return pytree.tree_map_only(torch.Tensor, lambda t: _widened(t, self.halves), fake)

    def check(self, name: str, overload: str) -> None:
        """Raise `Unsupported` for an operator that depends on the bits of a half."""
        if self.halves and (name, overload) == ("aten::view", "dtype"):
            raise Unsupported("view of the bits of a tensor in a program with autocast")


NONE = Autocast({}, frozenset())


def find_autocast(program: ExportedProgram, locate: Locator) -> Autocast:
    """Return what autocast does in `program`. Raises `Unsupported` for operators that it narrows partly."""
    dtypes = {dtype for _, dtype in _nodes(program.graph_module, None) if dtype is not None}
    if not dtypes:
        return NONE
    casts = {}
    with guards_left_out(program):  # attention asks for the value of a size, up to PyTorch 2.12
        for node, dtype in _nodes(program.graph_module, None):
            if dtype is not None and isinstance(node.target, OpOverload):
                found = _casts_of(node, dtype, locate)
                if found:
                    casts[node] = found
    return Autocast(casts, frozenset(onnx_dtype(dtype) for dtype in dtypes))


def _widened(fake: torch.Tensor, halves: frozenset[ir.DataType]) -> torch.Tensor:
    """Return the fake tensor, in float32 if it has one of `halves`."""
    return fake.to(torch.float32) if onnx_dtype(fake.dtype) in halves else fake


def _nodes(
    module: torch.fx.GraphModule, dtype: torch.dtype | None
) -> Iterator[tuple[torch.fx.Node, torch.dtype | None]]:
    """Yield every call of the program, including nested regions, with the dtype that autocast narrows to there, if
    any.
    """
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        yield node, dtype
        if not isinstance(node.target, HigherOrderOperator):
            continue
        inside = dtype
        if node.target.name() == REGION and node.args[0] == "cpu":
            inside = node.args[1] if node.args[2] else None
        for argument in node.args:
            if isinstance(argument, torch.fx.Node) and argument.op == "get_attr":
                region = getattr(module, str(argument.target), None)
                if isinstance(region, torch.fx.GraphModule):
                    yield from _nodes(region, inside)


class _Watch(TorchDispatchMode):
    """Records every cast of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.casts: list[tuple[torch.Tensor, torch.dtype]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default and (kwargs or {}).get("dtype") is not None:
            self.casts.append((args[0], kwargs["dtype"]))
        return func(*args, **(kwargs or {}))


def _casts_of(node: torch.fx.Node, dtype: torch.dtype, locate: Locator) -> dict[torch.fx.Node, torch.dtype]:
    """Return the operands of an operator that autocast passes in another dtype."""
    target: Any = node.target
    name = schema_of(target).name
    if name in _CASTS or any("val" not in n.meta for n in node.all_input_nodes):
        return {}
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    if not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves((args, kwargs))):
        return {}
    inside = not has_kernel(_full_name(target), "AutocastCPU")
    known = True
    with torch.no_grad(), torch.autocast("cpu", dtype, cache_enabled=False), _Watch() as watch:
        try:
            target(*args, **kwargs)
        except RuntimeError:  # kernels that autocast calls inside an operator need sizes that are numbers
            known = False
    if not known or (inside and any(m == dtype and given.dtype == torch.float32 for given, m in watch.casts)):
        raise Unsupported(
            f"autocast computes parts of this operator in {dtype}, inside of it",
            hint='keep it out of autocast: with torch.autocast("cpu", enabled=False)',
        ).with_location(locate(node, name.removeprefix("aten::")))
    if inside:
        return {}
    found: dict[torch.fx.Node, torch.dtype] = {}
    for operand in node.all_input_nodes:
        fakes = pytree.tree_leaves(operand.meta["val"])
        for given, made in watch.casts:
            if len(fakes) == 1 and given is fakes[0]:
                found.setdefault(operand, made)
    return found


def _full_name(target: Any) -> str:
    name, overload = schema_of(target).name, schema_of(target).overload_name
    return f"{name}.{overload}" if overload else str(name)
