"""Python's len, int, float and isinstance of what only a run knows, of which its own make numbers of the example."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

_LIBRARIES = {"convert", "torch", "numpy", *sys.stdlib_module_names}
"""Packages whose code keeps Python's len: it is no network, or written for capture."""


@contextmanager
def symbolic_lengths(module: nn.Module) -> Iterator[None]:
    """Inside, `len` in the files that `module` is written in gives a tensor's first size as it is.

    A name of these files and not Python's own: what else runs meanwhile does not see it. And `isinstance` takes sizes
    for the integers that they are to forward.
    """
    own = {"len": length, "isinstance": is_instance}
    changed = [(names, name) for names in _namespaces(module) for name in own if name not in names]
    for names, name in changed:
        names[name] = own[name]
    try:
        yield
    finally:
        for names, name in changed:
            del names[name]


def length(obj: Any, /) -> Any:
    """Python's len, of a tensor without making a number of its size."""
    if isinstance(obj, Tensor) and type(obj).__len__ is Tensor.__len__ and obj.dim():
        return obj.shape[0]
    return len(obj)


def is_instance(obj: Any, kind: Any, /) -> bool:
    """Python's isinstance, of numbers that only a run knows as of those that they stand for."""
    stands_for = next((number for symbol, number in _SYMBOLS if isinstance(obj, symbol)), obj)
    return isinstance(stands_for, kind) or isinstance(obj, kind)


_SYMBOLS: tuple[tuple[type, Any], ...] = ((torch.SymInt, 0), (torch.SymFloat, 0.0), (torch.SymBool, False))


@contextmanager
def symbolic_numbers(module: nn.Module) -> Iterator[bool]:
    """Inside, `int` and `float` in the files that `module` is written in leave unknown numbers as they are.

    Whether there are such files. Those that compare a type with `is`, or ask for it as a dtype, are none: what stands
    for the types there has their instances and is not they.
    """
    changed = [
        names for names in _namespaces(module) if not {"int", "float"} & names.keys() and not _names_types(names)
    ]
    for names in changed:
        names.update(int=_Whole, float=_Floating)
    try:
        yield bool(changed)
    finally:
        for names in changed:
            del names["int"], names["float"]


def _names_types(names: dict[str, Any]) -> bool:
    text = "".join(linecache.getlines(str(names.get("__file__"))))
    return not text or bool(_TYPES.search(text))


_TYPES = re.compile(r"\bis (not )?(int|float)\b|\.(to|type|astype)\((int|float)\)|dtype ?= ?(int|float)\b")


class _OfPython(type):
    """A type that has the instances of one of Python's, `kind`, and makes them."""

    kind: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.kind)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.kind)

    def __eq__(cls, other: Any) -> bool:
        return other is cls or other is cls.kind

    def __hash__(cls) -> int:
        return hash(cls.kind)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.kind, name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Tensor):
            args = (args[0].item(),)
        if len(args) == 1 and isinstance(args[0], (torch.SymInt, torch.SymFloat)):
            return torch.sym_int(args[0]) if cls.kind is int else torch.sym_float(args[0])
        return cls.kind(*args, **kwargs)


class _Whole(metaclass=_OfPython):
    kind = int


class _Floating(metaclass=_OfPython):
    kind = float


def _namespaces(module: nn.Module) -> list[dict[str, Any]]:
    """The globals of the methods of all classes in the tree, of functions in these files, and of those they import."""
    kinds = {kind for part in module.modules() for kind in type(part).__mro__}
    known = [value for kind in kinds for value in vars(kind).values()]
    known += [value for part in module.modules() for value in vars(part).values()]
    own = {kind.__module__.split(".")[0] for kind in kinds}
    found: dict[int, dict[str, Any]] = {}
    while known:
        for function in _functions(known.pop()):
            names = function.__globals__
            package = str(names.get("__name__")).split(".")[0]
            if id(names) in found or package in _LIBRARIES:
                continue
            found[id(names)] = names
            if package in own:
                known += names.values()
    return list(found.values())


def _functions(value: Any) -> Iterator[FunctionType]:
    """A function, the one of a method, and those that decorators have put others around."""
    value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    while isinstance(value, FunctionType):
        yield value
        value = vars(value).get("__wrapped__")
