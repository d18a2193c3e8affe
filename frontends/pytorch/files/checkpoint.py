"""Reads the weights of a checkpoint; other content is data that nobody interprets."""

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
"""Keys under which checkpoints keep weights or a module, in search order; averages come last."""

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
"""Functions that pickles call to create plain data of Python and numpy."""


class Unread:
    """Replaces an object other than weights: its class was not imported, and its state is not examined."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _UnreadDict:
    """Replaces a class of dicts: a plain dict is created."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return OrderedDict()


class _UnreadList:
    """Replaces a class of lists: a plain list is created."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return []


def stand_ins(pickle: Pickle) -> list[tuple[Any, str]]:
    """Return placeholder classes for objects that are not weights, for `torch.serialization.safe_globals`; nothing is
    imported.

    Functions that do not create data, and classes of Python's standard library, get no placeholder, so the restricted
    unpickler refuses a file that calls them.
    """
    filled = {item.of: item.items for item in _objects(pickle.top) if item.items}
    found = []
    for name in pickle.globals:
        if name in CALLABLE or (name in pickle.called and not _makes_data(name)):
            continue
        items = filled.get(name, [])
        pairs = bool(items) and all(isinstance(item, tuple) and len(item) == 2 for item in items)
        # A separate class per name: a pickle can have two, and they must not be confused.
        base = _UnreadDict if pairs else _UnreadList if items else Unread
        found.append((type(base.__name__, (base,), {}), name))
    return found


def _makes_data(name: str) -> bool:
    """Return whether a name is a function of plain data, or (by its spelling) a class of a library other than
    Python's.
    """
    place, _, last = name.rpartition(".")
    foreign = place.split(".")[0] not in {*sys.stdlib_module_names, "torch", "builtins", "__builtin__", ""}
    return name in _DATA_FUNCTIONS or (foreign and last[:1].isupper())


def _objects(top: Any) -> Iterator[PickledObject]:
    """Yield every object of a pickle, each once."""
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


def hyper_parameters(content: Any) -> dict[str, Any]:
    """Return the arguments that Lightning stores with the weights of a module, by name, as far as they are plain
    data.
    """
    given = content.get("hyper_parameters") if isinstance(content, Mapping) else None
    return {k: v for k, v in given.items() if isinstance(k, str) and _is_plain(v)} if type(given) is dict else {}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(_is_plain(v) for v in (*value, *value.values()))
    if isinstance(value, (list, tuple)):
        return type(value) in (list, tuple) and all(_is_plain(v) for v in value)
    return value is None or type(value) in (bool, int, float, str)


def state_dicts(content: Any, depth: int = 3) -> Iterator[tuple[str, Mapping[str, torch.Tensor]]]:
    """Yield the dicts of tensors in a checkpoint, each with its path (`state_dict`, `ema.module`), likely ones first.

    A dict inside such a dict is not separate.
    """
    yield from _nested(content, _is_state, "", depth, set())


def nested_modules(content: Any) -> dict[str, torch.nn.Module]:
    """Return the modules in a checkpoint by their paths (`ema.module`), likely ones first; the file itself is "".

    A module that occurs twice has its first path. Losses are left out if there is another module.
    """
    found: dict[int, tuple[str, torch.nn.Module]] = {}
    for place, module in _nested(content, lambda value: isinstance(value, torch.nn.Module), "", 3, set()):
        found.setdefault(id(module), (place, module))
    models = {place: module for place, module in found.values() if not isinstance(module, LossLayer)}
    return models or dict(found.values())


def _nested(
    content: Any, wanted: Callable[[Any], bool], place: str, depth: int, seen: set[tuple[int, int]]
) -> Iterator[tuple[str, Any]]:
    """Yield the wanted objects with their paths; `seen` are the dicts already visited at each depth.

    A pickle can contain one dict a thousand times, which contains the next one a thousand times.
    """
    if wanted(content):
        yield place, content
        return
    if not isinstance(content, Mapping) or depth == 0 or (id(content), depth) in seen:
        return
    seen.add((id(content), depth))
    for key in [*(k for k in NESTED if k in content), *(k for k in content if k not in NESTED)]:
        yield from _nested(content[key], wanted, f"{place}.{key}" if place else str(key), depth - 1, seen)


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(k, str) for k in value)
        and any(isinstance(value[k], torch.Tensor) for k in value)
    )


def tensors_of(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the entries that are tensors; extra state of modules and counters are left out.

    A pickle can give an OrderedDict an attribute called `items`.
    """
    return {name: state[name] for name in state if isinstance(state[name], torch.Tensor)}


def is_average(place: str) -> bool:
    """Return whether a path is that of weights averaged over training."""
    return any("ema" in part.split("_") or part.startswith("ema") for part in place.lower().split("."))


def places_note(places: Iterable[str]) -> str:
    """Return how a note lists paths."""
    names = [place or "the file itself" for place in places]
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
