"""Runs the rules over the graph in order while torch.export captures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

from convert import limits
from convert.errors import ConvertError, Location, ResourceLimit, Unsupported
from convert.graph import location_of
from convert.graph.values import constant, nodes_of, used_values
from convert.rules.emitter import GraphEmitter, Subgraph, check_coverage

from . import ops  # noqa: F401  (fills the table)
from .common import own_tensor
from .dtypes import FLOAT8, SCARCE, tensor_from, torch_dtype
from .network import Network
from .rules import host_inputs, onnx_op, operator_of
from .sizes import size_arithmetic
from .torch_internals import GuardOnDataDependentSymNode
from .values import Known, Sizes

Value: TypeAlias = Any
"""A tensor, a Known, a Sizes, a list of tensors (a sequence), or None (absent)."""

_ON_DATA = "PyTorch cannot capture it, because a size or a choice depends on the values of a tensor"


class Emitter(GraphEmitter):
    """The argument `t` of rules: they call PyTorch directly, and use `t` for facts that are known during capture."""

    writes_code = False
    """Whether the calls of the rules are recorded as readable code."""

    def __init__(self, network: Network | None) -> None:
        super().__init__()
        self.network = network
        self.branches = 0
        """Number of control-flow operators being captured around the current node."""

    # -- what is known ------------------------------------------------------------------------------------------------

    def tensor(self, x: Value) -> torch.Tensor:
        """Return a rule's argument as a tensor; a weight is the parameter or buffer of the module."""
        if isinstance(x, Known):
            return self._constant(x)
        if isinstance(x, Sizes):
            dtype = torch_dtype(ir.DataType.from_numpy(x.dtype))
            parts = [torch.scalar_tensor(n, dtype=dtype) for n in x.array.ravel()]
            return torch.stack(parts).reshape(x.shape) if parts else torch.zeros(x.shape, dtype=dtype)
        return x

    def _constant(self, x: Known) -> torch.Tensor:
        stored = self.network.tensor_named(x.name) if self.network is not None else None
        if stored is not None:
            return stored
        if x.array.dtype.kind in "OUS":
            raise Unsupported("PyTorch has no tensors of text")
        if self.branches and 0 < x.array.size <= SMALL:  # a branch cannot have constants
            dtype = torch_dtype(ir.DataType.from_numpy(x.array.dtype))
            return torch.stack([_number(n, dtype) for n in x.array.ravel()]).reshape(x.shape)
        made = tensor_from(x.array)
        if not made.numel():  # torch.export.load fails on a constant without elements
            return torch.zeros(x.shape, dtype=made.dtype)
        if made.dim() == 0 and made.dtype in _PLAIN:
            return torch.full((), x.array.item(), dtype=made.dtype)
        return made

    def static(self, x: Value) -> np.ndarray | None:
        """Return the content of a constant, else None."""
        return x.array if isinstance(x, Known) else None

    def ints(self, x: Value) -> list[Any]:
        """Return a vector or scalar of integers as Python numbers, symbols of sizes, and symbols of run-time values.

        Raises `ResourceLimit` for more run-time values than any operator needs, because each costs more than those
        before it.
        """
        if isinstance(x, Known):
            return [int(n) for n in x.array.ravel()]
        if isinstance(x, Sizes):
            return list(x.array.ravel())
        count = x.numel()
        if isinstance(count, int) and count > limits.COMPUTED_SIZES:
            at = "" if self.node is None else f"{location_of(self.node)}: "
            text = f"{at}{count:,} sizes that a run computes are more than the {limits.COMPUTED_SIZES} that are taken"
            raise ResourceLimit(text, hint="a program can set convert.limits.COMPUTED_SIZES")
        x = x if x.dtype == torch.int64 else x.to(torch.int64)
        return list((x if x.dim() == 1 else x.reshape(-1)).tolist()) if x.dim() else [x.item()]

    def number(self, x: Value) -> Any:
        """Return a single integer as `ints` does."""
        return self.ints(x)[0]

    def known_ints(self, x: Value, what: str) -> list[int]:
        """Return a constant vector. Raises `Unsupported` about `what` if it is computed at run time."""
        if isinstance(x, Known):
            return [int(n) for n in x.array.ravel()]
        raise Unsupported(f"{what} computed at run time")

    def dtype(self, index: int = 0) -> torch.dtype:
        """Return the dtype of an output of the current node in the graph."""
        assert self.node is not None
        return torch_dtype(self.node.outputs[index].dtype)

    # -- graphs -------------------------------------------------------------------------------------------------------

    def weight(self, value: ir.Value) -> Known:
        assert value.const_value is not None
        return Known(value.const_value.numpy(), value.name or "")

    def emit_node(self, node: ir.Node, known: dict[ir.Value, Value]) -> None:
        if node.op_type != "Constant" or node.outputs[0] not in known:  # a large constant is an operand of its branch
            super().emit_node(node, known)

    def apply(self, node: ir.Node, inputs: list[Value], attributes: dict[str, Any], at: Location) -> Any:
        sizes = size_arithmetic(node, inputs)
        if sizes is not None:
            return sizes
        try:
            return self.apply_rule(operator_of(node), inputs, attributes, at)
        except ConvertError as error:
            if isinstance(error.__cause__, GuardOnDataDependentSymNode):
                raise Unsupported(_ON_DATA).with_location(at) from error
            raise

    def apply_rule(self, operator: str, inputs: Sequence[Value], attributes: dict[str, Any], at: Location) -> Any:
        """Run the rule of an operator, with tensors for the inputs that it does not take as host values."""
        entry = onnx_op.entries.get(operator)
        if entry is not None:
            kept, names = host_inputs(entry.rule), entry.positional
            inputs = [
                x if (names[i] if i < len(names) else "*") in kept else self.tensor(x) for i, x in enumerate(inputs)
            ]
        return onnx_op.apply(self, operator, inputs, attributes, at)

    def in_graph(self, value: ir.Value, made: Value) -> Value:
        """Return a rule's result in the dtype of the graph; some results are computed in a wider one."""
        if isinstance(made, (np.ndarray, np.generic)):
            return Known(np.asarray(made), value.name or "")
        if isinstance(made, torch.Tensor) and isinstance(value.type, ir.TensorType) and value.dtype is not None:
            wanted = torch_dtype(value.dtype)
            return made if made.dtype == wanted else made.to(wanted)
        return made

    def subgraph(self, graph: ir.Graph, around: dict[ir.Value, Value]) -> SubgraphFunction:
        return SubgraphFunction(self, graph, around)


