"""len(x) of a tensor as a size that may be dynamic: Python's own wants a number, and the capture would hold for one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from torch import Tensor, nn

_LIBRARIES = {"torch", "numpy", *sys.stdlib_module_names}
"""Packages whose code keeps Python's len: it is no network, or written for capture."""


@contextmanager
def symbolic_lengths(module: nn.Module) -> Iterator[None]:
    """Inside, `len` in the files that `module` is written in gives a tensor's first size as it is.

    A name of these files and not Python's own: what else runs meanwhile does not see it.
    """
    changed = [names for names in _namespaces(module) if "len" not in names]
    for names in changed:
        names["len"] = length
    try:
        yield
    finally:
        for names in changed:
            del names["len"]


def length(obj: Any, /) -> Any:
    """Python's len, of a tensor without making a number of its size."""
    if isinstance(obj, Tensor) and type(obj).__len__ is Tensor.__len__ and obj.dim():
        return obj.shape[0]
    return len(obj)


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
