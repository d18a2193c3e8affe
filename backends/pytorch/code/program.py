"""What is recorded of a network, and printed as Python: values, the calls that give them, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
import torch


@dataclass(eq=False)
class Value:
    """What a variable holds: a tensor (`fake` has its dtype and dims), or an int that the run tells (a symbol)."""

    fake: Any
    name: str = ""
    """What the graph calls it; empty for a step between."""


@dataclass(eq=False)
class Weight(Value):
    """A parameter or buffer; `place` is its path in the module, `layer1.0.conv1.weight`."""

    place: str = ""
    content: torch.Tensor | None = None

    @property
    def parameter(self) -> bool:
        """Whether it is trained."""
        return isinstance(self.content, torch.nn.Parameter)


@dataclass(eq=False)
class Literal(Value):
    """A small constant; `number` is an int, a float, a bool, a size, or None where `array` is no scalar."""

    array: np.ndarray | None = None
    number: Any = None


@dataclass(frozen=True)
class Size:
    """A number made of sizes, by symbols of the capture."""

    expression: sympy.Expr


@dataclass(eq=False)
class Statement:
    """`path`: the module that it is of, as the graph tells it."""

    path: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(eq=False)
class Call(Statement):
    """A function of PyTorch; `target` is its name as `resolve_name` gives it, or a form of our own (`printer.py`)."""

    target: str
    args: Sequence[Any]
    kwargs: dict[str, Any]
    outputs: list[Value]
    function: Callable[..., Any] | None = None
    several: bool = False
    """Whether it gives a tuple."""
    states: bool = False
    """Whether all outputs but the first are a tuple of their own, as those of an LSTM."""


@dataclass(eq=False)
class Assign(Statement):
    """Variables that are set again: `a, b = c, d`."""

    outputs: list[Value]
    values: list[Any]


@dataclass(eq=False)
class If(Statement):
    """Both blocks end with an `Assign` to the outputs."""

    condition: Any
    then: list[Statement]
    other: list[Statement]
    outputs: list[Value]


@dataclass(eq=False)
class Loop(Statement):
    """`for counter in range(count)`, or `while True` where there is no count; a `Break` in the block leaves it."""

    counter: Value | None
    count: Any
    block: list[Statement]
    outputs: list[Value]
    """The variables that it carries, which are set before it."""


@dataclass(eq=False)
class Break(Statement):
    """Leave the loop unless `condition` holds."""

    condition: Any
    outputs: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class ForEach(Statement):
    """`for layer in self.layers: x = layer(x, mask)`: the calls of all modules of a list."""

    calls: list[Call]
    place: int
    """Which argument is what the one before has given."""
    outputs: list[Value]


def leaves(tree: Any) -> Iterator[Any]:
    """The values, sizes and literals of an argument."""
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
    """What a statement itself reads, without the blocks in it."""
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
    """The blocks in a statement."""
    match statement:
        case If():
            return [statement.then, statement.other]
        case Loop():
            return [statement.block]
    return []


def all_statements(block: Sequence[Statement]) -> Iterator[Statement]:
    """Those of a block and of the blocks in it, in their order."""
    for statement in block:
        yield statement
        for inner in blocks_of(statement):
            yield from all_statements(inner)


def made_by(statement: Statement) -> Iterator[Value]:
    """Every value that a statement sets, those within its blocks too."""
    for inner in all_statements([statement]):
        yield from getattr(inner, "outputs", ())
        if isinstance(inner, Loop) and inner.counter is not None:
            yield inner.counter


def read_by(statement: Statement) -> Iterator[Any]:
    """What a statement reads, within its blocks too."""
    for inner in all_statements([statement]):
        yield from inputs_of(inner)


def values_read(statement: Statement, symbols: Mapping[Any, Value]) -> Iterator[Value]:
    """The values that a statement and its blocks read, with the ints that its sizes are made of."""
    yield from _with_symbols(read_by(statement), symbols)


def own_values_read(statement: Statement, symbols: Mapping[Any, Value]) -> Iterator[Value]:
    """The same without its blocks."""
    yield from _with_symbols(inputs_of(statement), symbols)


def _with_symbols(found: Iterator[Any], symbols: Mapping[Any, Value]) -> Iterator[Value]:
    for x in found:
        if isinstance(x, Size):
            yield from (symbols[s] for s in sorted(x.expression.free_symbols, key=str) if s in symbols)
        elif isinstance(x, Value):
            yield x
