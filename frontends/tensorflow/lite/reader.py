"""Reads TensorFlow Lite files: subgraphs into the shared graph, with quantized tensors between Q and DQ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import limits
from convert.errors import (
    BadInput,
    ConvertError,
    Location,
    Problem,
    ResourceLimit,
    Unsupported,
    UsageError,
    contradiction,
)
from convert.graph import Graph
from convert.graph.inputs import Bounds, match_specs
from convert.graph.metadata import DIMS_KEY, LAYOUT_KEY, state_output
from convert.graph.tensors import dims_of
from convert.graph.written_numbers import record_written_numbers
from convert.outcome.note_codes import ACTION
from convert.outcome.notes import Note
from convert.outcome.report import Report
from convert.passes.tidy.clean import drop_unused
from convert.patterns.layers import find_layers
from convert.request.options import Options
from convert.request.source import Source
from convert.rules import Argument, Schema

from ..common.dims import NamingGraph
from ..common.unify_dims import name_input_dims, share_names
from ..graph.protos import open_buffer
from ..graph.refused import refuse_unsafe
from ..graph.state import describe_state, output_states
from ..program import ProgramInput, add_described_input, note_renamed
from ..rules import tf_op
from ..runner.names import distinct_names, tensor_names
from . import ops  # noqa: F401  (fills the table)
from .file import LiteModel, Operator, Signature, Subgraph, Tensor, parse_lite_model
from .file_metadata import described_tensors
from .quantization import INTEGERS, dequantize, quantize
from .rules import AS_STORED, activation_behind, apply_node, tflite_op
from .state import (
    PASSING,
    RESOURCES,
    STEPS,
    LiteVariable,
    Resources,
    changed_variables,
    check_resource_inputs,
    initializers_of,
    state_names,
    subgraphs_of,
)

_ACTIVATION = "fused_activation_function"

# Options that say how a kernel works or repeat facts of its inputs, but do not change the result.
_IMMATERIAL = frozenset(
    {"pot_scale_int16", "asymmetric_quantize_inputs", "quantized_bias_type", "values_count", "num_splits", "num",
     "in_data_type", "out_data_type", "validate_indices", "depth_multiplier", "quant_spec"}
)  # fmt: skip


def read_lite(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the shared graph of a `.tflite` file. Raises `BadInput`, `Unsupported`, `UsageError`."""
    data = open_buffer(source.file)
    model = parse_lite_model(data, source.label)
    for line in described_tensors(data):
        note = Note(f"metadata: {line}", code="file-metadata", level=_shown_in(report))
        report.note(note)
    wanted = select_signature(model, options.signature)
    if len(model.signatures) > 1 and not options.signature:
        keys = ", ".join(s.key for s in model.signatures)
        report.note(f"signature {wanted.key!r} of {keys} (--signature NAME chooses another)", code="chosen-signature")
    walker = SubgraphWalker(model)
    walker.check(wanted.subgraph)
    graph = model.subgraphs[wanted.subgraph]
    g = NamingGraph(graph.name or "main")
    taken = dict.fromkeys(wanted.outputs, 0)  # named after the outputs, whatever the tensors are called
    note_renamed(wanted.inputs, wanted.outputs, report)
    g.reserve(taken)
    bounds: Bounds = {}
    specs = match_specs(list(wanted.inputs), options.inputs)
    arguments: dict[int, ir.Value] = {}
    shapes = name_input_dims({name: graph.tensors[number].shape for name, number in wanted.inputs.items()}, specs)
    for name, number in wanted.inputs.items():
        described = ProgramInput(name, graph.tensors[number].number, graph.tensors[number].shape)
        arguments[number] = add_described_input(g, described, shapes[name], specs.get(name), bounds)
    if missing := [n for n in graph.inputs if n not in arguments]:
        raise BadInput(f"the signature {wanted.key!r} has no name for the input {graph.tensors[missing[0]].name!r}")
    states = walker.add_states(g, wanted)
    befores = [state.read(g) for state in states]
    taken |= {state_output(state.state): 0 for state in states}
    values = walker.run(g, graph, arguments)
    for name, number in wanted.outputs.items():
        del taken[name]
        g.output(tensor_value(values, graph, number), name)
    kept = output_states(g, states, befores, taken, bounds, report)
    result = g.model()
    if kept:
        describe_state(result, kept, report)
    drop_unused(result)
    share_names(result, specs, bounds, report)
    record_written_numbers(result.graph.initializers.values())
    find_layers(result)
    result.metadata_props[LAYOUT_KEY] = "nhwc"
    if bounds:
        result.metadata_props[DIMS_KEY] = json.dumps(bounds)
    _note_hybrid_weights(model, report)
    if walker.disagreeing:
        report.note(
            "the file states sizes that its operators do not give, and the interpreter goes by the operators: "
            + "; ".join(walker.disagreeing[:4]),
            code="contradiction",
        )
    return result