def _number(x: np.generic, dtype: torch.dtype) -> torch.Tensor:
    """Return a constant of one element, created where it is used. PyTorch cannot fill some dtypes that it stores."""
    content = complex(x) if dtype.is_complex else float(x) if dtype.is_floating_point else int(x.astype(np.int64))
    if dtype in FLOAT8 or dtype in SCARCE:
        return torch.full((), content, dtype=torch.float32 if dtype in FLOAT8 else torch.int64).to(dtype)
    return torch.full((), bool(x) if dtype == torch.bool else content, dtype=dtype)


SMALL = 64
_PLAIN = (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)


class SubgraphFunction(Subgraph):
    """A subgraph as a function of its inputs; it is called in place, or with the outer values as operands."""

    def __init__(self, emitter: Emitter, graph: ir.Graph, around: Mapping[ir.Value, Value]) -> None:
        super().__init__(emitter, graph, around)
        own = {*graph.inputs, *graph.initializers.values(), *(v for n in nodes_of(graph) for v in n.outputs)}
        used = [v for n in nodes_of(graph) for v in used_values(n)]
        outer = [v for v in dict.fromkeys([*used, *graph.outputs]) if v not in own and v in self.around]
        self.operands = {v: emitter.tensor(self.around[v]) for v in outer if _is_operand(self.around[v])}
        """The outer tensors that the subgraph uses, and its own large constants."""
        inner = [n.outputs[0] for n in nodes_of(graph) if n.op_type == "Constant" and not n.domain]
        for value in (*graph.initializers.values(), *inner):
            content = constant(value)
            known = self.around.get(value, None if content is None else Known(content.numpy(), value.name or ""))
            if _is_operand(known):
                self.operands[value] = emitter.tensor(known)

    def with_operands(self, inputs: Sequence[Value], operands: Sequence[torch.Tensor]) -> list[Any]:
        """Return the outputs as new tensors, for control-flow operators, which see all tensors as operands.

        A sequence gives a list of tensors.
        """
        known = {**self.around, **dict(zip(self.graph.inputs, inputs, strict=True))}
        known.update(zip(self.operands, operands, strict=True))
        self.emitter.branches += 1
        found = self.emitter.run(self.graph, known)

        def own(value: Value) -> Any:
            return [own(x) for x in value] if isinstance(value, list) else own_tensor(self.emitter.tensor(value))

        results = [own(y) for y in found]
        self.emitter.branches -= 1
        return results


def _is_operand(x: Value) -> bool:
    if isinstance(x, Known):
        plain = x.array.dtype.kind in "ib" and x.array.dtype.itemsize in (1, 4, 8)
        return x.array.dtype.kind not in "OUS" and x.array.size > (SMALL if plain else 1)
    return isinstance(x, torch.Tensor)


def check(model: ir.Model) -> None:
    """Raise one `Unsupported` that lists every operator without a rule, or for a dtype that PyTorch lacks."""
    check_coverage(model, onnx_op, torch_dtype)


def named_tensors(name: str, value: Value) -> list[tuple[str, Value]]:
    """Return an output under its name, or the elements of a sequence as `name_0`, `name_1` …. Raises `Unsupported`."""
    if isinstance(value, list):
        return [pair for i, x in enumerate(value) for pair in named_tensors(f"{name}_{i}", x)]
    if value is None:
        raise Unsupported(f"the output {name!r} is an optional that holds nothing")
    return [(name, value)]
