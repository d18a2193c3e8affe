"""Runs a TorchScript program with a clock in each of its loops: nothing else can end one, in a program of the user's.

Its interpreter takes no signal and looks at no flag, and a process of its own would not see what the program has
registered. So a copy of the graph is run, in which each round of a loop asks whether the time is over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..torch_internals import FloatType, function_of_graph, script_object

OVER = "its time is over, at a round of a loop of"
"""What the error of a program says that was ended."""

_NAMESPACE = "convert_clock"
_LIBRARY = torch.library.Library(_NAMESPACE, "DEF")
_LIBRARY.define("look(float end) -> ()", alias_analysis="CONSERVATIVE")  # else it is taken out, as it gives nothing


def _look(end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError(OVER)


_LIBRARY.impl("look", _look, "CompositeExplicitAutograd")


def run_with_clock(module: Any, args: tuple[Any, ...], named: Mapping[str, Any], seconds: float) -> Any:
    """What the module gives. Raises what it raises, and `RuntimeError` that says `OVER` when the time is over.

    A program without loops, and what is no TorchScript, is run as it is. A single operator is not interrupted.
    """
    graph = getattr(module, "inlined_graph", None)  # a copy, with what the methods call written out
    if graph is None or seconds == math.inf or not any(_loops(graph)):
        return module(*args, **named)
    end = graph.create("prim::Constant", [], 1)
    end.f_("value", time.monotonic() + seconds)
    end.output().setType(FloatType.get())
    graph.prependNode(end)
    for loop in [*_loops(graph)]:
        look = graph.create(f"{_NAMESPACE}::look", [end.output()], 0)
        look.insertBefore(next(iter(loop.blocks())).returnNode())
    owner = [script_object(module)] if isinstance(module, torch.jit.ScriptModule) else []
    run = function_of_graph("forward", graph)
    return run(*owner, *_in_order(module, args, named))


def _in_order(module: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Any]:
    """The arguments of a call by their places."""
    owned = isinstance(module, torch.jit.ScriptModule)
    function: Any = module.forward if owned else module
    wanted = function.schema.arguments[owned:]  # the module itself is the first, whatever the program calls it
    yield from args
    for argument in wanted[len(args) :]:
        yield named.get(argument.name, argument.default_value)


def _loops(block: Any) -> Iterator[Any]:
    """The loops of a graph, and of the blocks in it."""
    for node in block.nodes():
        if node.kind() == "prim::Loop":
            yield node
        for inner in node.blocks():
            yield from _loops(inner)