def _shown_in(report: Report) -> str:
    """Return the level of notes on a file's metadata: `action` for `inspect`, the level of their code elsewhere."""
    return ACTION if report.command == "inspect" else ""


def select_signature(model: LiteModel, key: str) -> Signature:
    """Return the signature to read, with inputs and outputs in the subgraph's order, and tensor names if there is none.

    An output with the name of an input gets `_output` appended.
    """
    if not model.signatures:
        if key:
            raise UsageError(f"no signature {key!r}", hint="the file has none")
        graph = model.subgraphs[0]
        ends = (graph.inputs, graph.outputs)
        names = tensor_names(*([graph.tensors[n].name for n in numbers] for numbers in ends))
        return Signature("", 0, *(dict(zip(*side, strict=True)) for side in zip(names, ends, strict=True)))
    keys = {s.key: s for s in model.signatures}
    wanted = key or ("serving_default" if "serving_default" in keys else next(iter(keys)) if len(keys) == 1 else None)
    if wanted is None:
        raise UsageError("the file has several signatures", hint=f"choose one with --signature: {', '.join(keys)}")
    if wanted not in keys:
        raise UsageError(f"no signature {key!r}", hint=f"signatures: {', '.join(keys)}")
    found = keys[wanted]
    graph = model.subgraphs[found.subgraph]
    sides = [
        dict(sorted(side.items(), key=lambda item: order.index(item[1]) if item[1] in order else len(order)))
        for side, order in ((found.inputs, graph.inputs), (found.outputs, graph.outputs))
    ]
    names = distinct_names(*sides)
    sides = [dict(zip(own, side.values(), strict=True)) for own, side in zip(names, sides, strict=True)]
    return Signature(found.key, found.subgraph, *sides)


def _note_hybrid_weights(model: LiteModel, report: Report) -> None:
    """Note 8-bit weights with float activations: the interpreter rounds the activations too, the graph does not."""
    for graph in model.subgraphs:
        for operator in graph.operators:
            inputs = [graph.tensors[n] for n in operator.inputs if n >= 0]
            hybrid = any(t.content is not None and t.quantization and t.dtype in INTEGERS for t in inputs)
            if hybrid and any(graph.tensors[n].number == 1 for n in operator.outputs) and operator.name in _HYBRID:
                report.note(
                    "8-bit weights with float activations: the graph does not round activations as it runs",
                    code="float-activations",
                )
                return


_HYBRID = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "UNIDIRECTIONAL_SEQUENCE_LSTM"})


def tensor_value(values: dict[int, ir.Value], graph: Subgraph, number: int) -> ir.Value:
    """Return the value of a tensor. Raises `BadInput` if no operator has computed it."""
    if number not in values:
        raise BadInput(f"the tensor {graph.tensors[number].name!r} is used before anything makes it")
    return values[number]


@dataclass(frozen=True)
class SubgraphRegion:
    """A subgraph named by an option, which rules write where they need it: `branch(g, *arguments)`."""

    walker: SubgraphWalker
    number: int

    @property
    def subgraph(self) -> Subgraph:
        return self.walker.model.subgraphs[self.number]

    def changed(self, *arguments: Any) -> list[LiteVariable]:
        """Return the variables that it changes."""
        given = {n: v for n, v in zip(self.subgraph.inputs, arguments, strict=False) if isinstance(v, LiteVariable)}
        return changed_variables(self.walker.model, self.walker.resources, self.number, given)

    def __call__(self, g: Graph, *arguments: ir.Value) -> list[ir.Value]:
        graph = self.subgraph
        values = self.walker.run(g, graph, dict(zip(graph.inputs, arguments, strict=True)))
        return [tensor_value(values, graph, n) for n in graph.outputs]


