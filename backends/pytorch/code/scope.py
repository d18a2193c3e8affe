"""The names in one function: variables, weights and layers, and where a size is to be read."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from .expressions import ATOM, size
from .program import Size, Value, Weight

Path = tuple[str, ...]
_TAKEN = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "self", "torch", "nn", "F", "Tensor", "OrderedDict"}


class Scope:
    """What a function can name. `path` is the module whose method it is; `locations` are the places of weights."""

    def __init__(self, path: Path, locations: Mapping[Weight, Path], symbols: Any, lists: Mapping[Path, int]) -> None:
        self.path = path
        self.locations = locations
        self.symbols = symbols
        self.lists = lists
        self.names: dict[Value, str] = {}
        self.used: set[str] = set()
        self.tensors: list[Value] = []
        self.wanted: dict[Value, str] = {}
        """What some values are to be called."""
        self.pending: dict[Value, tuple[str, float]] = {}
        """Expressions that stand where their value is read."""

    def add(self, value: Value, wanted: str = "", *, exact: bool = False) -> str:
        """Give a value a name, and know its dims from now on."""
        if value not in self.names:
            plain = wanted if exact else self.short(value, wanted)
            free, count = plain, 0
            while not exact and (free in self.used or free in _TAKEN or free == ""):
                count += 1
                free = f"{plain}_{count}" if plain not in _TAKEN or count > 1 else f"{plain}_"
            self.names[value] = free
            self.used.add(free)
        self.see(value)
        return self.names[value]

    def see(self, value: Value) -> None:
        """Know the dims of a value."""
        if isinstance(value.fake, torch.Tensor) and value not in self.tensors:
            self.tensors.append(value)

    def short(self, value: Value, wanted: str) -> str:
        """The last part of the graph's name of a value in lower case, without numbers behind it; else `wanted`."""
        if value in self.wanted:
            return identifier(self.wanted[value]) or wanted or "x"
        last = re.split(r"[/.:]", re.sub(r"(_output_\d+|:\d+)$", "", value.name))[-1]
        return identifier(re.sub(r"(_\d+)+$", "", last)) or identifier(wanted) or "x"

    def attribute(self, path: Path) -> str | None:
        """`self.layer1[0].conv1`; None for what is not in this module."""
        if path[: len(self.path)] != self.path:
            return None
        text = "self"
        for i in range(len(self.path), len(path)):
            if path[:i] in self.lists:
                text += f"[{path[i]}]"
            else:
                text = f"{text}.{path[i]}" if is_attribute(path[i]) else f"getattr({text}, {path[i]!r})"
        return text

    def value(self, value: Value) -> tuple[str, float]:
        """A value as it is read."""
        if value in self.pending:
            return self.pending[value]
        if value in self.names:
            return self.names[value], ATOM
        if isinstance(value, Weight):
            text = self.attribute(self.locations[value])
            if text is not None:
                return text, ATOM
        raise KeyError(value)

    def symbol(self, symbol: Any) -> tuple[str, float]:
        """The code of a size. Raises KeyError where nothing here has it."""
        value = self.symbols.get(symbol)
        if value is not None and (value in self.names or value in self.pending):
            return self.value(value)
        for tensor in self.tensors:
            if tensor in self.pending:
                continue
            for axis, n in enumerate(tensor.fake.shape):
                if isinstance(n, torch.SymInt) and n.node.expr == symbol:
                    return f"{self.value(tensor)[0]}.shape[{axis}]", ATOM
        raise KeyError(symbol)

    def size(self, wanted: Size) -> tuple[str, float]:
        """A number made of sizes. Raises KeyError."""
        for tensor in self.tensors:  # a dim that is this very number
            if not wanted.expression.is_Symbol and tensor not in self.pending:
                for axis, n in enumerate(tensor.fake.shape):
                    if isinstance(n, torch.SymInt) and n.node.expr == wanted.expression:
                        return f"{self.value(tensor)[0]}.shape[{axis}]", ATOM
        return size(wanted.expression, self.symbol)


def is_attribute(name: str) -> bool:
    """Whether a name can stand behind a dot in a class, where names that begin with two underscores are others."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def identifier(text: str) -> str:
    """Text as a name of Python in lower case and ASCII; empty where nothing is left."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    text = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")[:32].strip("_")
    return text if re.match(r"[a-z]", text) else ""


def unique(wanted: str, used: Iterable[str]) -> str:
    """`wanted`, or with a number behind it."""
    free, count = wanted, 1
    while free in used or free in _TAKEN:
        count += 1
        free = f"{wanted}{count}"
    return free
