"""Writes an exported program: torch.export captures the module that emits the graph, and saves the result."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch.export import Dim, ExportedProgram

from convert.errors import ConvertError, Unsupported
from convert.graph.values import nodes_of
from convert.outcome.report import Report
from convert.parity.inputs.feeds import fed_shape, feed_sizes, size_facts
from convert.passes.tidy.size_checks import checked_conditions, note_lost_checks
from convert.request.options import Options

from ..common import quiet
from ..dtypes import torch_dtype
from ..emit import Emitter, check, named_tensors
from ..network import Network
from ..passes.legalize import legalize
from ..size_conditions import equal_dims, expressible, require, require_equal, sizes_by_name
from ..state import Buffer, new_content
from ..torch_internals import capture_error, guard_texts, is_concrete_int, save_error, without_examples
from .any_batch import any_batch
from .inplace import write_over
from .small_sizes import settle_small_sizes
from .whole_rnn import whole_rnn

# Import now, not when a program is written: PyTorch for CUDA imports triton with its compiler, and triton 3.8 crashes
# the process if TensorFlow 2.21 was imported before it.
_NOT_SAVED, _NOT_CAPTURED = save_error(), capture_error()

_CONSTANT = "a constant that a rule makes inside of a branch or loop that only the run decides"


def write_exported(
    model: ir.Model, path: Path, options: Options, report: Report, buffers: Sequence[Buffer] = ()
) -> None:
    """Write `model` to `path`. Raises `Unsupported`."""
    program = captured(model, options, report, "an exported program", buffers)
    with quiet(), path.open("wb") as file:  # an archive contains its file name, which is a temporary one here
        try:
            torch.export.save(program, file)
        except _NOT_SAVED as error:
            if "containing tensors" not in str(error):
                raise
            raise Unsupported(_CONSTANT) from error


def captured(
    model: ir.Model, options: Options, report: Report, form: str, buffers: Sequence[Buffer] = ()
) -> ExportedProgram:
    """Return the program of `model`; notes name the format as `form`. Raises `Unsupported`."""
    asked = checked_conditions(model)
    conditions = expressible(asked, fed_inputs(model, buffers))
    legalize(model, options)
    check(model)
    try:
        program = export_model(model, buffers, conditions, report)
    except ConvertError:
        if not conditions:
            raise
        conditions, program = [], export_model(model, buffers, (), report)
    note_lost_checks([text for text in asked if text not in conditions], form, report)
    return program


_DECIDED = {"If", "Loop", "Scan", "LSTM", "GRU", "RNN", "NonMaxSuppression", "SequenceInsert"}
"""Operators for which only capture shows whether PyTorch can express them."""


def needs_capture(model: ir.Model) -> bool:
    """Return whether a legalized model has operators that may be refused after `check`."""
    return any(node.op_type in _DECIDED for node in nodes_of(model.graph))


class Forward(Network):
    """The network with a forward that emits the graph; its arguments have the names of the inputs.

    A state in `buffers` is neither argument nor output: it is read when a call begins and written when it ends.
    conditions: on the sizes of the arguments, required first. names_are_equal: also require that dims of one name are
    equal.
    """

    def __init__(
        self,
        model: ir.Model,
        buffers: Sequence[Buffer] = (),
        conditions: Sequence[str] = (),
        *,
        names_are_equal: bool = False,
    ) -> None:
        super().__init__(model, {b.place: b.initial for b in buffers})
        graph = model.graph
        stored = [graph.inputs[b.input] for b in buffers]
        kept = {b.output for b in buffers}
        fed = fed_inputs(model, buffers)
        equal = equal_dims(fed) if names_are_equal else []

        def forward(*tensors: torch.Tensor) -> dict[str, torch.Tensor]:
            require_equal(equal, tensors)
            require(conditions, sizes_by_name(fed, tensors))
            emitter = Emitter(self)
            before = [self.get_buffer(b.place).clone() for b in buffers]  # views of it would change when it is written
            outputs = emitter.run(graph, dict(zip([*fed, *stored], [*tensors, *before], strict=True)))
            found = {}
            for place, (value, y) in enumerate(zip(graph.outputs, outputs, strict=True)):
                for name, tensor in named_tensors(str(value.name), y) if place not in kept else ():
                    found[name] = emitter.tensor(tensor)
            found = _apart(found, tensors)
            for buffer in buffers:
                self.get_buffer(buffer.place).copy_(new_content(buffer, emitter.tensor(outputs[buffer.output])))
            return found

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [inspect.Parameter(str(v.name), kind) for v in fed]
        forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        self.forward = forward


def fed_inputs(model: ir.Model, buffers: Sequence[Buffer]) -> list[ir.Value]:
    """Return the inputs that are no buffers."""
    stored = {b.input for b in buffers}
    return [v for place, v in enumerate(model.graph.inputs) if place not in stored]


def _apart(outputs: dict[str, torch.Tensor], inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the outputs, with a copy of each that is also an input, a parameter or an earlier output: torch.export
    identifies tensors by object.
    """
    seen = {id(x) for x in inputs}
    found = {}
    for name, y in outputs.items():
        found[name] = y.clone() if id(y) in seen or isinstance(y, torch.nn.Parameter) else y
        seen.add(id(y))
    return found


