"""Lists, tuples, dicts and strings of a TorchScript program: Python objects while their length is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convert import limits
from convert.errors import ResourceLimit, Unsupported

from .context import ProgramError, Walk
from .dict_lookups import LOOKUPS
from .number_lists import NUMBER_LISTS, sort_known
from .sequences import (
    call_on_sequence,
    chunk_sizes,
    concat_rule,
    concat_sequences,
    item_of,
    refuse,
    select_number,
    split_rule,
    split_sizes,
    tolist_rule,
)
from .texts import TEXT, text_of
from .types import is_instance
from .values import UNKNOWN, Dict, List, Number, RunTimeText, Sequence, Tensor, has_unknown, is_known

Container = Callable[[Walk, Any, list[Any]], Any]
"""A rule for containers; it returns NotImplemented if the arguments are tensors after all."""


def _make_list(walk: Walk, items: Any) -> List:
    return List(tuple(items), walk.memory.scope)


def _unpack_items(walk: Walk, node: Any, args: list[Any]) -> Any:
    items = args[0] if isinstance(args[0], tuple) else args[0].state
    if isinstance(items, Sequence):
        # PyTorch raises an exception for another number of items.
        with walk.g.at(walk.location(node)):
            items = tuple(item_of(walk, items, i) for i in range(node.outputsSize()))
    if len(items) != node.outputsSize():
        raise Unsupported(f"unpacking {len(items)} items into {node.outputsSize()} names")
    return items if len(items) != 1 else items[0]


def _known_key(key: Any) -> Any:
    if isinstance(key, (Number, RunTimeText)):
        raise Unsupported("a key of a dict that is known at run time only")
    return key


def _known_text(text: str) -> str:
    if isinstance(text, RunTimeText):
        raise Unsupported("this operator on a text with a value that is known at run time only")
    return text


def _make_dict(walk: Walk, node: Any, args: list[Any]) -> Any:
    for key in args[::2]:
        _known_key(key)
    return Dict(dict(zip(args[::2], args[1::2], strict=True)), walk.memory.scope)


def _tuple_item(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[1], Number):
        return select_number(walk, node, args[0], args[1])
    return args[0][_checked_index(args[1], len(args[0]))]


def _tuple_slice(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0][node.i("beg") : node.i("end")]


# -- lists whose length is known --------------------------------------------------------------------------------------


def _list_rule(function: Callable[..., Any]) -> Container:
    """Wrap `function(walk, list, items, *args)`, for lists of known length; other lists go to the sequence's rule."""

    def apply(walk: Walk, node: Any, args: list[Any]) -> Any:
        if not isinstance(args[0], List):
            return NotImplemented
        if isinstance(args[0].state, Sequence):
            return call_on_sequence(walk, node, args)
        return function(walk, args[0], args[0].state, *args[1:])

    return apply


def _mutation_rule(change: Callable[..., Any]) -> Container:
    """Wrap `change(items, *args)`, which changes a list of items in place; the rule stores the items and returns the
    list.
    """

    def apply(walk: Walk, obj: List, items: tuple[Any, ...], *args: Any) -> Any:
        new = list(items)
        change(new, *args)
        walk.memory.write(obj, tuple(new))
        return obj

    return _list_rule(apply)


def _checked_index(index: Any, length: int) -> int:
    if not isinstance(index, int):
        raise Unsupported("an item of a list at a place that is known at run time only")
    if not -length <= index < length:
        raise Unsupported(f"item {index} of a list with {length} items")
    return index


def _get_item(walk: Walk, node: Any, args: list[Any]) -> Any:
    container, key = args[0], args[1]
    if isinstance(container, Dict):
        if has_unknown(key):
            return UNKNOWN
        if _known_key(key) not in container.state:
            raise Unsupported(f"the key {key!r} is not in the dict")
        return container.state[key]
    if isinstance(container, str):
        return _known_text(container)[_checked_index(key, len(container))]
    if not isinstance(container, List):
        return NotImplemented
    if isinstance(container.state, Sequence):
        return call_on_sequence(walk, node, args)
    if isinstance(key, Number):
        return select_number(walk, node, container.state, key)
    return container.state[_checked_index(key, len(container.state))]


def _set_item(walk: Walk, node: Any, args: list[Any]) -> Any:
    container, key, value = args
    if isinstance(container, Dict):
        walk.memory.write(container, {**container.state, _known_key(key): value})
        return ()
    if isinstance(container.state, Sequence):
        return call_on_sequence(walk, node, args)
    items = list(container.state)
    items[_checked_index(key, len(items))] = value
    walk.memory.write(container, tuple(items))
    return container


