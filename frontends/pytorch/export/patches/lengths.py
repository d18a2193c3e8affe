"""Replaces Python's len, divmod, int, float and isinstance for run-time values; the originals would use the example's
numbers.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

_LIBRARIES = {"convert", "torch", "numpy", *sys.stdlib_module_names}
"""Packages whose code keeps Python's len, because it is no network, or was written for capture."""

_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


@contextmanager
def symbolic_lengths(module: nn.Module) -> Iterator[None]:
    """Make `len` in the files of `module` return a tensor's first size symbolically.

    It is a name in these files and not Python's own, so other code does not see it. `isinstance` treats sizes as the
    integers that they are for forward, and `divmod` takes them.
    """
    own = {"len": length, "isinstance": is_instance, "divmod": quotient_and_remainder}
    changed = [(names, name) for names in _namespaces(module) for name in own if name not in names]
    for names, name in changed:
        names[name] = own[name]
    try:
        yield
    finally:
        for names, name in changed:
            del names[name]


def length(obj: Any, /) -> Any:
    """Python's len, without turning a tensor's size into a number."""
    if isinstance(obj, Tensor) and type(obj).__len__ is Tensor.__len__ and obj.dim():
        return obj.shape[0]
    return len(obj)


def quotient_and_remainder(left: Any, right: Any, /) -> tuple[Any, Any]:
    """Python's divmod, which symbolic sizes lack."""
    if isinstance(left, _SIZES) or isinstance(right, _SIZES):
        return left // right, left % right
    return divmod(left, right)


def is_instance(obj: Any, kind: Any, /) -> bool:
    """Python's isinstance, with run-time numbers treated as the numbers that they stand for."""
    stands_for = next((number for symbol, number in _SYMBOLS if isinstance(obj, symbol)), obj)
    return isinstance(stands_for, kind) or isinstance(obj, kind)


_SIZES = (torch.SymInt, torch.SymFloat)
_SYMBOLS: tuple[tuple[type, Any], ...] = ((torch.SymInt, 0), (torch.SymFloat, 0.0), (torch.SymBool, False))


@contextmanager
def symbolic_numbers(module: nn.Module) -> Iterator[bool]:
    """Make `int` and `float` in the files of `module` leave unknown numbers unchanged; yield whether there are such
    files.

    Files that compare a type with `is`, or use it as a dtype, are excluded, because the replacement has the type's
    instances but is another object.
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
    """A type that has the instances of a Python type `kind`, and creates them."""

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
    """Return the globals of the methods of all classes in the tree, and of functions and modules in these files.

    Files of the same packages, and files that are not installed, are searched in turn.
    """
    kinds = {kind for part in module.modules() for kind in type(part).__mro__}
    known = [value for kind in kinds for value in vars(kind).values()]
    known += [value for part in module.modules() for value in vars(part).values()]
    own = {kind.__module__.split(".")[0] for kind in kinds}
    found: dict[int, dict[str, Any]] = {}
    while known:
        for names in _globals_of(known.pop()):
            package = str(names.get("__name__")).split(".")[0]
            if id(names) in found or package in _LIBRARIES:
                continue
            found[id(names)] = names
            if package in own or not _INSTALLED.search(str(names.get("__file__"))):
                known += names.values()
    return list(found.values())


def _globals_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the globals of a module, or those of a function, of a method, and of those that decorators have wrapped."""
    value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if isinstance(value, ModuleType):
        yield vars(value)
    while isinstance(value, FunctionType):
        yield value.__globals__
        value = vars(value).get("__wrapped__")