def export_model(
    model: ir.Model,
    buffers: Sequence[Buffer] = (),
    conditions: Sequence[str] = (),
    report: Report | None = None,
) -> ExportedProgram:
    """Capture the model with the dynamic dims of its inputs. Raises `Unsupported`, also if a dim cannot stay dynamic.

    Dims of one name may differ if the graph allows it; otherwise the program would reject inputs that the source takes.
    """
    inputs = fed_inputs(model, buffers)
    for value in inputs:
        if not isinstance(value.type, ir.TensorType):
            raise Unsupported(f"the input {value.name!r} is a sequence or an optional, and no tensor")
        if value.shape is None:
            raise Unsupported(f"the rank of the input {value.name!r} is not known", hint="say it with --input")
    sizes = example_sizes(model)
    with quiet(), whole_rnn(), any_batch():
        module = Forward(model, buffers, conditions).eval()
        try:
            program, from_two = _captured(inputs, module, sizes)
        except ConvertError:
            if not equal_dims(inputs):
                raise
            module = Forward(model, buffers, conditions, names_are_equal=True).eval()
            program, from_two = _captured(inputs, module, sizes)
        if any(map(_OF_THE_EXAMPLE, guard_texts(program))):
            sizes, program, from_two = _of_larger_sizes(model, inputs, module, sizes, program, from_two)
    _name_inputs(program, [str(v.name) for v in inputs])
    for graph_module in program.graph_module.modules():
        if isinstance(graph_module, torch.fx.GraphModule):
            _drop_idle_casts(graph_module)
            for node in graph_module.graph.nodes:
                node.meta.pop("stack_trace", None)  # source lines of this program, with paths of this machine
    write_over(program.graph_module)
    with quiet():
        kept_out = settle_small_sizes(program, module, model, inputs, sizes, from_two=from_two)
    if kept_out and report is not None:
        report.note(
            f"PyTorch captures the network for sizes of {', '.join(kept_out)} from 2 on: 1 is refused",
            code="size-limits",
        )
    return program


_OF_THE_EXAMPLE = re.compile(r"(==|<=|<) \d+$").search
"""Guards that compare a size with the example's size; a value computed from that size may be 1 by coincidence."""


def _of_larger_sizes(
    model: ir.Model,
    inputs: Sequence[ir.Value],
    module: torch.nn.Module,
    sizes: dict[str, int],
    program: ExportedProgram,
    from_two: bool,
) -> tuple[dict[str, int], ExportedProgram, bool]:
    """Capture with larger sizes. Returns that capture, its sizes and `from_two` if fewer of its guards bind sizes to
    the example; else what was given.
    """
    larger = example_sizes(model, 4)
    if larger == sizes:
        return sizes, program, from_two
    try:
        other, other_from_two = _captured(inputs, module, larger)
    except ConvertError:
        return sizes, program, from_two
    bound, before = (sum(bool(_OF_THE_EXAMPLE(guard)) for guard in guard_texts(p)) for p in (other, program))
    if other_from_two <= from_two and bound < before:
        return larger, other, other_from_two
    return sizes, program, from_two


def _drop_idle_casts(module: torch.fx.GraphModule) -> None:
    """Remove casts to the dtype that a tensor already has, and torch.export's assertions about cast tensors.

    The assertions also name a device, which would tie the program to the device of the capture.
    """
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
        elif node.target is torch.ops.aten.to.dtype and len(node.args) == 2 and not node.kwargs:
            x = node.args[0]
            content = x.meta.get("val") if isinstance(x, torch.fx.Node) else None
            if not isinstance(x, torch.fx.Node) or not isinstance(content, torch.Tensor):
                continue
            if content.dtype != node.args[1] or (_is_output(node) and (_is_output(x) or x.op != "call_function")):
                continue
            is_output, name = _is_output(node), node.name
            node.replace_all_uses_with(x)
            module.graph.erase_node(node)
            if is_output:  # the signature refers to its name
                x.name = name
    module.recompile()


