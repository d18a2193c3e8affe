"""Runs PyTorch models with named arrays, as they are or in float64."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

from convert.errors import BadInput, Unsupported
from convert.options import InputSpec, Options
from convert.source import Source

from ..common.dtypes import TORCH_DTYPES, onnx_dtype
from ..common.locate import TORCH
from ..common.modes import chooses_kernels_by_gradients
from ..common.state import override_buffers, state_inputs, state_output
from ..common.weights import array_of, tensor_from
from ..common.wider import narrow_dtypes, widened_for_run, widened_output
from ..export.capture import inference
from ..export.gradients import call_with_gradients_if_asked
from ..files.hugging_face import is_hugging_face, parameter_name
from ..files.loader import load
from ..inputs.arguments import argument_of, arrange_arguments, as_declared_type
from ..inputs.complex_inputs import complex_inputs
from ..inputs.fixed_values import script_values
from ..inputs.guess import parameters_of
from ..inputs.output_names import named_outputs
from ..torch_internals import (
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    TorchDispatchMode,
    own_buffers,
    own_parameters,
    packet_name,
    pytree,
    schema_of,
    script_method,
    writes_to,
)
from ..torchscript.state import attributes
from ..torchscript.state import override_attributes as holding_script
from . import float64_convolution, float64_recurrent  # noqa: F401  (fill the table)
from .float64_ops import DOUBLE, double_kernel
from .higher_order import run_higher_order, uncompiled_control_flow

Feed = Mapping[str, np.ndarray]


def run(
    source: Source, feeds: Sequence[Feed], precision: str, options: Options, *, as_used: bool = False
) -> list[dict[str, np.ndarray]]:
    """Return outputs by name for each feed (arrays by input name). An object in memory is left as it was.

    as_used: run it as those who load the artefact do. An exported program refuses sizes that it does not hold for, and
    a TorchScript program runs in the mode that it was saved in; else it is put into eval mode.
    """
    if is_hugging_face(source):  # its forward has the inputs that are asked for
        feeds = [{parameter_name(name): array for name, array in feed.items()} for feed in feeds]
        options = replace(options, inputs=tuple(InputSpec(name) for name in feeds[0]))
    keep_mode = as_used and source.kind in _SCRIPTS
    thing = _loaded(source, options, double=precision == "float64", keep_mode=keep_mode)
    narrow = narrow_dtypes(thing, options)
    if precision != "float64":
        thing = widened_for_run(thing, options, owned=source.path is not None)
    paired = complex_inputs(thing, options)
    double = precision == "float64"
    call, module = named_call(thing, double, source.path is not None, options.fixed, guards=as_used)
    results = []
    with torch.no_grad(), inference(None if keep_mode else module), all_in_double() if double else nullcontext():
        for feed in feeds:
            tensors = {name: tensor_of_feed(array, double) for name, array in feed.items()}
            tensors |= {name: torch.view_as_complex(tensors[name]) for name in paired & tensors.keys()}
            try:
                outputs = call(tensors)
                results.append({name: _as_array(widened_output(value, narrow)) for name, value in outputs.items()})
            except AssertionError as error:
                if double and "float64" in str(error):  # torchao's tensors compute above what `Float64Mode` sees
                    raise Unsupported(f"the source does not run in float64: {error}") from error
                raise
    return results


_SCRIPTS = ("torchscript", "torchscript-object")
"""Kinds that are deployed in the mode that they have; a Python module is put into eval mode by whoever runs it."""

_kept: list[tuple[Any, ExportedProgram, dict[str, tuple[int, torch.Tensor | None]]]] = []
"""The program that this process has run last in its own dtypes, and its tensors as they were before."""


def _loaded(source: Source, options: Options, *, double: bool, keep_mode: bool) -> Any:
    """What is in the source. A program that has changed nothing of its own is loaded once for both precisions."""
    kept = _kept.pop() if _kept else (None, None, None)
    if source.path is None or not source.path.is_file():
        return load(source, options, keep_mode=keep_mode)
    found = source.path.stat()
    place = source.path, options, found.st_mtime_ns, found.st_size, found.st_ino
    if double and kept[0] == place and kept[1] is not None and kept[2] is not None and _is_as_before(kept[1], kept[2]):
        return kept[1]
    thing = load(source, options, keep_mode=keep_mode)
    if not double and isinstance(thing, ExportedProgram):
        _kept.append((place, thing, _tensors_now(thing)))
    return thing


def _tensors_now(program: ExportedProgram) -> dict[str, tuple[int, torch.Tensor | None]]:
    """How often each tensor was written to, and what buffers hold: a batch norm that trains does not count."""
    buffers = dict(program.named_buffers())
    content = {name: tensor.clone() for name, tensor in buffers.items()}
    return {name: (writes_to(tensor), content.get(name)) for name, tensor in _own_tensors(program).items()}


def _own_tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    constants = {name: value for name, value in program.constants.items() if isinstance(value, torch.Tensor)}
    return {**constants, **dict(program.named_buffers()), **dict(program.named_parameters())}


def _is_as_before(program: ExportedProgram, before: Mapping[str, tuple[int, torch.Tensor | None]]) -> bool:
    now = _own_tensors(program)
    return now.keys() == before.keys() and all(
        writes_to(now[name]) == version and (content is None or torch.equal(now[name], content))
        for name, (version, content) in before.items()
    )


def named_call(
    thing: Any, double: bool, owned: bool, fixed: Mapping[str | int, Any], *, guards: bool = False
) -> tuple[Callable[[dict[str, torch.Tensor]], Any], torch.nn.Module | None]:
    """A function of inputs by name that gives outputs by name, and the module behind it if there is one.

    The module is a copy in float64 if that is asked.
    """
    if isinstance(thing, ExportedProgram):
        module: torch.nn.Module = thing.module(check_guards=guards)
        module = widened_module(module, owned) if double else module
        # Such a module refuses eval(): its mode was settled when it was captured.
        names = thing.graph_signature.user_inputs
        return _stateful_call(lambda tensors: call_program(thing, module, tensors), module, names), None
    if isinstance(thing, torch.jit.ScriptFunction):
        schema: Any = thing.schema  # a property, which PyTorch's annotations call a method
        return lambda tensors: _call_script(thing, schema.arguments, tensors, fixed), None
    if isinstance(thing, torch.jit.ScriptModule):
        script = _widened_script(thing, owned) if double else thing
        arguments = script_method(script, "forward").schema.arguments[1:]
        return _stateful_script(script, arguments, fixed), script
    module = widened_module(thing, owned) if double else thing

    def call(tensors: dict[str, torch.Tensor]) -> Any:
        args, kwargs = arrange_arguments(module, tensors)
        # PyTorch writes where the places of a sparse tensor point, beyond its memory too.
        with torch.sparse.check_sparse_tensor_invariants(True):
            return call_with_gradients_if_asked(module, args, kwargs)

    return _stateful_call(call, module, [p.name for p in parameters_of(module)]), module


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    """A deep copy; of sparse tensors, which deepcopy does not take, a clone each."""
    memo: dict[int, Any] = {}
    for part in module.modules():
        for tensor in (*own_parameters(part).values(), *own_buffers(part).values(), *part.__dict__.values()):
            if isinstance(tensor, torch.Tensor) and tensor.layout != torch.strided:
                clone = tensor.detach().clone()
                memo[id(tensor)] = torch.nn.Parameter(clone, False) if isinstance(tensor, torch.nn.Parameter) else clone
    return copy.deepcopy(module, memo)


def _stateful_call(
    call: Callable[[dict[str, torch.Tensor]], Any], module: torch.nn.Module, names: Iterable[Any]
) -> Callable[[dict[str, torch.Tensor]], dict[str, Any]]:
    """`call` with the inputs that are buffers put into the module, and their new values among the outputs."""
    buffers = {
        name: path for path, name in state_inputs((path for path, _ in module.named_buffers()), [*names]).items()
    }

    def run_with_state(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
        states = {buffers[name]: tensor for name, tensor in tensors.items() if name in buffers}
        with override_buffers(module, states):
            outputs = named_outputs(call({n: t for n, t in tensors.items() if n not in buffers}))
            new = {state_output(n): module.get_buffer(buffers[n]).clone() for n in tensors if n in buffers}
        return {**outputs, **new}

    return run_with_state


def widened_module(module: torch.nn.Module, owned: bool) -> torch.nn.Module:
    """The module in float64: itself if it is `owned`, else a copy."""
    return (module if owned else _copied(module)).double()


def _widened_script(module: torch.jit.ScriptModule, owned: bool) -> torch.jit.ScriptModule:
    """The module with its constants widened too, which are its weights if it is frozen."""
    if not owned:
        # A copy would share its code, and so its constants, with the original.
        file = io.BytesIO()
        torch.jit.save(module, file)
        file.seek(0)
        module = torch.jit.load(file)
    for node in script_method(module, "forward").graph.findAllNodes("prim::Constant"):
        content = node.output().toIValue() if node.output().type().kind() == "TensorType" else None
        if isinstance(content, torch.Tensor):
            node.t_("value", _widen(content))
    return module.double()


def _stateful_script(
    script: Any, arguments: Sequence[Any], fixed: Mapping[str | int, Any]
) -> Callable[[dict[str, torch.Tensor]], dict[str, Any]]:
    """A call with the inputs that are attributes put into the module, and their new values among the outputs."""

    # Fused kernels that programs take without gradients are not what is converted.
    gradients = chooses_kernels_by_gradients(script)

    def run_with_state(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
        if not gradients:
            return run_in_mode(tensors)
        with torch.enable_grad():
            asking = {name: _asking_for_gradients(tensor) for name, tensor in tensors.items()}
            return pytree.tree_map_only(torch.Tensor, torch.detach, run_in_mode(asking))

    def run_in_mode(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
        paths = {
            name: path for path, name in state_inputs(attributes(script), _argument_inputs(arguments, tensors)).items()
        }
        own = {n: t for n, t in tensors.items() if n not in paths}
        with holding_script(script, {paths[n]: t for n, t in tensors.items() if n in paths}):
            outputs = _call_script(script, arguments, own, fixed)
            now = attributes(script)
            new = {state_output(n): now[paths[n]] for n in tensors if n in paths}
            new = {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in new.items()}
        return {**outputs, **new}

    return run_with_state


def _asking_for_gradients(tensor: torch.Tensor) -> torch.Tensor:
    """As another layer gives it, which a program may write to: a frozen one has no weight that asks for them."""
    return tensor.detach().requires_grad_().clone() if tensor.is_floating_point() else tensor


def _argument_inputs(arguments: Sequence[Any], tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """The inputs that are arguments of forward, or parts of one."""
    names = [a.name for a in arguments]
    return [t for t in tensors if t in names or any(t.startswith(f"{n}_") for n in names)]


def _call_script(
    script: Any, arguments: Sequence[Any], tensors: Mapping[str, torch.Tensor], fixed: Mapping[str | int, Any]
) -> dict[str, Any]:
    """Call with the structure that the declared types of the arguments have, those with a fixed value besides."""
    values = script_values(arguments, fixed)
    names = {a.name for a in arguments}
    found = [(a, argument_of(a.name, names, tensors)) for a in arguments]
    given = {a.name: as_declared_type(value, a.type) for a, value in found if value is not None}
    given |= values
    # By place as far as that goes: hooks are given what is, and nothing of what is named.
    named = [a.name for a in arguments]
    count = next((place for place, name in enumerate(named) if name not in given), len(named))
    placed = [given.pop(name) for name in named[:count]]
    return named_outputs(script(*placed, **given))


def call_program(program: ExportedProgram, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Call with the structure that the program was captured with; its constant inputs are filled in."""
    leaves = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name != "USER_INPUT":
            continue
        if spec.arg.name in tensors:
            leaves.append(tensors[spec.arg.name])
        elif type(spec.arg).__name__ == "ConstantArgument":
            leaves.append(spec.arg.value)
        else:
            raise BadInput(f"the input {spec.arg.name} was not given")
    args, kwargs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    return module(*args, **kwargs)


