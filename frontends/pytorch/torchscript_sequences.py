"""Lists of a TorchScript program that grow in a loop of unknown length: ONNX sequences."""

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