@dataclass(frozen=True)
class SubgraphWalker:
    """Writes subgraphs of one file to the shared graph."""

    model: LiteModel
    disagreeing: list[str] = field(default_factory=list)
    """Tensors whose declared size differs from their operators' result, as text."""
    resources: Resources = field(default_factory=Resources)

    def check(self, number: int) -> None:
        """Raise for everything that cannot be lowered in a subgraph and its callees: `Unsupported` lists operators."""
        self._count(number, {}, ())
        seen: dict[int, Subgraph] = {}
        stack = [number]
        while stack:
            current = stack.pop()
            if current not in seen:
                seen[current] = self.model.subgraphs[current]
                stack += [n for operator in seen[current].operators for n in self._callees(operator)]
        _check_rules([(o, location(graph, o)) for graph in seen.values() for o in graph.operators])

    def _callees(self, operator: Operator) -> list[int]:
        found = subgraphs_of(operator)
        if any(not 0 <= n < len(self.model.subgraphs) for n in found):
            raise BadInput(f"{operator.name} calls a subgraph that the file does not hold")
        return found

    def _count(self, number: int, sizes: dict[int, int], path: tuple[int, ...]) -> int:
        """Return how many operators a subgraph expands to, counted without expanding it."""
        if number in path:
            raise BadInput(f"subgraph {number} calls itself")
        if len(path) > limits.TFLITE_CALL_DEPTH:
            raise BadInput(f"subgraphs call each other {limits.TFLITE_CALL_DEPTH} deep")
        if number not in sizes:
            operators = self.model.subgraphs[number].operators
            size = len(operators)
            for operator in operators:
                for callee in self._callees(operator):
                    size += self._count(callee, sizes, (*path, number))
            if size > limits.TFLITE_OPERATORS:
                raise BadInput(f"the file expands to more than {limits.TFLITE_OPERATORS:,} operators")
            sizes[number] = size
        return sizes[number]

    def add_states(self, g: Graph, wanted: Signature) -> list[LiteVariable]:
        """Return the variables that a signature changes, each with a graph input for its previous value.

        Subgraphs of CALL_ONCE are evaluated first, because they set the initial values.
        """
        initializers = initializers_of(self.model, wanted.subgraph)
        self.resources.filling = True
        for number in initializers:
            self.run(NamingGraph("initializer"), self.model.subgraphs[number], {})
        self.resources.filling = False
        changed = changed_variables(self.model, self.resources, wanted.subgraph, {}, wanted.subgraph)
        names = state_names(changed, [*wanted.inputs, *wanted.outputs])
        for state in changed:
            state.state, state.home = names[state], g
            if state.filled:
                state.value = g.input(state.state, state.tensor.dtype, dims_of(state.tensor))
        return [state for state in changed if state.filled]

    def run(self, g: Graph, graph: Subgraph, arguments: dict[int, ir.Value]) -> dict[int, ir.Value]:
        """Write a subgraph's operators; return the values of its tensors by number, as they are stored."""
        values = dict(arguments)
        for number, tensor in enumerate(graph.tensors):
            if tensor.content is not None and number not in values:
                values[number] = g.initializer(tensor.name or "const", tensor.content)
        made = {number for operator in graph.operators for number in operator.outputs}
        used = {n for operator in graph.operators for n in operator.inputs if n >= 0}
        for number in sorted(used - values.keys() - made):
            if (nothing := _nothing(graph.tensors[number])) is not None:
                values[number] = g.initializer(graph.tensors[number].name or "nothing", nothing)
        real: dict[int, ir.Value] = {}
        for operator in graph.operators:
            with g.at(location(graph, operator)):
                self._operator(g, graph, operator, values, real)
        return values

    def _operator(
        self, g: Graph, graph: Subgraph, operator: Operator, values: dict[int, ir.Value], real: dict[int, ir.Value]
    ) -> None:
        if not (operator.outputs and operator.inputs) and operator.name not in RESOURCES | PASSING:
            raise BadInput(f"a {operator.name} without inputs or without outputs")
        stored = operator.name in AS_STORED
        inputs: list[Any] = []
        for number in operator.inputs:
            if number >= 0 and graph.tensors[number].variable and operator.name in STEPS:
                inputs.append(self.resources.variable_tensor(number, graph.tensors[number]))
                continue
            if number < 0 or graph.tensors[number].variable:  # a state always starts at zero, so rules do not get it
                inputs.append(None)
                continue
            raw, tensor = tensor_value(values, graph, number), graph.tensors[number]
            if stored or tensor.quantization is None or tensor.dtype is None:
                inputs.append(raw)
                continue
            if number not in real:
                real[number] = dequantize(g, raw, tensor)
            inputs.append(real[number])
        check_resource_inputs(operator, inputs)
        results = self._results(g, graph, operator, inputs)
        if len(results) < len(operator.outputs):
            raise BadInput(f"{operator.name} has {len(operator.outputs)} outputs instead of {len(results)}")
        for number, result in zip(operator.outputs, results, strict=False):
            tensor = graph.tensors[number]
            if not isinstance(result, ir.Value):  # a handle
                values[number] = result
                continue
            narrow = not stored and tensor.quantization is not None and tensor.dtype in INTEGERS
            if narrow and result.dtype != tensor.dtype:
                assert tensor.quantization is not None
                assert tensor.dtype is not None
                result = quantize(g, result, tensor.quantization, tensor.dtype)
            elif tensor.dtype is not None and result.dtype not in (None, tensor.dtype) and not tensor.is_complex:
                raise Unsupported(f"{tensor.name!r} is {tensor.dtype.name} in the file").with_location(g.location)
            _set_stated_shape(g, result, tensor)
            self._compare_stated_shape(result, tensor)
            values[number] = result

    def _compare_stated_shape(self, value: ir.Value, tensor: Tensor) -> None:
        """Record a mismatch with the declared shape; a size of 1 may mean unknown."""
        if value.shape is None or len(value.shape) != len(tensor.shape) or tensor.is_complex:
            return
        pairs = zip(value.shape, tensor.shape, strict=True)
        if any(isinstance(given, int) and stated not in (None, 1, given) for given, stated in pairs):
            self.disagreeing.append(f"{tensor.name!r} is {list(tensor.shape)} in the file, {value.shape} in fact")

    def _results(self, g: Graph, graph: Subgraph, operator: Operator, inputs: Sequence[Any]) -> list[ir.Value]:
        if _is_flex(operator):
            return apply_node(g, operator.options["node"], inputs)
        attributes = {k: self._option(k, v) for k, v in operator.options.items()}
        keyword = tuple(Argument(k, v) for k, v in operator.defaults.items() if k != _ACTIVATION)
        entry = tflite_op.entries[operator.name]
        activation = 0 if _ACTIVATION in entry.keyword else attributes.pop(_ACTIVATION, 0)
        needed = {n for n in entry.keyword if signature(entry.rule).parameters[n].default is Parameter.empty}
        if missing := sorted(needed - attributes.keys() - {"given", "output", "resources"}):
            raise BadInput(f"{operator.name} {location(graph, operator).node!r} has no options {missing}")
        if "output" in entry.keyword:  # what the file declares for the result, for operators with no other source
            attributes["output"] = graph.tensors[operator.outputs[0]]
        if "resources" in entry.keyword:
            attributes["resources"] = self.resources
        if "given" in entry.keyword:
            attributes["given"] = graph.tensors[operator.inputs[0]]
        schema = Schema(keyword=keyword, implied=_IMMATERIAL)
        try:
            found = tflite_op.apply(g, operator.name, inputs, attributes, g.location, schema=schema)
        except ConvertError as error:
            if isinstance(error, (BadInput, ResourceLimit, Unsupported)):
                raise
            raise contradiction(error) from error
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        if not activation:
            return results
        try:
            return [activation_behind(g, results[0], activation, operator.name), *results[1:]]
        except Unsupported as error:
            raise error.with_location(g.location) from error

    def _option(self, name: str, value: Any) -> Any:
        return SubgraphRegion(self, value) if name.endswith("subgraph_index") or name == "subgraph" else value


