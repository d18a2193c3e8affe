"""Lists, tuples, dicts and strings of a TorchScript program: kept as Python's while their length is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convert.errors import Unsupported

from .context import Walk
from .evaluate import plain
from .sequences import (
    chosen,
    chunk_sizes,
    concatenated,
    item_of,
    joined,
    numbers,
    on_sequence,
    parted,
    refuse,
    split_sizes,
)
from .values import Dict, List, Number, Sequence, Tensor, is_known

Container = Callable[[Walk, Any, list[Any]], Any]
"""Returns NotImplemented where the arguments are not containers after all: the operator is one on tensors then."""


def _list(walk: Walk, items: Any) -> List:
    return List(tuple(items), walk.memory.scope)


def _unpack(walk: Walk, node: Any, args: list[Any]) -> Any:
    items = args[0] if isinstance(args[0], tuple) else args[0].state
    if isinstance(items, Sequence):
        # PyTorch raises an exception where there are more or less of them.
        with walk.g.at(walk.location(node)):
            items = tuple(item_of(walk, items, i) for i in range(node.outputsSize()))
    if len(items) != node.outputsSize():
        raise Unsupported(f"unpacking {len(items)} items into {node.outputsSize()} names")
    return items if len(items) != 1 else items[0]


def _dict(walk: Walk, node: Any, args: list[Any]) -> Any:
    return Dict(dict(zip(args[::2], args[1::2], strict=True)), walk.memory.scope)


def _tuple_item(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0][args[1]]


def _tuple_slice(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0][node.i("beg") : node.i("end")]


# -- lists whose length is known --------------------------------------------------------------------------------------


def _on_list(function: Callable[..., Any]) -> Container:
    """A rule for lists of known length: `function(walk, list, items, *args)`, or the sequence's rule."""

    def apply(walk: Walk, node: Any, args: list[Any]) -> Any:
        if not isinstance(args[0], List):
            return NotImplemented
        if isinstance(args[0].state, Sequence):
            return on_sequence(walk, node, args)
        return function(walk, args[0], args[0].state, *args[1:])

    return apply


def _changed(change: Callable[..., Any]) -> Container:
    """A rule that replaces the items of a list by those that `change(items, *args)` gives, and returns the list."""

    def apply(walk: Walk, thing: List, items: tuple[Any, ...], *args: Any) -> Any:
        new = list(items)
        change(new, *args)
        walk.memory.write(thing, tuple(new))
        return thing

    return _on_list(apply)


def _index(index: Any, length: int) -> int:
    if not isinstance(index, int):
        raise Unsupported("an item of a list at a place that is known at run time only")
    if not -length <= index < length:
        raise Unsupported(f"item {index} of a list with {length} items")
    return index


def _item(walk: Walk, node: Any, args: list[Any]) -> Any:
    container, key = args[0], args[1]
    if isinstance(container, Dict):
        if key not in container.state:
            raise Unsupported(f"the key {key!r} is not in the dict")
        return container.state[key]
    if isinstance(container, str):
        return container[key]
    if not isinstance(container, List):
        return NotImplemented
    if isinstance(container.state, Sequence):
        return on_sequence(walk, node, args)
    if isinstance(key, Number):
        return chosen(walk, node, container.state, key)
    return container.state[_index(key, len(container.state))]


def _set_item(walk: Walk, node: Any, args: list[Any]) -> Any:
    container, key, value = args
    if isinstance(container, Dict):
        walk.memory.write(container, {**container.state, key: value})
        return ()
    if isinstance(container.state, Sequence):
        return on_sequence(walk, node, args)
    items = list(container.state)
    items[_index(key, len(items))] = value
    walk.memory.write(container, tuple(items))
    return container


def _slice(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], str):
        return args[0][slice(*args[1:4])]
    if isinstance(args[0], List) and isinstance(args[0].state, Sequence):
        return on_sequence(walk, node, args)
    if not isinstance(args[0], List) or not all(map(is_known, args[1:])):
        return (
            NotImplemented
            if isinstance(args[0], Tensor)
            else refuse("slicing a list by numbers known at run time only")
        )
    return _list(walk, args[0].state[slice(*args[1:4])])


