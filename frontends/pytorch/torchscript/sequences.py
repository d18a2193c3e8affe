"""Lists of a TorchScript program with unknown length or unknown index: ONNX sequences, and tensors of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.values import cast, mark_scalar
from .context import Walk
from .numbers import as_number
from .values import NUMBERS, List, Number, Sequence, Tensor, is_known, mark_listed, read


def refuse(why: str) -> Any:
    """Raise `Unsupported`, as an expression."""
    raise Unsupported(why)


def call_on_sequence(walk: Walk, node: Any, args: list[Any]) -> Any:
    """Apply an operator to a list that became an ONNX sequence. Raises `Unsupported` for an operator that has no
    rule.
    """
    kind = node.kind().removeprefix("aten::")
    if kind not in _ON_SEQUENCES:
        raise Unsupported("this operator on a list whose length is not known")
    with walk.g.at(walk.location(node)):
        return _ON_SEQUENCES[kind](walk, args[0], args[0].state, *args[1:])


def length_of(walk: Walk, sequence: Sequence) -> ir.Value:
    """Return the number of items; for the rows of a tensor, from its shape."""
    rows = _unbound_tensor(sequence)
    if rows is None:
        return walk.g.SequenceLength(sequence.value)
    x, axis = rows
    return walk.g.Squeeze(walk.g.Shape(x, start=axis, end=axis + 1), [0])


def item_of(walk: Walk, sequence: Sequence, place: Any) -> Any:
    """Return the item at an index, which may count from the end."""
    g, rows = walk.g, _unbound_tensor(sequence)
    place = as_number(g, place)
    value = g.SequenceAt(sequence.value, place) if rows is None else g.Gather(rows[0], place, axis=rows[1])
    g.facts(value, dtype=sequence.dtype)
    if rows is None:
        g.facts(value, shape=None if sequence.rank is None else [None] * sequence.rank)
    if sequence.item is not Tensor:
        return Number(mark_scalar(value), sequence.item)
    tensor = walk.tensor(value)
    mark_listed(tensor)
    return tensor


def _unbound_tensor(sequence: Sequence) -> tuple[ir.Value, int] | None:
    """Return the tensor that an unbind split into this sequence, and its dim; None for another sequence."""
    node = sequence.value.producer()
    if node is None or node.op_type != "SplitToSequence" or len(node.inputs) > 1 or node.inputs[0] is None:
        return None
    return node.inputs[0], node.attributes["axis"].as_int()


def _append(walk: Walk, obj: List, sequence: Sequence, item: Any) -> List:
    walk.memory.write(obj, insert_items(walk, sequence, [item]))
    return obj


def _insert(walk: Walk, obj: List, sequence: Sequence, place: Any, item: Any) -> Any:
    walk.memory.write(obj, insert_items(walk, sequence, [item], place))
    return ()


def _extend(walk: Walk, obj: List, sequence: Sequence, more: List) -> List:
    walk.memory.write(obj, concat_sequences(walk, sequence, more.state))
    return obj


def _replace(walk: Walk, obj: List, sequence: Sequence, place: Any, item: Any) -> List:
    place = _index_from_start(walk, place, length_of(walk, sequence))
    shorter = replace(sequence, value=_sequence_like(walk, walk.g.SequenceErase(sequence.value, place), sequence))
    walk.memory.write(obj, insert_items(walk, shorter, [item], Number(place, int)))
    return obj


def _pop(walk: Walk, obj: List, sequence: Sequence, place: Any = -1) -> Any:
    item = item_of(walk, sequence, place)
    shorter = walk.g.SequenceErase(sequence.value, as_number(walk.g, place))
    walk.memory.write(obj, replace(sequence, value=_sequence_like(walk, shorter, sequence)))
    return item


def _reverse(walk: Walk, obj: List, sequence: Sequence) -> Any:
    walk.memory.write(obj, _slice_sequence(walk, sequence, None, None, -1))
    return ()


def _clear(walk: Walk, obj: List, sequence: Sequence) -> Any:
    walk.memory.write(obj, _empty_sequence(walk, sequence))
    return ()


def _slice(walk: Walk, obj: List, sequence: Sequence, start: Any, end: Any, step: Any = 1) -> List:
    if not isinstance(step, int) or step == 0:
        raise Unsupported("slicing a list by a step known at run time only")
    return List(_slice_sequence(walk, sequence, start, end, step), walk.memory.scope)


_ON_SEQUENCES: dict[str, Callable[..., Any]] = {
    "append": _append,
    "insert": _insert,
    "extend": _extend,
    "_set_item": _replace,
    "pop": _pop,
    "Delete": lambda walk, obj, sequence, place: (_pop(walk, obj, sequence, place), ())[1],
    "reverse": _reverse,
    "clear": _clear,
    "slice": _slice,
    "len": lambda walk, obj, sequence: Number(mark_scalar(length_of(walk, sequence)), int),
    "__getitem__": lambda walk, obj, sequence, place: item_of(walk, sequence, place),
}


# -- making sequences -------------------------------------------------------------------------------------------------


def _sequence_like(walk: Walk, value: ir.Value, like: Sequence) -> ir.Value:
    return set_sequence_type(value, like.dtype)


def _empty_sequence(walk: Walk, like: Sequence) -> Sequence:
    return replace(like, value=_sequence_like(walk, walk.g.SequenceEmpty(dtype=like.dtype), like))


def _index_from_start(walk: Walk, place: Any, length: ir.Value) -> ir.Value:
    """Return an index counted from the start."""
    g = walk.g
    value = as_number(g, place)
    if isinstance(place, int) and place >= 0:
        return value
    return g.Where(g.Less(value, 0), g.Add(value, length), value)


def concat_sequences(walk: Walk, first: Any, second: Any) -> Sequence:
    """Concatenate two lists, at least one of them a sequence; the other may be a tuple of items."""
    if isinstance(second, tuple):
        return insert_items(walk, first, second)
    if isinstance(first, tuple):
        first = insert_items(walk, _empty_sequence(walk, second), first)
    if first.dtype != second.dtype:
        raise Unsupported("joining lists of tensors of two dtypes")
    return _extend_strided(walk, second, walk.g.const(0), 1, length_of(walk, second), first)


def _slice_sequence(walk: Walk, sequence: Sequence, start: Any, end: Any, step: int) -> Sequence:
    """Return list[start:end:step], as in Python."""
    g = walk.g
    length = length_of(walk, sequence)
    last = length if step > 0 else g.Sub(length, 1)
    least = g.const(0 if step > 0 else -1)

    def bound(given: Any, default: ir.Value) -> ir.Value:
        if given is None:
            return default
        return g.Max(g.Min(_index_from_start(walk, given, length), last), least)

    first, stop = bound(start, least if step > 0 else last), bound(end, last if step > 0 else least)
    distance = g.Sub(stop, first) if step > 0 else g.Sub(first, stop)
    count = g.Max(g.Div(g.Add(distance, abs(step) - 1), abs(step)), 0)
    return _extend_strided(walk, sequence, first, step, count, _empty_sequence(walk, sequence))


def _extend_strided(
    walk: Walk, sequence: Sequence, first: ir.Value, step: int, count: ir.Value, onto: Sequence
) -> Sequence:
    """Append `count` items of a sequence to `onto`, starting at `first` and `step` apart."""
    body = walk.g.body("list")
    turn = body.input("step", ir.DataType.INT64, [])
    body.input("go_on", ir.DataType.BOOL, [])
    before = set_sequence_type(body.input("list", sequence.dtype, None), sequence.dtype)
    item = body.SequenceAt(sequence.value, body.Add(first, body.Mul(turn, step)))
    body.output(body.const(True))
    body.output(set_sequence_type(body.SequenceInsert(before, item), sequence.dtype))
    value = walk.g.Loop(count, None, onto.value, body=body)
    rank = sequence.rank if onto.rank in (None, sequence.rank) else None
    return replace(sequence, value=set_sequence_type(value, sequence.dtype), rank=rank)


def insert_items(walk: Walk, sequence: Sequence, items: Iterable[Any], place: Any = None) -> Sequence:
    """Return a sequence with items appended, or with one item inserted at a place."""
    for item in items:
        if not isinstance(item, (Tensor, Number, bool, int, float)):
            raise Unsupported("a list of unknown length of something else than tensors of one dtype, or numbers")
        if isinstance(item, Tensor):
            mark_listed(item)
        value = walk.value(read(walk.memory, item)) if isinstance(item, Tensor) else as_number(walk.g, item)
        at = None if place is None else as_number(walk.g, place)
        longer = walk.g.SequenceInsert(sequence.value, cast(walk.g, value, sequence.dtype), at)
        sequence = replace(sequence, value=set_sequence_type(longer, sequence.dtype))
    return sequence


def set_sequence_type(value: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Set the type of `value` to a sequence of tensors of `dtype`."""
    value.type = ir.SequenceType(ir.TensorType(dtype))
    return value