def _is_flex(operator: Operator) -> bool:
    """Return whether an operator is one of TensorFlow's (Flex) for which the user has no rule."""
    return "node" in operator.options and operator.name not in tflite_op


def _check_rules(operators: Sequence[tuple[Operator, Location]]) -> None:
    """Raise one `Unsupported` that lists every operator without a rule, TensorFlow's own (Flex) by TensorFlow's table.

    Raises `UnsafeInput` for operators of TensorFlow that touch files or run Python.
    """
    flex = [(o.options["node"].op, at) for o, at in operators if _is_flex(o)]
    refuse_unsafe(flex)
    problems: list[Problem] = []
    hint = ""
    for table, found in ((tflite_op, [(o.name, at) for o, at in operators if not _is_flex(o)]), (tf_op, flex)):
        try:
            table.check(found)
        except Unsupported as error:
            hint = hint or error.hint
            problems += error.problems
    if problems:
        raise Unsupported(problems=problems, hint=hint)


def _nothing(tensor: Tensor) -> ir.TensorProtocol | None:
    """Return a constant without elements, for which a file has no buffer (such as the axes of a Squeeze of all
    dims).
    """
    if 0 not in tensor.shape or None in tensor.shape or tensor.dtype is None or tensor.variable:
        return None
    if tensor.dtype == ir.DataType.STRING:
        return ir.StringTensor([], shape=ir.Shape(tensor.shape))
    return ir.tensor(np.zeros([d or 0 for d in tensor.shape], tensor.dtype.numpy()), dtype=tensor.dtype)


def location(graph: Subgraph, operator: Operator) -> Location:
    """Return the location of an operator: the first of the names joined when its parts were fused."""
    ends = operator.outputs or [n for n in operator.inputs[:1] if n >= 0]
    name = graph.tensors[ends[0]].name if ends else ""
    name = name.partition(";")[0]
    return Location(operator.name, name, name.rpartition("/")[0])


def _set_stated_shape(g: Graph, value: ir.Value, tensor: Tensor) -> None:
    """Set the declared shape of a result, if the operators do not determine the dims."""
    if value.shape is None and None not in tensor.shape and tensor.shape and tensor.dtype is not None:
        g.facts(value, shape=tensor.shape)
