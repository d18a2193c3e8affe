"""The rows of the PyTorch tables: a function or module, its inputs, and its outputs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from convert.frontends.pytorch.inputs.output_names import named_outputs
from torch import nn

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class TorchProgram:
    """A module, or a function that becomes one, and the calls for which it is converted and compared, in order.

    Dims that differ between the calls are dynamic. `state` names values that forward changes, and how to read each from
    the module; the graph has them as inputs, and each call gets the values that the previous one left.
    """

    name: str
    make: Callable[[], nn.Module]
    calls: tuple[tuple[Any, ...], ...]
    state: Mapping[str, Callable[[nn.Module], Any]] = field(default_factory=dict)
    script: bool = False


class Called(nn.Module):
    """A function as a module, with the function's parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.__dict__["forward"] = function


def program(name: str, make: Any, *calls: Any, **rest: Any) -> TorchProgram:
    """Return a row; `make` is a module's class (or a function without parameters that makes it), or a plain
    function.
    """
    listed = tuple(call if isinstance(call, tuple) else (call,) for call in calls)
    if not inspect.isclass(make) and not rest.pop("factory", False):
        function = make
        return TorchProgram(name, lambda: Called(function), listed, **rest)
    return TorchProgram(name, make, listed, **rest)


def source_of(row: TorchProgram) -> Any:
    """Return the module in eval mode, always with the same weights; scripted if the row asks for that."""
    torch.manual_seed(0)
    module = row.make().eval()
    if not row.script:
        return module
    return torch.jit.script(module.function if isinstance(module, Called) else module)


def names_of(row: TorchProgram) -> list[str]:
    """Return the parameters of forward that the calls give, in order."""
    module = row.make()
    found = module.function if isinstance(module, Called) else module.forward
    return list(inspect.signature(found).parameters)[: len(row.calls[0])]


def specs_of(row: TorchProgram) -> list[str]:
    """Return `--input` for each parameter: a dim that differs between calls is dynamic, and equal lengths share
    a name.
    """
    named: dict[tuple[int, ...], str] = {}
    specs = []
    for place, name in enumerate(names_of(row)):
        shapes = [torch.as_tensor(call[place]).shape for call in row.calls]
        dims = []
        for sizes in zip(*shapes, strict=True):
            dims.append(str(sizes[0]) if len(set(sizes)) == 1 else named.setdefault(tuple(sizes), "nmkpqr"[len(named)]))
        dtype = str(torch.as_tensor(row.calls[0][place]).dtype).removeprefix("torch.")
        specs.append(f"{name}:{dtype}[{','.join(dims)}]")
    return specs


def run_source(row: TorchProgram) -> tuple[list[Arrays], list[Arrays]]:
    """Return the inputs of an artefact, with its state, and PyTorch's outputs for each call."""
    module, names = source_of(row), names_of(row)
    feeds, expected = [], []
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        for call in row.calls:
            state = {name: _array(read(module)) for name, read in row.state.items()}
            feeds.append({n: _array(copy.deepcopy(a)) for n, a in zip(names, call, strict=True)} | state)
            with torch.no_grad():
                given = module(*copy.deepcopy(call))
            outputs = {n: _array(v) for n, v in named_outputs(given).items()}
            after = {f"{name}_next": _array(read(module)) for name, read in row.state.items()}
            expected.append(outputs | after)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return feeds, expected


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)  # a Python number keeps Python's width
    tensor = value.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).numpy().copy()


def f(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def i(*shape: int, low: int = 0, high: int = 5, seed: int = 0) -> torch.Tensor:
    """Integers from `low` up to `high` - 1."""
    return torch.from_numpy(np.random.default_rng(seed).integers(low, high, shape))


def b(*shape: int, seed: int = 0) -> torch.Tensor:
    """Booleans."""
    return torch.from_numpy(np.random.default_rng(seed).random(shape) < 0.5)


SCRIPTS: list[TorchProgram] = []


def script(*calls: Any, **rest: Any) -> Callable[[Any], Any]:
    """Put a function or a module's class into the table, by its name."""

    def add(thing: Any) -> Any:
        SCRIPTS.append(
            program(
                thing.__name__, thing, *(calls or (f(4, 3), f(1, 3), f(7, 3), f(4, 3, seed=1))), script=True, **rest
            )
        )
        return thing

    return add
