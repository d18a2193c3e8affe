"""Compiles the code of graph modules when it is read, because most graphs are replaced before they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from ....torch_internals import NAMES_OF_COMPILED_GRAPHS


def when_read(recompile: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a `GraphModule.recompile` that leaves the work to the first read of `forward`, or of the code.

    A capture makes and edits a dozen graph modules, and each time PyTorch writes Python for the whole graph and
    compiles it. Only those that run need it. Each graph module has a class of its own, so its names can be set there.
    """
    compiles = getattr(recompile, "compiles", recompile)  # within another capture, it is already replaced

    def mark(module: fx.GraphModule) -> None:
        for name in NAMES_OF_COMPILED_GRAPHS:
            vars(module).pop(name, None)
            setattr(type(module), name, _CompiledWhenRead(name, compiles))

    mark.__dict__["compiles"] = compiles
    return mark


class _CompiledWhenRead:
    """An attribute of a graph module that exists once it is compiled."""

    def __init__(self, name: str, recompile: Callable[[Any], Any]) -> None:
        self.name, self.recompile = name, recompile

    def __get__(self, module: fx.GraphModule | None, owner: type) -> Any:
        if module is None:
            return self
        given = {name: value for name, value in vars(module).items() if name in NAMES_OF_COMPILED_GRAPHS}
        self.recompile(module)
        vars(module).update(given)  # assigned after the last change of the graph
        for name in NAMES_OF_COMPILED_GRAPHS:
            if isinstance(vars(owner).get(name), _CompiledWhenRead):
                delattr(owner, name)
        return getattr(module, self.name)
