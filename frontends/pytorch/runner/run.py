"""Runs PyTorch models on named arrays, in their own dtypes or in float64."""

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
from convert.request.options import InputSpec, Options
from convert.request.source import Source

from ..common.dtypes import TORCH_DTYPES, onnx_dtype
from ..common.locate import TORCH
from ..common.modes import chooses_kernels_by_gradients
from ..common.state import override_buffers, state_inputs, state_output
from ..common.uncompiled import uncompiled
from ..common.weights import array_of, tensor_from
from ..common.wider import narrow_dtypes, widened_for_run, widened_output
from ..export.capture.export_module import inference
from ..export.capture.gradients import call_with_gradients_if_asked
from ..files.hugging_face import is_hugging_face
from ..files.hugging_face_cache import parameter_name
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
from ..torch_internals.packed_weights import exact_transposed_convolutions
from ..torchscript.state import attributes
from ..torchscript.state import override_attributes as holding_script
from . import float64_convolution, float64_recurrent  # noqa: F401  (fill the table)
from .float64_ops import DOUBLE, double_kernel
from .higher_order import run_higher_order

Feed = Mapping[str, np.ndarray]


def run(
    source: Source, feeds: Sequence[Feed], precision: str, options: Options, *, as_used: bool = False
) -> list[dict[str, np.ndarray]]:
    """Return the outputs by name for each feed (arrays by input name). An object in memory is left unchanged.

    as_used: run the model as users of the artefact do. An exported program then refuses sizes for which its guards
    fail, and a TorchScript program runs in the mode in which it was saved; otherwise it is put into eval mode.
    """
    if is_hugging_face(source):  # forward takes the inputs in the feed
        feeds = [{parameter_name(name): array for name, array in feed.items()} for feed in feeds]
        options = replace(options, inputs=tuple(InputSpec(name) for name in feeds[0]))
    keep_mode = as_used and source.kind in _SCRIPTS
    loaded = _loaded(source, options, double=precision == "float64", keep_mode=keep_mode)
    narrow = narrow_dtypes(loaded, options)
    if precision != "float64":
        loaded = widened_for_run(loaded, options, owned=source.path is not None)
    paired = complex_inputs(loaded, options)
    double = precision == "float64"
    call, module = named_call(loaded, double, source.path is not None, options.fixed, guards=as_used)
    results = []
    with (
        torch.no_grad(),
        inference(None if keep_mode else module),
        exact_transposed_convolutions(module),
        all_in_double() if double else nullcontext(),
    ):
        for feed in feeds:
            tensors = {name: tensor_of_feed(array, double) for name, array in feed.items()}
            tensors |= {name: torch.view_as_complex(tensors[name]) for name in paired & tensors.keys()}
            try:
                outputs = call(tensors)
                results.append({name: _as_array(widened_output(value, narrow)) for name, value in outputs.items()})
            except AssertionError as error:
                # torchao's tensors compute above the level that `Float64Mode` sees
                if double and "float64" in str(error):
                    raise Unsupported(f"the source does not run in float64: {error}") from error
                raise
    return results


_SCRIPTS = ("torchscript", "torchscript-object")
"""The kinds that are deployed in the mode that they have; users of a Python module put it into eval mode."""

_kept: list[tuple[Any, ExportedProgram, dict[str, tuple[int, torch.Tensor | None]]]] = []
"""The program that this process last ran in its own dtypes, and its tensors as they were before that run."""


def _loaded(source: Source, options: Options, *, double: bool, keep_mode: bool) -> Any:
    """Load the source. A program whose run changed none of its own tensors is loaded once for both precisions."""
    kept = _kept.pop() if _kept else (None, None, None)
    if source.path is None or not source.path.is_file():
        return load(source, options, keep_mode=keep_mode)
    found = source.path.stat()
    place = source.path, options, found.st_mtime_ns, found.st_size, found.st_ino
    if double and kept[0] == place and kept[1] is not None and kept[2] is not None and _is_as_before(kept[1], kept[2]):
        return kept[1]
    loaded = load(source, options, keep_mode=keep_mode)
    if not double and isinstance(loaded, ExportedProgram):
        _kept.append((place, loaded, _tensors_now(loaded)))
    return loaded


