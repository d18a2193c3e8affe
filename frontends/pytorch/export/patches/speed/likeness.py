"""Describes what a block of a network computes, as a value: equal values mean equal computation with other weights."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ....torch_internals import has_global_hooks, own_buffers, own_parameters, own_parts

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.layout,
          torch.memory_format, enum.Enum, types.BuiltinFunctionType, types.ModuleType)  # fmt: skip
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OWN = frozenset(vars(nn.Module()))
"""Attributes of every module: parameters, submodules, hooks."""
_DEPTH = 6


class Incomparable(Exception):
    """Raised for an attribute whose effect on the computation cannot be determined from its value."""


def block_attributes(block: nn.Module) -> dict[tuple[str, str], Any]:
    """Return the value of each attribute of a block's modules, by path and name; tensors by everything except their
    numbers.

    Raises `Incomparable` for hooks, tensors that are no parameter or buffer, modules in plain attributes, and opaque
    objects.
    """
    if has_global_hooks():
        raise Incomparable
    found: dict[tuple[str, str], Any] = {}
    first: dict[int, tuple[str, str]] = {}
    for path, module in block.named_modules(remove_duplicate=False):
        if any(getattr(module, hooks) for hooks in _HOOKS):
            raise Incomparable
        found[path, ""] = type(module), module.training, tuple(own_parts(module))
        for name, tensor in (*own_parameters(module).items(), *own_buffers(module).items()):
            same = None if tensor is None else first.setdefault(id(tensor), (path, name))  # tied weights
            found[path, name] = None if tensor is None else (tensor_likeness(tensor), same)
        for name, value in vars(module).items():
            if name not in _OWN:
                found[path, name] = value_likeness(value)
    return found


def differing_attributes(blocks: Iterable[nn.Module]) -> set[tuple[str, str]]:
    """Return path and name of integers that differ between blocks, such as a layer's position in the stack.

    Raises `Incomparable` for blocks that differ in anything else.
    """
    first, *others = map(block_attributes, blocks)
    found: set[tuple[str, str]] = set()
    for other in others:
        if other.keys() != first.keys():
            raise Incomparable
        differ = {key for key in first if first[key] != other[key]}
        if any(each[key][0] is not int for key in differ for each in (first, other)):
            raise Incomparable
        found |= differ
    return found


def tensor_likeness(tensor: Tensor) -> Any:
    """Return everything about a tensor but its numbers; dynamic sizes as expressions."""
    return (
        type(tensor) is nn.Parameter,
        tuple(map(str, (*tensor.shape, *tensor.stride(), tensor.storage_offset()))),
        tensor.dtype,
        tensor.device,
        tensor.layout,
        tensor.requires_grad,
    )


def value_likeness(value: Any, depth: int = 0) -> Any:
    """Return a value that is equal for indistinguishable arguments. Raises `Incomparable` if that is unknown."""
    if depth > _DEPTH or isinstance(value, (Tensor, nn.Module)):
        raise Incomparable
    if isinstance(value, _PLAIN):
        return type(value), value
    below = functools.partial(value_likeness, depth=depth + 1)
    if isinstance(value, Mapping):
        return type(value), tuple((below(k), below(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(below, value))
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(map(below, value))
    if isinstance(value, functools.partial):
        return functools.partial, below(value.func), below(value.args), below(value.keywords)
    if isinstance(value, types.FunctionType):
        return value.__code__, below(_contents(value.__closure__ or ())), below(value.__defaults__)
    if isinstance(value, types.MethodType) or not hasattr(value, "__dict__"):
        raise Incomparable
    return type(value), below(vars(value))


def _contents(cells: Iterable[types.CellType]) -> list[Any]:
    return [cell.cell_contents for cell in cells]
