"""Lists of a TorchScript program whose length or place is not known: ONNX sequences, and rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported

from .torchscript_numbers import as_number
from .torchscript_values import List, Number, Sequence, Tensor, read
from .torchscript_walk import Walk
from .values import cast, mark


def refuse(why: str) -> Any:
    """Raise `Unsupported`, as an expression."""
    raise Unsupported(why)


def on_sequence(walk: Walk, node: Any, args: list[Any]) -> Any:
    """The operators on a list that became an ONNX sequence."""
    thing, sequence = args[0], args[0].state
    g, kind = walk.g, node.kind()
    with g.at(walk.location(node)):
        if kind == "aten::append":
            walk.memory.write(thing, inserted(walk, sequence, args[1:]))
            return thing
        if kind == "aten::len":
            return Number(mark(g.SequenceLength(sequence.value)), int)
        if kind == "aten::__getitem__":
            value = g.SequenceAt(sequence.value, as_number(g, args[1]))
            g.facts(value, dtype=sequence.dtype, shape=None if sequence.rank is None else [None] * sequence.rank)
            return walk.tensor(value) if sequence.item is Tensor else Number(mark(value), sequence.item)
    raise Unsupported("this operator on a list whose length is not known")


def inserted(walk: Walk, sequence: Sequence, items: Iterable[Any]) -> Sequence:
    for item in items:
        value = walk.value(read(walk.memory, item)) if isinstance(item, Tensor) else as_number(walk.g, item)
        longer = walk.g.SequenceInsert(sequence.value, cast(walk.g, value, sequence.dtype))
        sequence = replace(sequence, value=sequence_typed(longer, sequence.dtype))
    return sequence


def sequence_typed(value: ir.Value, dtype: ir.DataType) -> ir.Value:
    """State that `value` is a sequence of tensors of `dtype`."""
    value.type = ir.SequenceType(ir.TensorType(dtype))
    return value


def joined(new_axis: int) -> Callable[[Walk, Any, list[Any]], Any]:
    """torch.cat and torch.stack of a list that grew in a loop."""

    def join(walk: Walk, node: Any, args: list[Any]) -> Any:
        if not isinstance(args[0], List) or not isinstance(args[0].state, Sequence):
            return NotImplemented
        sequence, g = args[0].state, walk.g
        axis = args[1] if isinstance(args[1], int) else refuse("a dim that is known at run time only")
        rank = None if sequence.rank is None else sequence.rank + new_axis
        if axis < 0 and rank is not None:
            axis += rank
        with g.at(walk.location(node)):
            value = g.ConcatFromSequence(sequence.value, axis=axis, new_axis=new_axis)
        return walk.tensor(g.facts(value, dtype=sequence.dtype, shape=None if rank is None else [None] * rank))

    return join


def split(walk: Walk, node: Any, args: list[Any]) -> Any:
    """torch.split into as many parts as the sizes decide when the model runs."""
    if isinstance(args[0], str):
        return List(tuple(args[0].split(*[a for a in args[1:] if a is not None])), walk.memory.scope)
    if not isinstance(args[0], Tensor) or not isinstance(args[1], (int, Number)) or not isinstance(args[2], int):
        return NotImplemented
    content = read(walk.memory, args[0])
    if not isinstance(content, ir.Value) or content.shape is None or content.dtype is None:
        return NotImplemented
    length = content.shape[args[2]]
    if isinstance(args[1], int) and isinstance(length, int):
        return NotImplemented
    g = walk.g
    with g.at(walk.location(node)):
        parts = g.SplitToSequence(content, as_number(g, args[1]), axis=args[2])
    state = Sequence(sequence_typed(parts, content.dtype), content.dtype, len(content.shape), Tensor)
    return List(state, walk.memory.scope)


def chosen(walk: Walk, node: Any, items: tuple[Any, ...], index: Number) -> Any:
    """One of several numbers, at a place that is known at run time only."""
    kinds = {i.kind if isinstance(i, Number) else type(i) for i in items}
    if len(kinds) != 1 or not kinds <= {int, float, bool}:
        raise Unsupported("an item of a list at a place that is known at run time only")
    g = walk.g
    with g.at(walk.location(node)):
        row = g.Concat(*(g.Unsqueeze(as_number(g, i), [0]) for i in items), axis=0)
        return Number(mark(g.Gather(row, index.value, axis=0)), kinds.pop())
