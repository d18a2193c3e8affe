"""Replaces Python's len, divmod, int, float, type and isinstance for run-time values; the originals would use the
example's numbers.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
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

    It is a name in these files and not Python's own, so other code does not see it. `isinstance` and `type` treat sizes
    as the integers that they are for forward, `divmod` takes them, and `int` and `float` keep them symbolic.
    """
    own = {"len": length, "isinstance": is_instance, "divmod": quotient_and_remainder, "type": _Kind}
    with _names_added([(names, own) for names in _namespaces(module)]), _numbers_added(module, _Whole, _Floating):
        yield


@contextmanager
def _names_added(added: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> Iterator[None]:
    """Add names to namespaces, except for those that a namespace has."""
    changed = [(names, name, value) for names, own in added for name, value in own.items() if name not in names]
    for names, name, value in changed:
        names[name] = value
    try:
        yield
    finally:
        for names, name, _ in changed:
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
    return isinstance(_number_for(obj), kind) or isinstance(obj, kind)


def _number_for(obj: Any) -> Any:
    """Return a Python number of the type that a run-time number stands for; any other object unchanged."""
    return next((number for symbol, number in _SYMBOLS if isinstance(obj, symbol)), obj)


_SIZES = (torch.SymInt, torch.SymFloat)
_SYMBOLS: tuple[tuple[type, Any], ...] = ((torch.SymInt, 0), (torch.SymFloat, 0.0), (torch.SymBool, False))


@contextmanager
def symbolic_numbers(module: nn.Module) -> Iterator[bool]:
    """Make `int` and `float` in the files of `module` leave the numbers in tensors unknown; yield whether there are
    such files.
    """
    with _numbers_added(module, _WholeOfData, _FloatingOfData) as changed:
        yield changed


@contextmanager
def _numbers_added(module: nn.Module, whole: type, floating: type) -> Iterator[bool]:
    """Replace `int` and `float` in the files of `module`; yield whether there are such files.

    Files that compare a type with `is`, or use it as a dtype, are excluded, because the replacement has the type's
    instances but is another object.
    """
    changed = [
        names for names in _namespaces(module) if not {"int", "float"} & names.keys() and not _names_types(names)
    ]
    with _names_added([(names, {"int": whole, "float": floating}) for names in changed]):
        yield bool(changed)


def _names_types(names: dict[str, Any]) -> bool:
    text = "".join(linecache.getlines(str(names.get("__file__"))))
    return not text or _has_types(text)


@lru_cache(1 << 10)
def _has_types(text: str) -> bool:
    """Return whether a file's text compares types or uses them as dtypes. The text of transformers is long, and each
    capture asks.
    """
    return bool(_TYPES.search(text))


_TYPES = re.compile(r"\bis (not )?(int|float)\b|\.(to|type|astype)\((int|float)\)|dtype ?= ?(int|float)\b")


class _OfPython(type):
    """A type that has the instances of a Python type `kind`, and creates them.

    of_data: whether it takes the numbers in tensors as well.
    """

    kind: type
    of_data = False

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
        if cls.of_data and len(args) == 1 and isinstance(args[0], Tensor):
            args = (args[0].item(),)
        if len(args) == 1 and isinstance(args[0], _SIZES):
            return torch.sym_int(args[0]) if cls.kind is int else torch.sym_float(args[0])
        return cls.kind(*args, **kwargs)


class _Whole(metaclass=_OfPython):
    kind = int


class _WholeOfData(_Whole):
    of_data = True


class _Floating(metaclass=_OfPython):
    kind = float


class _FloatingOfData(_Floating):
    of_data = True


class _TypeOfPython(_OfPython):
    """Python's `type`, which for a size returns the type of the number that it represents."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return type(_number_for(args[0])) if len(args) == 1 else type(*args, **kwargs)


class _Kind(metaclass=_TypeOfPython):
    kind = type


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
