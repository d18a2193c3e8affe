"""The recorded network that is printed as Python: values, calls, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
import torch


@dataclass(eq=False)
class Value:
    """The content of a variable: a tensor (`fake` has its dtype and dims), or an int known at run time only (a
    symbol).
    """

    fake: Any
    name: str = ""
    """The value's name in the graph; empty for an intermediate value."""


@dataclass(eq=False)
class Weight(Value):
    """A parameter or buffer; `place` is its path in the module, `layer1.0.conv1.weight`."""

    place: str = ""
    content: torch.Tensor | None = None

    @property
    def parameter(self) -> bool:
        """Return whether the value is a trained parameter."""
        return isinstance(self.content, torch.nn.Parameter)


@dataclass(eq=False)
class Literal(Value):
    """A small constant; `number` is an int, a float, a bool, a size, or None if `array` is no scalar."""

    array: np.ndarray | None = None
    number: Any = None


@dataclass(frozen=True)
class Size:
    """An expression of sizes, in symbols of the capture."""

    expression: sympy.Expr


@dataclass(eq=False)
class Statement:
    """A statement; `path` is the module that it belongs to, as the graph says."""

    path: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(eq=False)
class Call(Statement):
    """A call of a PyTorch function; `target` is its name as given by `resolve_name`, or a form of our own
    (`printer.py`).
    """

    target: str
    args: Sequence[Any]
    kwargs: dict[str, Any]
    outputs: list[Value]
    function: Callable[..., Any] | None = None
    several: bool = False
    """Whether it returns a tuple."""
    states: bool = False
    """Whether all outputs but the first form a tuple, as those of an LSTM do."""


@dataclass(eq=False)
class Assign(Statement):
    """Assigns existing variables: `a, b = c, d`."""

    outputs: list[Value]
    values: list[Any]


@dataclass(eq=False)
class If(Statement):
    """A branch; both blocks end with an `Assign` to the outputs."""

    condition: Any
    then: list[Statement]
    other: list[Statement]
    outputs: list[Value]


@dataclass(eq=False)
class Loop(Statement):
    """`for counter in range(count)`, or `while True` without a count; a `Break` in the block ends it."""

    counter: Value | None
    count: Any
    block: list[Statement]
    outputs: list[Value]
    """The loop-carried variables, which are assigned before the loop."""


@dataclass(eq=False)
class Break(Statement):
    """Ends the loop unless `condition` holds."""

    condition: Any
    outputs: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class ForEach(Statement):
    """`for layer in self.layers: x = layer(x, mask)`: the calls of all modules of a list."""

    calls: list[Call]
    place: int
    """The position of the argument that is the previous module's result."""
    outputs: list[Value]


def leaves(tree: Any) -> Iterator[Any]:
    """Yield the values, sizes and literals in an argument."""
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from leaves(item)
    elif isinstance(tree, slice):
        yield from leaves((tree.start, tree.stop, tree.step))
    elif isinstance(tree, Literal) and isinstance(tree.number, Size):
        yield tree
        yield tree.number
    else:
        yield tree


def inputs_of(statement: Statement) -> Iterator[Any]:
    """Yield what a statement itself reads, without its blocks."""
    match statement:
        case Call():
            yield from leaves((statement.args, statement.kwargs))
        case Assign():
            yield from leaves(statement.values)
        case ForEach():
            yield from leaves(statement.calls[0].args[1:])
        case If() | Break():
            yield from leaves(statement.condition)
        case Loop():
            yield from leaves(statement.count)
            yield from statement.outputs


def blocks_of(statement: Statement) -> list[list[Statement]]:
    """Return the blocks in a statement."""
    match statement:
        case If():
            return [statement.then, statement.other]
        case Loop():
            return [statement.block]
    return []


def all_statements(block: Sequence[Statement]) -> Iterator[Statement]:
    """Yield the statements of a block and of all nested blocks, in order."""
    for statement in block:
        yield statement
        for inner in blocks_of(statement):
            yield from all_statements(inner)


def made_by(statement: Statement) -> Iterator[Value]:
    """Yield every value that a statement sets, also in its blocks."""
    for inner in all_statements([statement]):
        yield from getattr(inner, "outputs", ())
        if isinstance(inner, Loop) and inner.counter is not None:
            yield inner.counter


def read_by(statement: Statement) -> Iterator[Any]:
    """Yield what a statement reads, also in its blocks."""
    for inner in all_statements([statement]):
        yield from inputs_of(inner)


def values_read(statement: Statement, symbols: Mapping[Any, Value]) -> Iterator[Value]:
    """Yield the values that a statement and its blocks read, including the ints in its sizes."""
    yield from _with_symbols(read_by(statement), symbols)


def own_values_read(statement: Statement, symbols: Mapping[Any, Value]) -> Iterator[Value]:
    """Yield the values that a statement reads without its blocks, including the ints in its sizes."""
    yield from _with_symbols(inputs_of(statement), symbols)


def _with_symbols(found: Iterator[Any], symbols: Mapping[Any, Value]) -> Iterator[Value]:
    for x in found:
        if isinstance(x, Size):
            yield from (symbols[s] for s in sorted(x.expression.free_symbols, key=str) if s in symbols)
        elif isinstance(x, Value):
            yield x