def _is_output(node: torch.fx.Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _captured(
    inputs: Sequence[ir.Value], module: torch.nn.Module, sizes: Mapping[str, int]
) -> tuple[ExportedProgram, bool]:
    """Return a capture in which no size is a special case, not even 0 or 1, and False.

    If that fails, returns a capture that may treat them specially, and True.
    """
    examples = tuple(_example(v, sizes) for v in inputs)
    failures = (ConvertError, _NOT_CAPTURED, RuntimeError, ValueError, AssertionError)
    is_dynamic = any(isinstance(d, ir.SymbolicDim) for v in inputs for d in v.shape or ())
    try:
        with without_examples():
            return _export(module, examples, _dynamic(inputs, Dim.DYNAMIC)), False
    except failures as first:
        if not is_dynamic:
            raise _refusal(first, is_dynamic) from first
    try:
        return _export(module, examples, _dynamic(inputs, Dim.DYNAMIC)), True
    except failures:
        try:
            program = _export(module, examples, _dynamic(inputs, Dim.AUTO))
        except failures as error:
            raise _refusal(error, is_dynamic) from error
    _check_dynamic(inputs, program)
    return program, True


def _export(module: torch.nn.Module, examples: tuple[torch.Tensor, ...], dynamic: Any) -> ExportedProgram:
    # An einsum ordered for the example's sizes would add guards on them.
    with torch.backends.opt_einsum.flags(enabled=False):
        return torch.export.export(module, examples, dynamic_shapes=dynamic, strict=False)


def _name_inputs(program: ExportedProgram, names: Sequence[str]) -> None:
    """Rename the inputs as in the graph: torch.export lowercases names."""
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    new = {spec.arg.name: name for spec, name in zip(specs, names, strict=True) if spec.arg.name != name}
    if not new:
        return
    taken = {node.name for node in program.graph.nodes}
    if taken & set(new.values()):
        raise Unsupported(f"PyTorch calls something else {', '.join(sorted(taken & set(new.values())))}")
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in new:
            node.name = node.target = new[node.name]
    calls = [entry.signature for entry in program.module_call_graph if entry.signature is not None]
    for argument in (*(s.arg for s in specs), *(a for call in calls for a in call.inputs)):
        argument.name = new.get(argument.name, argument.name)
    program.graph_module.recompile()


def _refusal(error: Exception, is_dynamic: bool) -> ConvertError:
    if isinstance(error, ConvertError) and is_dynamic and isinstance(error.__cause__, RuntimeError):
        return Unsupported(f"{error.sentence} (of sizes that are not known)", hint="say the sizes with --input")
    if isinstance(error, ConvertError):
        return error
    text = " ".join(str(error).split("\n\n")[0].split())[:600]
    return Unsupported(f"PyTorch does not capture the network: {text}")


def example_sizes(model: ir.Model, times: int = 1) -> dict[str, int]:
    """Return sizes of the dynamic dims for capture: plausible, all above 1, and all different.

    times: if above 1, a size without an upper bound is multiplied by it, plus 1.
    """
    bounds, guards = size_facts(model)
    found: dict[str, int] = dict(next(iter(feed_sizes(model, 1))))
    used: set[int] = {d for v in model.graph.inputs for d in v.shape or () if isinstance(d, int)}
    for name, size in found.items():
        high = (bounds.get(name) or [1, None])[1]
        if any(name in guard for guard in guards) or not name.isidentifier():
            continue
        size = max(size, 2)
        if times > 1 and high is None:
            size = size * times + 1
        while size in used and (high is None or size < high):
            size += 1
        found[name] = size if high is None else min(size, high)
        used.add(found[name])
    return found


def _example(value: ir.Value, sizes: Mapping[str, int]) -> torch.Tensor:
    return torch.zeros(fed_shape(value, sizes), dtype=torch_dtype(value.dtype))


def _dynamic(inputs: Sequence[ir.Value], kind: Any) -> Any:
    """Return the dynamic dims of each input."""
    return tuple({i: kind for i, d in enumerate(v.shape or ()) if isinstance(d, ir.SymbolicDim)} for v in inputs)


def _check_dynamic(inputs: Sequence[ir.Value], program: ExportedProgram) -> None:
    """Raise `Unsupported` if capture has fixed a dynamic dim to the size of its example."""
    fixed = []
    values = [n for n in program.graph.nodes if n.op == "placeholder"][-len(inputs) :]
    for value, node in zip(inputs, values, strict=True):
        for i, dim in enumerate(value.shape or ()):
            size = node.meta["val"].shape[i]
            if isinstance(dim, ir.SymbolicDim) and is_concrete_int(size):
                fixed.append(f"dim {i} of the input {value.name!r} ({dim.value})")
    if fixed:
        raise Unsupported(
            f"PyTorch captures the network for one size only of {', '.join(fixed)}", hint="say that size with --input"
        )