def concat_rule(new_axis: int) -> Callable[[Walk, Any, list[Any]], Any]:
    """Return a rule for torch.cat (0) or torch.stack (1) of a list that grew in a loop."""

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


def split_rule(sizes: Callable[[Graph, ir.Value, Any], ir.Value] | None) -> Callable[[Walk, Any, list[Any]], Any]:
    """Return a rule that splits a tensor into as many parts as its run-time length requires.

    `sizes(g, length, argument)` returns the lengths of the parts; None splits off each row.
    """

    def cut(walk: Walk, node: Any, args: list[Any]) -> Any:
        if isinstance(args[0], str):
            if not all(map(is_known, args)):
                raise Unsupported("splitting a text with a value that is known at run time only")
            return List(tuple(args[0].split(*args[1:])), walk.memory.scope)
        if not isinstance(args[0], Tensor) or not isinstance(args[-1], int) or isinstance(args[1], List):
            return NotImplemented
        content = read(walk.memory, args[0])
        if not isinstance(content, ir.Value) or content.shape is None or content.dtype is None:
            return NotImplemented
        rank = len(content.shape)
        axis = args[-1] % rank if rank else 0
        if not rank or (all(isinstance(a, int) for a in args[1:]) and isinstance(content.shape[axis], int)):
            return NotImplemented
        g = walk.g
        with g.at(walk.location(node)):
            length = g.Squeeze(g.Shape(content, start=axis, end=axis + 1), [0])
            given = None if sizes is None else sizes(g, length, as_number(g, args[1]))
            parts = g.SplitToSequence(content, given, axis=axis, keepdims=0 if sizes is None else None)
        mark_listed(args[0])
        typed = set_sequence_type(parts, content.dtype)
        state = Sequence(typed, content.dtype, rank - (sizes is None), Tensor)
        return List(state, walk.memory.scope)

    return cut


