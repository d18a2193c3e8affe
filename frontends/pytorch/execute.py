"""Runs PyTorch models with named arrays, as they are or in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from convert.errors import BadInput
from convert.options import Options
from convert.source import Source

from .capture import arranged, inference
from .loader import load
from .names import named_outputs
from .weights import array_of

Feed = Mapping[str, np.ndarray]


def run(source: Source, feeds: Sequence[Feed], precision: str, options: Options) -> list[dict[str, np.ndarray]]:
    """Outputs by name for each feed (arrays by input name). An object in memory is left as it was."""
    thing = load(source, options)
    double = precision == "float64"
    call, module = _callable(thing, double, owned=source.path is not None)
    results = []
    with torch.no_grad(), inference(module), _in_double() if double else nullcontext():
        for feed in feeds:
            tensors = {name: _tensor(array, double) for name, array in feed.items()}
            results.append({name: _array(value) for name, value in named_outputs(call(tensors)).items()})
    return results


def _callable(
    thing: Any, double: bool, owned: bool
) -> tuple[Callable[[dict[str, torch.Tensor]], Any], torch.nn.Module | None]:
    """A function of tensors by name, and the module behind it if there is one; a copy in float64 if asked."""
    if isinstance(thing, ExportedProgram):
        module = thing.module(check_guards=False)
        module = _widened_module(module, owned) if double else module
        # Such a module refuses eval(): its mode was settled when it was captured.
        return lambda tensors: _call_program(thing, module, tensors), None
    if isinstance(thing, torch.jit.ScriptFunction):
        return lambda tensors: thing(*tensors.values()), None
    module = _widened_module(thing, owned) if double else thing
    if isinstance(thing, torch.jit.ScriptModule):
        return lambda tensors: module(*tensors.values()), module

    def call(tensors: dict[str, torch.Tensor]) -> Any:
        args, kwargs = arranged(module, tensors)
        return module(*args, **kwargs)

    return call, module


def _widened_module(module: torch.nn.Module, owned: bool) -> torch.nn.Module:
    return (module if owned else copy.deepcopy(module)).double()


def _call_program(program: ExportedProgram, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Any:
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


def _tensor(array: np.ndarray, double: bool) -> torch.Tensor:
    tensor = torch.from_numpy(np.array(array))
    return _wide(tensor) if double else tensor


def _array(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        return np.array(array_of(value))
    return np.asarray(value)


# -- float64 ----------------------------------------------------------------------------------------------------------

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(_WIDER[value.dtype]) if value.dtype in _WIDER else value
    return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value


class Widened(TorchDispatchMode):
    """Runs every operator in float64: dtypes asked for, tensors read and tensors made are widened.

    It works below modules, exported programs and the TorchScript interpreter alike.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(_wide, (args, kwargs or {}))
        return pytree.tree_map(_wide, func(*args, **kwargs))


@contextmanager
def _in_double() -> Iterator[None]:
    """Everything floating is float64 inside the block: operands, results, and what integers divided give."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widened():
            yield
    finally:
        torch.set_default_dtype(before)