def _tensors_now(program: ExportedProgram) -> dict[str, tuple[int, torch.Tensor | None]]:
    """Return the write count of each tensor and the content of each buffer.

    The content matters because a batch norm in training mode writes to its buffers without a count.
    """
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
    loaded: Any, double: bool, owned: bool, fixed: Mapping[str | int, Any], *, guards: bool = False
) -> tuple[Callable[[dict[str, torch.Tensor]], Any], torch.nn.Module | None]:
    """Return a function from inputs by name to outputs by name, and the module behind it if there is one.

    With `double`, the module is a copy in float64, or the module itself if it is `owned`.
    """
    if isinstance(loaded, ExportedProgram):
        module: torch.nn.Module = loaded.module(check_guards=guards)
        module = widened_module(module, owned) if double else module
        # Such a module refuses eval(), because its mode was fixed when it was captured.
        names = loaded.graph_signature.user_inputs
        return _stateful_call(lambda tensors: call_program(loaded, module, tensors), module, names), None
    if isinstance(loaded, torch.jit.ScriptFunction):
        schema: Any = loaded.schema  # a property, which PyTorch's annotations call a method
        return lambda tensors: _call_script(loaded, schema.arguments, tensors, fixed), None
    if isinstance(loaded, torch.jit.ScriptModule):
        script = _widened_script(loaded, owned) if double else loaded
        arguments = script_method(script, "forward").schema.arguments[1:]
        return _stateful_script(script, arguments, fixed), script
    module = widened_module(loaded, owned) if double else loaded

    def call(tensors: dict[str, torch.Tensor]) -> Any:
        args, kwargs = arrange_arguments(module, tensors)
        # PyTorch writes to the indices of a sparse tensor unchecked, even outside its memory.
        with torch.sparse.check_sparse_tensor_invariants(True):
            return call_with_gradients_if_asked(module, args, kwargs)

    return _stateful_call(call, module, [p.name for p in parameters_of(module)]), module


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    """Return a deep copy; sparse tensors are cloned, because deepcopy does not take them."""
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
    """Wrap `call`: inputs that are buffers are set in the module, and their new values are added to the outputs."""
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
    """Return the module in float64: itself if it is `owned`, else a copy."""
    return (module if owned else _copied(module)).double()


def _widened_script(module: torch.jit.ScriptModule, owned: bool) -> torch.jit.ScriptModule:
    """Return the module in float64, its constants included, which hold the weights if it is frozen."""
    if not owned:
        # A copy would share its code with the original, and the constants with the code.
        file = io.BytesIO()
        torch.jit.save(module, file)
        file.seek(0)
        module = torch.jit.load(file)
    for node in script_method(module, "forward").graph.findAllNodes("prim::Constant"):
        kind = node.output().type().kind()
        if kind == "TensorType" and isinstance(content := node.output().toIValue(), torch.Tensor):
            node.t_("value", _widen(content))
        if kind == "TupleType":  # the state of a prepacked layer
            state = node.output().toIValue()
            node.ival_("value", tuple(_widen(part) if isinstance(part, torch.Tensor) else part for part in state))
    return module.double()


def _stateful_script(
    script: Any, arguments: Sequence[Any], fixed: Mapping[str | int, Any]
) -> Callable[[dict[str, torch.Tensor]], dict[str, Any]]:
    """Wrap `script`: inputs that are attributes are set in the module, and their new values are added to the
    outputs.
    """

    # Without gradients, programs choose fused kernels, which are not the ones that are converted.
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
    """Return an input that requires gradients and is no leaf, so that the program may write to it.

    A layer before the program would give such a tensor. A frozen program has no weight that requires gradients.
    """
    return tensor.detach().requires_grad_().clone() if tensor.is_floating_point() else tensor