def _slice(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], str) and all(map(is_known, args)):
        return args[0][slice(*args[1:4])]
    if isinstance(args[0], List) and isinstance(args[0].state, Sequence):
        return call_on_sequence(walk, node, args)
    if not isinstance(args[0], List) or not all(map(is_known, args[1:])):
        return (
            NotImplemented
            if isinstance(args[0], Tensor)
            else refuse("slicing a list by numbers known at run time only")
        )
    return _make_list(walk, args[0].state[slice(*args[1:4])])


def _add_lists(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], str) and isinstance(args[1], str):
        _check_length(len(args[0]) + len(args[1]))
        return text_of(args[0] + args[1], is_known(tuple(args[:2])))
    if not isinstance(args[0], List) or not isinstance(args[1], List):
        return NotImplemented
    first, second = args[0].state, args[1].state
    if isinstance(first, tuple) and isinstance(second, tuple):
        _check_length(len(first) + len(second))
        return _make_list(walk, first + second)
    with walk.g.at(walk.location(node)):
        return List(concat_sequences(walk, first, second), walk.memory.scope)


def _extend_list(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not isinstance(args[0], List):
        return NotImplemented
    walk.memory.write(args[0], _add_lists(walk, node, args).state)
    return args[0]


def _repeat_list(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not isinstance(args[0], List):
        return NotImplemented
    if not isinstance(args[1], int) or not isinstance(args[0].state, tuple):
        raise Unsupported("a list repeated as often as is known at run time only")
    _check_length(len(args[0].state) * args[1])
    return _make_list(walk, args[0].state * args[1])


def _check_length(count: int) -> None:
    """Raise `ResourceLimit` for a list longer than any model's: a loop that doubles a list has no other bound."""
    if count > limits.TORCHSCRIPT_LIST_ITEMS:
        text = f"a list of {count:,} items is more than the {limits.TORCHSCRIPT_LIST_ITEMS:,} that are taken"
        raise ResourceLimit(text, hint="a program can set convert.limits.TORCHSCRIPT_LIST_ITEMS")


def _pop_item(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], Dict):
        found = dict(args[0].state)
        if _known_key(args[1]) not in found and len(args) == 2:
            raise ProgramError(f"the key {args[1]!r} is not in the dict")
        value = found.pop(*args[1:])
        walk.memory.write(args[0], found)
        return value
    if isinstance(args[0].state, Sequence):
        return call_on_sequence(walk, node, args)
    items = list(args[0].state)
    value = items.pop(_checked_index(args[1] if len(args) > 1 else -1, len(items)))
    walk.memory.write(args[0], tuple(items))
    return value


_clear_list = _mutation_rule(lambda items: items.clear())


def _clear(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not isinstance(args[0], Dict):
        return _clear_list(walk, node, args)
    walk.memory.write(args[0], {})
    return ()


def _length(walk: Walk, node: Any, args: list[Any]) -> Any:
    obj = args[0]
    if isinstance(obj, (str, tuple)):
        return len(_known_text(obj) if isinstance(obj, str) else obj)
    if isinstance(obj, List) and isinstance(obj.state, Sequence):
        return call_on_sequence(walk, node, args)
    return len(obj.state) if isinstance(obj, (List, Dict)) else NotImplemented


def _contains(walk: Walk, node: Any, args: list[Any]) -> Any:
    container, key = args
    if isinstance(container, str):
        return _known_text(key) in _known_text(container)
    items = container.state
    if not is_known(key) or (isinstance(container, List) and not is_known(container)):
        raise Unsupported("looking for a value that is known at run time only")
    return key in items


def _sort_list(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not isinstance(args[0], List):
        return NotImplemented
    if not is_known(args[0]) or not all(map(_has_an_order, args[0].state)):
        raise Unsupported("sorting a list of values that are known at run time only")
    return _make_list(walk, sorted(args[0].state, reverse=len(args) > 1 and bool(args[1])))


def _has_an_order(item: Any) -> bool:
    """Return whether an item is a number, a text or a tuple of these."""
    return isinstance(item, (int, float, str)) or (isinstance(item, tuple) and all(map(_has_an_order, item)))


def _copy_container(walk: Walk, node: Any, args: list[Any]) -> Any:
    if node.kind() == "aten::dict" and args and isinstance(args[0], List):
        pairs = args[0].state if isinstance(args[0].state, tuple) else refuse("a dict of a list of unknown length")
        return Dict({_known_key(key): value for key, value in pairs}, walk.memory.scope)
    if node.kind() == "aten::dict" and not args:
        return Dict({}, walk.memory.scope)
    if isinstance(args[0], Dict):
        return Dict(dict(args[0].state), walk.memory.scope)
    return List(args[0].state, walk.memory.scope) if isinstance(args[0], List) else NotImplemented


def _search_rule(find: Callable[[list[Any], Any], Any]) -> Container:
    """Wrap `find(items, item)`, which looks for a value in a list of known values."""

    def apply(walk: Walk, node: Any, args: list[Any]) -> Any:
        if not isinstance(args[0], List) or not is_known(args[0]) or not is_known(args[1]):
            return NotImplemented if isinstance(args[0], Tensor) else refuse("looking for a value in a list of tensors")
        return find(list(args[0].state), args[1])

    return apply


def _find_place(items: list[Any], item: Any) -> int:
    if item not in items:
        raise ProgramError(f"{item!r} is not in the list")
    return items.index(item)


def _insert_item(items: list[Any], place: Any, item: Any) -> None:
    if not isinstance(place, int):
        raise Unsupported("an item put into a list at a place that is known at run time only")
    items.insert(place, item)


def _remove_item(items: list[Any], item: Any) -> None:
    if not is_known(tuple(items)) or not is_known(item):
        raise Unsupported("removing from a list what is known at run time only")
    del items[_find_place(items, item)]


def _dict_view_rule(read_out: Callable[[dict[Any, Any]], Any]) -> Callable[[Walk, Any, list[Any]], Any]:
    def read_dict(walk: Walk, node: Any, args: list[Any]) -> Any:
        return List(tuple(read_out(args[0].state)), walk.memory.scope) if isinstance(args[0], Dict) else NotImplemented

    return read_dict


def _get_or_default(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0].state.get(_known_key(args[1]), *args[2:3])


def _update_dict(walk: Walk, node: Any, args: list[Any]) -> Any:
    walk.memory.write(args[0], {**args[0].state, **args[1].state})
    return ()


def _set_default(walk: Walk, node: Any, args: list[Any]) -> Any:
    obj, key, value = args
    if _known_key(key) not in obj.state:
        walk.memory.write(obj, {**obj.state, key: value})
    return obj.state[key]


DICTS: dict[str, Callable[[Walk, Any, list[Any]], Any]] = {
    "aten::keys": _dict_view_rule(dict.keys),
    "aten::values": _dict_view_rule(dict.values),
    "aten::items": _dict_view_rule(dict.items),
    "aten::get": _get_or_default,
    "aten::update": _update_dict,
    "aten::setdefault": _set_default,
}
"""The operators that take dicts only; dicts stay Python objects, since their keys are known."""


def _first_of(rule: Container, other: Container | None) -> Container:
    """Return a rule that applies `other` if `rule` returns NotImplemented."""

    def apply(walk: Walk, node: Any, args: list[Any]) -> Any:
        found = rule(walk, node, args)
        return other(walk, node, args) if found is NotImplemented and other is not None else found

    return apply


CONTAINERS: dict[str, Container] = {
    "prim::ListConstruct": lambda walk, node, args: _make_list(walk, args),
    "prim::TupleConstruct": lambda walk, node, args: tuple(args),
    "prim::DictConstruct": _make_dict,
    "prim::ListUnpack": _unpack_items,
    "prim::TupleUnpack": _unpack_items,
    "prim::TupleIndex": _tuple_item,
    "prim::TupleSlice": _tuple_slice,
    "aten::__getitem__": _get_item,
    "aten::_set_item": _set_item,
    "aten::slice": _slice,
    "aten::append": _mutation_rule(lambda items, item: items.append(item)),
    "aten::insert": _mutation_rule(_insert_item),
    "aten::extend": _extend_list,
    "aten::reverse": _mutation_rule(lambda items: items.reverse()),
    "aten::clear": _clear,
    "aten::Delete": lambda walk, node, args: (_pop_item(walk, node, args) and ()) or (),
    "aten::pop": _pop_item,
    "aten::len": _length,
    "aten::add": _add_lists,
    "aten::add_": _extend_list,
    "aten::mul": _repeat_list,
    "aten::__contains__": _contains,
    "aten::sorted": _sort_list,
    "aten::copy": _copy_container,
    "aten::list": _copy_container,
    "aten::dict": _copy_container,
    "aten::index": _search_rule(_find_place),
    "aten::count": _search_rule(list.count),
    "aten::remove": _mutation_rule(_remove_item),
    "aten::split": split_rule(split_sizes),
    "prim::EnumName": lambda walk, node, args: args[0].name,
    "prim::EnumValue": lambda walk, node, args: args[0].value,
    "aten::chunk": split_rule(chunk_sizes),
    "aten::unbind": split_rule(None),
    "prim::isinstance": is_instance,
    "prim::tolist": tolist_rule,
    "aten::cat": concat_rule(0),
    "aten::stack": concat_rule(1),
    "aten::sort": sort_known,
    **DICTS,
    **TEXT,
}
for _rules in (NUMBER_LISTS, LOOKUPS):
    CONTAINERS |= {kind: _first_of(rule, CONTAINERS.get(kind)) for kind, rule in _rules.items()}
"""The operators that take or make containers; they return NotImplemented for tensors."""
