"""Runs a TorchScript program with a clock in each of its loops: nothing else can stop a loop of the user's program.

TorchScript's interpreter reacts to no signal and checks no flag, and another process would lack what the program has
registered. So a copy of the graph runs, in which each iteration of a loop checks the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..torch_internals import FloatType, function_of_graph, script_object

OUT_OF_TIME = "its time is over, at a round of a loop of"
"""The message of the error that stops a program."""

_NAMESPACE = "convert_clock"
_LIBRARY = torch.library.Library(_NAMESPACE, "DEF")
# otherwise passes would remove the operator, which returns nothing
_LIBRARY.define("look(float end) -> ()", alias_analysis="CONSERVATIVE")


def _look(end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError(OUT_OF_TIME)


_LIBRARY.impl("look", _look, "CompositeExplicitAutograd")


def run_with_clock(module: Any, args: tuple[Any, ...], named: Mapping[str, Any], seconds: float) -> Any:
    """Return the result of the module. Raises its errors, and `RuntimeError` with `OUT_OF_TIME` when the time is over.

    A program without loops, or a module that is no TorchScript, runs without a clock. A single operator is not
    interrupted.
    """
    graph = getattr(module, "inlined_graph", None)  # a copy with all methods inlined
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
    """Yield the arguments of a call by position."""
    owned = isinstance(module, torch.jit.ScriptModule)
    function: Any = module.forward if owned else module
    wanted = function.schema.arguments[owned:]  # the module itself comes first, whatever its name in the program
    yield from args
    for argument in wanted[len(args) :]:
        yield named.get(argument.name, argument.default_value)


def _loops(block: Any) -> Iterator[Any]:
    """Yield the loops of a graph and of its nested blocks."""
    for node in block.nodes():
        if node.kind() == "prim::Loop":
            yield node
        for inner in node.blocks():
            yield from _loops(inner)