def _argument_inputs(arguments: Sequence[Any], tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the names of the inputs that are arguments of forward, or parts of one."""
    names = [a.name for a in arguments]
    return [t for t in tensors if t in names or any(t.startswith(f"{n}_") for n in names)]


def _call_script(
    script: Any, arguments: Sequence[Any], tensors: Mapping[str, torch.Tensor], fixed: Mapping[str | int, Any]
) -> dict[str, Any]:
    """Call `script` with arguments of their declared types; `fixed` holds values that are not inputs."""
    values = script_values(arguments, fixed)
    names = {a.name for a in arguments}
    found = [(a, argument_of(a.name, names, tensors)) for a in arguments]
    given = {a.name: as_declared_type(value, a.type) for a, value in found if value is not None}
    given |= values
    # As many arguments as possible go by position: hooks receive those, and none of the named ones.
    named = [a.name for a in arguments]
    count = next((place for place, name in enumerate(named) if name not in given), len(named))
    placed = [given.pop(name) for name in named[:count]]
    return named_outputs(script(*placed, **given))


def call_program(program: ExportedProgram, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Call with the structure of arguments that the program was captured with, constant inputs included.

    Raises `BadInput` for an input that was not given.
    """
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
    """Return an input as a tensor, in float64 if `double` and if its dtype is floating."""
    wider = _WIDER.get(TORCH_DTYPES[ir.DataType.from_numpy(array.dtype)]) if double else None
    # Widen in numpy: under `all_in_double`, PyTorch would also widen the dtype as which it reads the bytes of a
    # bfloat16.
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
"""The limits that a program reads from `torch.finfo(x.dtype)`, as norms do for their epsilon.

The deployed program has float32, so the limits of float64 are replaced by those of float32.
"""


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(_WIDER[value.dtype]) if value.dtype in _WIDER else value
    if isinstance(value, float):
        return _LIMITS.get(value, value)
    return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value


class Float64Mode(TorchDispatchMode):
    """Runs every operator in float64: widens requested dtypes, operands and results.

    It works below modules, and so for exported programs and the TorchScript interpreter alike.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(_widen, (args, kwargs or {}))
        if isinstance(func, HigherOrderOperator):
            with self:  # the operators that it calls are widened as well
                return run_higher_order(func.name(), args, kwargs)
        return pytree.tree_map(_widen, (double_kernel(func) or func)(*args, **kwargs))


class _Float32Literals(TorchFunctionMode):
    """Rounds tensors that are made of Python numbers to the float32 values that the deployed program has."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = func in (torch.tensor, torch.as_tensor) and not isinstance(args[0] if args else None, torch.Tensor)
        asked = (kwargs or {}).get("dtype")
        # `dtype=x.dtype` is float32 in the deployed program, and is float64 here only because x was widened.
        if made and result.dtype == torch.float64 and (asked is None or not _names_double(sys._getframe(1))):
            # numpy computes outside the modes
            return torch.from_numpy(result.numpy().astype(np.float32).astype(np.float64))
        return result


def _names_double(frame: Any) -> bool:
    """Return whether the line that makes a tensor, or the function around it, names float64."""
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    return frame is not None and bool({"float64", "double"} & {*frame.f_code.co_names, *frame.f_code.co_consts})


_SKIPPED = (__file__, TORCH)


class TorchaoFloat64Mode(TorchFunctionMode):
    """Replaces torchao's operators, which refuse float64, above the dispatcher, because they are written in Python."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = packet_name(func) if isinstance(func, OpOverloadPacket) else str(func)
        name = schema_of(func).name if isinstance(func, OpOverload) else name
        rule = DOUBLE.get(name) if name.startswith("torchao::") else None
        return (rule or func)(*args, **(kwargs or {}))


@contextmanager
def all_in_double() -> Iterator[None]:
    """Within the context everything floating is float64: operands, results, and quotients of integers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with uncompiled(), TorchaoFloat64Mode(), Float64Mode(), _Float32Literals():
            yield
    finally:
        torch.set_default_dtype(before)