def tolist_rule(walk: Walk, node: Any, args: list[Any]) -> Any:
    """Tensor.tolist: a number, or the numbers of a tensor with one dim. Raises `Unsupported` for more dims."""
    g, kind = walk.g, (int, float, bool, complex)[args[2]]
    content = read(walk.memory, args[0])
    if is_known(args[0]) and isinstance(content, torch.Tensor):
        return walk.lift_object(content.tolist())
    if args[1] > 1 or kind is complex:
        raise Unsupported("tolist of a tensor with several dims, or of complex numbers")
    with g.at(walk.location(node)):
        wide = cast(g, walk.value(content), NUMBERS[kind])
        if args[1] == 0:
            return Number(mark_scalar(wide), kind)
        rows = set_sequence_type(g.SplitToSequence(wide, axis=0, keepdims=0), NUMBERS[kind])
        state = Sequence(rows, NUMBERS[kind], 0, kind)
        count = g.shape(wide)[0]
        known = tuple(item_of(walk, state, i) for i in range(count)) if isinstance(count, int) else state
    return List(known, walk.memory.scope)


def split_sizes(g: Graph, length: ir.Value, each: ir.Value) -> ir.Value:
    """Return the part sizes of torch.split: a tensor without rows has one part."""
    count = g.Max(g.Div(g.Sub(g.Add(length, each), 1), each), 1)
    return g.Min(g.Sub(length, g.Mul(g.Range(0, count, 1), each)), each)


def chunk_sizes(g: Graph, length: ir.Value, count: ir.Value) -> ir.Value:
    """Return the part sizes of torch.chunk: parts of equal length, at most `count` of them, the last one shorter."""
    each = g.Div(g.Sub(g.Add(length, count), 1), count)
    least = g.Max(each, 1)
    parts = g.Where(g.Equal(length, 0), count, g.Div(g.Sub(g.Add(length, least), 1), least))
    return g.Min(g.Sub(length, g.Mul(g.Range(0, parts, 1), each)), each)


def select_number(walk: Walk, node: Any, items: tuple[Any, ...], index: Number) -> Any:
    """Return one of several numbers, at a run-time index."""
    kinds = {i.kind if isinstance(i, Number) else type(i) for i in items}
    if len(kinds) != 1 or not kinds <= {int, float, bool}:
        raise Unsupported("an item of a list at a place that is known at run time only")
    g = walk.g
    with g.at(walk.location(node)):
        row = g.Concat(*(g.Unsqueeze(as_number(g, i), [0]) for i in items), axis=0)
        return Number(mark_scalar(g.Gather(row, index.value, axis=0)), kinds.pop())
