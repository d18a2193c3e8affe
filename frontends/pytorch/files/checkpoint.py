"""Reads the weights of a checkpoint, and whatever lies beside them as data that nobody interprets."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from convert.files.pickle_opcodes import Pickle, PickledObject
from convert.files.pickle_scan import CALLABLE

from ..torch_internals import LossLayer

NESTED = (
    "state_dict", "model_state_dict", "model_state", "model", "module", "net", "network", "params", "generator",
    "weights", "ema", "model_ema", "params_ema", "state_dict_ema", "ema_state_dict", "model_ema_state_dict",
)  # fmt: skip
"""The keys under which checkpoints keep weights or a module, in the order they are looked at; averages come last."""

_DATA_FUNCTIONS = frozenset((
    "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct", "numpy.dtype", "argparse.Namespace", "collections.defaultdict",
    "collections.deque", "copyreg._reconstructor", "copy_reg._reconstructor", "functools.partial",
    "datetime.datetime", "datetime.date", "datetime.timedelta", "datetime.timezone", "decimal.Decimal",
    "builtins.slice", "builtins.range", "builtins.frozenset", "builtins.list", "builtins.dict", "builtins.tuple",
    "uuid.UUID", "fractions.Fraction", "re._compile",
    *(f"pathlib{local}.{pure}{kind}Path" for local in ("", "._local") for pure in ("", "Pure")
      for kind in ("", "Posix", "Windows")),
))  # fmt: skip
"""What pickles call to make plain data of Python and numpy."""


class Unread:
    """Stands for an object beside the weights: its class was not imported, and its state is not looked at."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _UnreadDict:
    """Stands for a class of dicts: what is made is a plain one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return OrderedDict()


class _UnreadList:
    """Stands for a class of lists: what is made is a plain one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return []


def stand_ins(pickle: Pickle) -> list[tuple[Any, str]]:
    """For `torch.serialization.safe_globals`: what stands for each class beside the weights, so that none is imported.

    Functions that make no data, and classes of Python's own library, are left out when the pickle calls them: the
    restricted unpickler refuses the file over these.
    """
    filled = {item.of: item.items for item in _objects(pickle.top) if item.items}
    found = []
    for name in pickle.globals:
        if name in CALLABLE or (name in pickle.called and not _makes_data(name)):
            continue
        items = filled.get(name, [])
        pairs = bool(items) and all(isinstance(item, tuple) and len(item) == 2 for item in items)
        # Classes of their own for each name: a pickle can hold two, and one may not be taken for the other.
        base = _UnreadDict if pairs else _UnreadList if items else Unread
        found.append((type(base.__name__, (base,), {}), name))
    return found


def _makes_data(name: str) -> bool:
    """True for a function of plain data, and for a class (by its spelling) of a library that is not Python's."""
    place, _, last = name.rpartition(".")
    foreign = place.split(".")[0] not in {*sys.stdlib_module_names, "torch", "builtins", "__builtin__", ""}
    return name in _DATA_FUNCTIONS or (foreign and last[:1].isupper())


def _objects(top: Any) -> Iterator[PickledObject]:
    """Every object of a pickle, each once."""
    seen: set[int] = set()
    waiting: list[Any] = [top]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting += item
        elif isinstance(item, PickledObject) and id(item) not in seen:
            seen.add(id(item))
            waiting += [*item.items, item.state]
            yield item


def hyper_parameters(thing: Any) -> dict[str, Any]:
    """The arguments that Lightning keeps beside the weights of a module, by name: those that are plain data."""
    given = thing.get("hyper_parameters") if isinstance(thing, Mapping) else None
    return {k: v for k, v in given.items() if isinstance(k, str) and _is_plain(v)} if type(given) is dict else {}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(_is_plain(v) for v in (*value, *value.values()))
    if isinstance(value, (list, tuple)):
        return type(value) in (list, tuple) and all(_is_plain(v) for v in value)
    return value is None or type(value) in (bool, int, float, str)


def state_dicts(thing: Any, depth: int = 3) -> Iterator[tuple[str, Mapping[str, torch.Tensor]]]:
    """The dicts of tensors in what a checkpoint holds, each with its place (`state_dict`, `ema.module`), likely first.

    One inside of another is none of its own.
    """
    yield from _nested(thing, _is_state, "", depth, set())


def nested_modules(thing: Any) -> dict[str, torch.nn.Module]:
    """Return the modules that a checkpoint holds by their places (`ema.module`), likely first; the file itself is "".

    A module that is there twice has its first place. Losses are left out where there is another module.
    """
    found: dict[int, tuple[str, torch.nn.Module]] = {}
    for place, module in _nested(thing, lambda value: isinstance(value, torch.nn.Module), "", 3, set()):
        found.setdefault(id(module), (place, module))
    models = {place: module for place, module in found.values() if not isinstance(module, LossLayer)}
    return models or dict(found.values())


def _nested(
    thing: Any, wanted: Callable[[Any], bool], place: str, depth: int, seen: set[tuple[int, int]]
) -> Iterator[tuple[str, Any]]:
    """What is wanted, with its place; `seen` are the dicts that were gone through at each depth.

    A pickle can hold one dict a thousand times, and that one the next one.
    """
    if wanted(thing):
        yield place, thing
        return
    if not isinstance(thing, Mapping) or depth == 0 or (id(thing), depth) in seen:
        return
    seen.add((id(thing), depth))
    for key in [*(k for k in NESTED if k in thing), *(k for k in thing if k not in NESTED)]:
        yield from _nested(thing[key], wanted, f"{place}.{key}" if place else str(key), depth - 1, seen)


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(k, str) for k in value)
        and any(isinstance(value[k], torch.Tensor) for k in value)
    )


def tensors_of(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The entries that are tensors: extra state of modules and counters are left out.

    A pickle can give an OrderedDict an attribute called `items`.
    """
    return {name: state[name] for name in state if isinstance(state[name], torch.Tensor)}


def is_average(place: str) -> bool:
    """True for the place of weights averaged over training."""
    return any("ema" in part.split("_") or part.startswith("ema") for part in place.lower().split("."))


def places_note(places: Iterable[str]) -> str:
    """How a note lists them."""
    names = [place or "the file itself" for place in places]
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