def tensor_of_feed(array: np.ndarray, double: bool) -> torch.Tensor:
    """An input as PyTorch takes it, in float64 if `double` and it is floating."""
    wider = _WIDER.get(TORCH_DTYPES[ir.DataType.from_numpy(array.dtype)]) if double else None
    # Widened in numpy: inside `all_in_double` PyTorch would widen the dtype that the bytes of a bfloat16 are read as.
    return tensor_from(array if wider is None else array.astype(onnx_dtype(wider).numpy()))


def _as_array(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        return np.array(array_of(torch.view_as_real(value.resolve_conj()) if value.is_complex() else value))
    return np.asarray(value)


# -- float64 ----------------------------------------------------------------------------------------------------------

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


_LIMITS = {
    getattr(torch.finfo(torch.float64), limit): getattr(torch.finfo(torch.float32), limit)
    for limit in ("eps", "tiny", "max", "min")
}
"""What a program takes from `torch.finfo(x.dtype)`, as norms do for their epsilon: float32 is what is deployed."""


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(_WIDER[value.dtype]) if value.dtype in _WIDER else value
    if isinstance(value, float):
        return _LIMITS.get(value, value)
    return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value


class Float64Mode(TorchDispatchMode):
    """Runs every operator in float64: dtypes asked for, tensors read and tensors made are widened.

    It works below modules, exported programs and the TorchScript interpreter alike.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(_widen, (args, kwargs or {}))
        if isinstance(func, HigherOrderOperator):
            with self:  # what it calls is widened as well
                return run_higher_order(func.name(), args, kwargs)
        return pytree.tree_map(_widen, (double_kernel(func) or func)(*args, **kwargs))


class _Float32Literals(TorchFunctionMode):
    """Keeps tensors that are made of Python's numbers at the float32 values that the deployed program has."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = func in (torch.tensor, torch.as_tensor) and not isinstance(args[0] if args else None, torch.Tensor)
        asked = (kwargs or {}).get("dtype")
        # `dtype=x.dtype` is float32 in the deployed program, and float64 here only because x was widened.
        if made and result.dtype == torch.float64 and (asked is None or not _names_double(sys._getframe(1))):
            return torch.from_numpy(result.numpy().astype(np.float32).astype(np.float64))  # below the modes
        return result


def _names_double(frame: Any) -> bool:
    """True where the line that makes a tensor, or the function around it, names float64."""
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    return frame is not None and bool({"float64", "double"} & {*frame.f_code.co_names, *frame.f_code.co_consts})


_SKIPPED = (__file__, TORCH)


class TorchaoFloat64Mode(TorchFunctionMode):
    """torchao's operators are written in Python above the dispatcher and refuse float64: they are met one level up."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = packet_name(func) if isinstance(func, OpOverloadPacket) else str(func)
        name = schema_of(func).name if isinstance(func, OpOverload) else name
        rule = DOUBLE.get(name) if name.startswith("torchao::") else None
        return (rule or func)(*args, **(kwargs or {}))


@contextmanager
def all_in_double() -> Iterator[None]:
    """Everything floating is float64 inside the block: operands, results, and what integers divided give."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with uncompiled_control_flow(), TorchaoFloat64Mode(), Float64Mode(), _Float32Literals():
            yield
    finally:
        torch.set_default_dtype(before)
