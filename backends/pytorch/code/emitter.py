"""Runs the rules over the graph on tensors without content and records the calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported

from ..byte_containers import BYTE_CONTAINERS
from ..common import quiet
from ..dtypes import torch_dtype
from ..emit import Emitter, named_tensors
from ..kernels import any_length
from ..network import Network
from ..size_conditions import expressions
from ..state import Buffer, new_content
from ..torch_internals import DimDynamic, FakeTensorMode, enable_python_dispatcher, source_of_no_input, without_examples
from ..values import Known
from .control import code_op
from .modules import module_path
from .program import Statement, Value, Weight
from .recorder import Recorder, Sizes


@dataclass
class Program:
    """A recorded program: statements, inputs and outputs by name, and the conditions on sizes under which they hold."""

    block: list[Statement]
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    weights: list[Weight]
    symbols: Mapping[Any, Value]
    guards: list[Any]
    states: list[Kept]


@dataclass
class Kept:
    """A state: its buffer, and its values before and after a call."""

    buffer: Weight
    before: Value
    after: Value
    name: str


class CodeEmitter(Emitter):
    """An emitter that records what the rules call; weights are values with a path in the module."""

    writes_code = True

    def __init__(self, network: Network, recorder: Recorder, fakes: FakeTensorMode) -> None:
        super().__init__(network)
        self.recorder = recorder
        self.fakes = fakes
        self.weights: dict[str, Weight] = {}

    def _constant(self, x: Known) -> torch.Tensor:
        place = self.network.place_of(x.name) if self.network is not None else None
        if place is not None:
            return self._weight(place)
        if x.array.dtype.kind in "OUS":
            raise Unsupported("PyTorch has no tensors of text")
        array = x.array.astype(BYTE_CONTAINERS.get(x.array.dtype.name, x.array.dtype))
        return self.recorder.literal(array, torch_dtype(ir.DataType.from_numpy(array.dtype)))

    def _weight(self, place: str) -> torch.Tensor:
        if place not in self.weights:
            assert self.network is not None
            owner, _, last = place.rpartition(".")
            content: torch.Tensor = getattr(self.network.get_submodule(owner), last)
            with self.recorder.unrecorded():
                fake = self.fakes.from_tensor(content, static_shapes=True)
            self.weights[place] = Weight(fake, place=place, content=content)
            self.recorder.hold(self.weights[place])
        return self.weights[place].fake

    def emit_node(self, node: ir.Node, known: dict[ir.Value, Any]) -> None:
        outer, self.recorder.path = self.recorder.path, module_path(node)
        super().emit_node(node, known)
        for value in node.outputs:
            made = known.get(value)
            if isinstance(made, torch.Tensor):
                named = self.recorder.value(made)
                # An output gets its name where it is returned. In a block, the name would keep it from matching other
                # blocks.
                name = node.name if value.is_graph_output() else value.name
                named.name = named.name or str(name or "") or node.op_type
        self.recorder.path = outer

    def apply_rule(self, operator: str, inputs: Any, attributes: Any, at: Any) -> Any:
        if operator in code_op.entries:
            return code_op.apply(self, operator, inputs, attributes, at)
        return super().apply_rule(operator, inputs, attributes, at)


def record(
    model: ir.Model,
    network: Network,
    sizes: Mapping[str, int],
    buffers: Sequence[Buffer] = (),
    conditions: Sequence[str] = (),
) -> Program:
    """Record the graph of `model`, with `sizes` as the example for its dynamic dims. Raises `Unsupported`.

    conditions: on the dynamic dims by name; they become conditions of the program.
    """
    environment = Sizes()
    symbols: dict[str, Any] = {}
    origins: dict[str, Any] = {}

    def dim(n: Any) -> Any:
        if not isinstance(n, ir.SymbolicDim):
            return n
        name = str(n.value) if n.value is not None else f"dim_{len(symbols)}"
        if name not in symbols:
            source = source_of_no_input(f"dim_{len(symbols)}")
            symbol = environment.create_symbol(sizes.get(name, 7), source, dynamic_dim=DimDynamic.DYNAMIC)
            origins[name] = symbol
            symbols[name] = environment.create_symintnode(symbol, hint=sizes.get(name, 7))
        return symbols[name]

    fakes, recorder = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True), Recorder(environment)
    with ExitStack() as stack:
        stack.enter_context(without_examples())
        for context in (quiet(), any_length(), fakes, enable_python_dispatcher(), torch.no_grad(), recorder):
            stack.enter_context(context)
        emitter = CodeEmitter(network, recorder, fakes)
        inputs: dict[str, Value] = {}
        known: dict[ir.Value, Any] = {}
        for value in model.graph.inputs:
            with recorder.unrecorded():
                known[value] = torch.empty([dim(n) for n in value.shape or ()], dtype=torch_dtype(value.dtype))
            inputs[str(value.name)] = recorder.hold(Value(known[value], str(value.name)))
        names = [str(model.graph.inputs[b.input].name) for b in buffers]
        before = [inputs.pop(name) for name in names]
        found = emitter.run(model.graph, known)
        outputs: dict[str, Value] = {}
        kept = {b.output for b in buffers}
        for place, (value, y) in enumerate(zip(model.graph.outputs, found, strict=True)):
            for name, tensor in named_tensors(str(value.name), y) if place not in kept else ():
                result = recorder.value(emitter.tensor(tensor))
                # Copy, so that a caller who writes to an output does not write to a weight.
                outputs[name] = recorder.value(result.fake.clone()) if isinstance(result, Weight) else result
        states = []
        for buffer, stored, name in zip(buffers, before, names, strict=True):
            after = emitter.tensor(found[buffer.output])
            with recorder.unrecorded():
                new_content(buffer, after)
            weight = Weight(stored.fake, place=buffer.place, content=buffer.initial)
            states.append(Kept(weight, stored, recorder.value(after), name))
    _refuse_fixed_dims(environment, origins)
    guards = [*dict.fromkeys([*(guard.expr for guard in environment.guards), *expressions(conditions, symbols)])]
    return Program(recorder.block, inputs, outputs, list(emitter.weights.values()), recorder.symbols, guards, states)


def _refuse_fixed_dims(environment: Sizes, origins: Mapping[str, Any]) -> None:
    """Raise `Unsupported` for dynamic dims, given with their symbols, that were fixed while the graph was recorded."""
    whole = {*origins.values()}
    # A dim that is divisible becomes a multiple of a new symbol, and stays dynamic.
    tied = {s for s, by in environment.replacements.items() if by.is_number or by.free_symbols & whole}
    equal = {*tied, *(symbol for taken in environment.taken for symbol in taken.free_symbols)}
    fixed = [name for name, symbol in origins.items() if symbol in equal]
    if fixed:
        raise Unsupported(f"the code holds for one size only of {', '.join(fixed)}", hint="say that size with --input")