def _added(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], str) and isinstance(args[1], str):
        return args[0] + args[1]
    if not isinstance(args[0], List) or not isinstance(args[1], List):
        return NotImplemented
    first, second = args[0].state, args[1].state
    if isinstance(first, tuple) and isinstance(second, tuple):
        return _list(walk, first + second)
    with walk.g.at(walk.location(node)):
        return List(concatenated(walk, first, second), walk.memory.scope)


def _extended(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not isinstance(args[0], List):
        return NotImplemented
    walk.memory.write(args[0], _added(walk, node, args).state)
    return args[0]


def _repeated(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not isinstance(args[0], List):
        return NotImplemented
    if not isinstance(args[1], int) or not isinstance(args[0].state, tuple):
        raise Unsupported("a list repeated as often as is known at run time only")
    return _list(walk, args[0].state * args[1])


def _popped(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], Dict):
        found = dict(args[0].state)
        value = found.pop(*args[1:])
        walk.memory.write(args[0], found)
        return value
    if isinstance(args[0].state, Sequence):
        return on_sequence(walk, node, args)
    items = list(args[0].state)
    value = items.pop(args[1] if len(args) > 1 else -1)
    walk.memory.write(args[0], tuple(items))
    return value


def _length(walk: Walk, node: Any, args: list[Any]) -> Any:
    thing = args[0]
    if isinstance(thing, (str, tuple)):
        return len(thing)
    if isinstance(thing, List) and isinstance(thing.state, Sequence):
        return on_sequence(walk, node, args)
    return len(thing.state) if isinstance(thing, (List, Dict)) else NotImplemented


def _contains(walk: Walk, node: Any, args: list[Any]) -> Any:
    container, key = args
    if isinstance(container, str):
        return key in container
    items = container.state
    if not is_known(key) or (isinstance(container, List) and not is_known(container)):
        raise Unsupported("looking for a value that is known at run time only")
    return key in items


def _sorted(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not isinstance(args[0], List):
        return NotImplemented
    if not is_known(args[0]) or not all(isinstance(i, (int, float, str)) for i in args[0].state):
        raise Unsupported("sorting a list of values that are known at run time only")
    return _list(walk, sorted(args[0].state, reverse=len(args) > 1 and bool(args[1])))


def _copied(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], Dict):
        return Dict(dict(args[0].state), walk.memory.scope)
    return List(args[0].state, walk.memory.scope) if isinstance(args[0], List) else NotImplemented


def _found(find: Callable[[list[Any], Any], Any]) -> Container:
    """A rule that looks for a value in a list of known values."""

    def apply(walk: Walk, node: Any, args: list[Any]) -> Any:
        if not isinstance(args[0], List) or not is_known(args[0]) or not is_known(args[1]):
            return NotImplemented if isinstance(args[0], Tensor) else refuse("looking for a value in a list of tensors")
        return find(list(args[0].state), args[1])

    return apply


def _is_instance(walk: Walk, node: Any, args: list[Any]) -> Any:
    """Types that differ by more than None are told apart when the program is compiled."""
    types = [t.kind() for t in node.tys("types")]
    kinds = {
        "NoneType": type(None),
        "TensorType": Tensor,
        "ListType": List,
        "DictType": Dict,
        "TupleType": tuple,
        "IntType": int,
        "FloatType": float,
        "BoolType": bool,
        "StringType": str,
    }
    if any(t not in kinds for t in types):
        raise Unsupported("isinstance of a type that is decided at run time")
    if isinstance(args[0], Number):
        return any(kinds[t] is args[0].kind for t in types)
    return any(type(args[0]) is kinds[t] for t in types)


def _from_dict(read_out: Callable[[dict[Any, Any]], Any]) -> Callable[[Walk, Any, list[Any]], Any]:
    def read_dict(walk: Walk, node: Any, args: list[Any]) -> Any:
        return List(tuple(read_out(args[0].state)), walk.memory.scope) if isinstance(args[0], Dict) else NotImplemented

    return read_dict


def _get(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0].state.get(*args[1:3])


def _updated(walk: Walk, node: Any, args: list[Any]) -> Any:
    walk.memory.write(args[0], {**args[0].state, **args[1].state})
    return ()


def _set_default(walk: Walk, node: Any, args: list[Any]) -> Any:
    thing, key, value = args
    if key not in thing.state:
        walk.memory.write(thing, {**thing.state, key: value})
    return thing.state[key]


DICTS: dict[str, Callable[[Walk, Any, list[Any]], Any]] = {
    "aten::keys": _from_dict(dict.keys),
    "aten::values": _from_dict(dict.values),
    "aten::items": _from_dict(dict.items),
    "aten::get": _get,
    "aten::update": _updated,
    "aten::setdefault": _set_default,
}
"""The operators on dicts alone, which are kept as Python's: their keys are known."""


def _in_text(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not is_known(args[0]):
        return "…"
    return str(plain(args[0]))


def _joined_text(walk: Walk, node: Any, args: list[Any]) -> Any:
    return str(args[0]).join(args[1].state) if is_known(args[1]) else "…"


def _formatted(walk: Walk, node: Any, args: list[Any]) -> Any:
    return str(args[0]).format(*(a if is_known(a) else "…" for a in args[1:]))


def _percent(walk: Walk, node: Any, args: list[Any]) -> Any:
    values = args[1] if len(args) == 2 and isinstance(args[1], tuple) else tuple(args[1:])
    return str(args[0]) % tuple(plain(v) for v in values) if is_known(values) else "…"


TEXT: dict[str, Callable[[Walk, Any, list[Any]], Any]] = {
    "aten::str": _in_text,
    "aten::join": _joined_text,
    "aten::format": _formatted,
    "aten::percentFormat": _percent,
}
"""The operators that make text of values: keys, modes and messages. What is known at run time only is shown as "…",
which matters to messages alone: as a key it would be refused."""


CONTAINERS: dict[str, Container] = {
    "prim::ListConstruct": lambda walk, node, args: _list(walk, args),
    "prim::TupleConstruct": lambda walk, node, args: tuple(args),
    "prim::DictConstruct": _dict,
    "prim::ListUnpack": _unpack,
    "prim::TupleUnpack": _unpack,
    "prim::TupleIndex": _tuple_item,
    "prim::TupleSlice": _tuple_slice,
    "aten::__getitem__": _item,
    "aten::_set_item": _set_item,
    "aten::slice": _slice,
    "aten::append": _changed(lambda items, item: items.append(item)),
    "aten::insert": _changed(lambda items, place, item: items.insert(place, item)),
    "aten::extend": _extended,
    "aten::reverse": _changed(lambda items: items.reverse()),
    "aten::clear": _changed(lambda items: items.clear()),
    "aten::Delete": lambda walk, node, args: (_popped(walk, node, args) and ()) or (),
    "aten::pop": _popped,
    "aten::len": _length,
    "aten::add": _added,
    "aten::add_": _extended,
    "aten::mul": _repeated,
    "aten::__contains__": _contains,
    "aten::sorted": _sorted,
    "aten::copy": _copied,
    "aten::list": _copied,
    "aten::dict": _copied,
    "aten::index": _found(list.index),
    "aten::count": _found(list.count),
    "aten::remove": _changed(list.remove),
    "aten::split": parted(split_sizes),
    "aten::chunk": parted(chunk_sizes),
    "aten::unbind": parted(None),
    "prim::isinstance": _is_instance,
    "prim::tolist": numbers,
    "aten::cat": joined(0),
    "aten::stack": joined(1),
    **DICTS,
    **TEXT,
}
"""The operators that take or make containers; what is none of theirs they hand on."""
