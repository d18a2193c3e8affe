"""The names in one function: variables, weights and layers, and the tensors that sizes are read from."""

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
    """The names that a function can use. `path` is the module that has the method; `locations` are the paths of
    weights.
    """

    def __init__(self, path: Path, locations: Mapping[Weight, Path], symbols: Any, lists: Mapping[Path, int]) -> None:
        self.path = path
        self.locations = locations
        self.symbols = symbols
        self.lists = lists
        self.names: dict[Value, str] = {}
        self.used: set[str] = set()
        self.tensors: list[Value] = []
        self.wanted: dict[Value, str] = {}
        """Names that some values must have."""
        self.pending: dict[Value, tuple[str, float]] = {}
        """Expressions that are inlined where their value is read."""

    def add(self, value: Value, wanted: str = "", *, exact: bool = False) -> str:
        """Assign a name to a value, and use its dims from now on."""
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
        """Use the dims of a value from now on."""
        if isinstance(value.fake, torch.Tensor) and value not in self.tensors:
            self.tensors.append(value)

    def short(self, value: Value, wanted: str) -> str:
        """Return the last part of the value's name in the graph, in lower case without trailing digits; else
        `wanted`.
        """
        if value in self.wanted:
            return identifier(self.wanted[value]) or wanted or "x"
        last = re.split(r"[/.:]", re.sub(r"(_output_\d+|:\d+)$", "", value.name))[-1]
        return identifier(re.sub(r"(_\d+)+$", "", last)) or identifier(wanted) or "x"

    def attribute(self, path: Path) -> str | None:
        """Return `self.layer1[0].conv1` for a path, or None if it is outside this module."""
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
        """Return the code that reads a value, and its precedence."""
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
        """Return the code of a size. Raises KeyError if it is not available here."""
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
        """Return the code of an expression of sizes. Raises KeyError if a size is not available here."""
        for tensor in self.tensors:  # a dim that equals the whole expression
            if not wanted.expression.is_Symbol and tensor not in self.pending:
                for axis, n in enumerate(tensor.fake.shape):
                    if isinstance(n, torch.SymInt) and n.node.expr == wanted.expression:
                        return f"{self.value(tensor)[0]}.shape[{axis}]", ATOM
        return size(wanted.expression, self.symbol)


def is_attribute(name: str) -> bool:
    """Return whether a name can be an attribute; two leading underscores would be mangled in a class."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def identifier(text: str) -> str:
    """Return text as a Python name in lower case and ASCII; empty if nothing remains."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    text = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")[:32].strip("_")
    return text if re.match(r"[a-z]", text) else ""


def unique(wanted: str, used: Iterable[str]) -> str:
    """Return `wanted`, with a number appended if it is used."""
    free, count = wanted, 1
    while free in used or free in _TAKEN:
        count += 1
        free = f"{wanted}{count}"
    return free
