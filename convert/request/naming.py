"""Names of inputs, outputs and nodes in a target: the model's names if they are legal there, and always distinct.

All writers use one rule, `Naming`. Each format says which names its framework accepts, in every way of using the
artefact. Illegal characters are replaced, and a name in use gets a number; a legal name stays unchanged. The same names
always give the same result, so that a later verification finds the names that a writer has made.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Naming:
    """The names that a framework accepts.

    `illegal` is a pattern of characters that it rejects, `first` a pattern of characters that a name may begin with.
    `strip` are characters that it drops at both ends. `reserved` are words of the language that uses the artefact.
    `fold`: whether names that differ only in case are the same name.
    """

    illegal: str = r"\x00"
    first: str = r"(?s:.)"
    strip: str = ""
    reserved: Collection[str] = ()
    fold: bool = False

    def legal(self, name: str) -> str:
        """Return `name` with an underscore for each illegal character, and with an `n` in front if it cannot begin like
        this.
        """
        text = re.sub(self.illegal, "_", name.strip(self.strip) if self.strip else name)
        text = text if re.match(self.first, text) else f"n{text}"
        return f"{text}_" if text in self.reserved else text

    def distinct(self, names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
        """Return a legal name for each of `names`; all are different, and none is in `taken`."""
        wanted = list(dict.fromkeys(names))
        key = str.casefold if self.fold else str
        used, found = {key(name) for name in taken}, dict[str, str]()
        for exact in (True, False):  # names that are legal already are assigned first
            for name in wanted:
                plain = free = self.legal(name)
                if name in found or (exact and (plain != name or key(name) in used)):
                    continue
                number = 0
                while key(free) in used:
                    number += 1
                    free = f"{plain}_{number}"
                used.add(key(free))
                found[name] = free
        return {name: found[name] for name in wanted}


WORDS = frozenset({*keyword.kwlist, "self"})
"""Names that cannot be keywords of a Python method."""

IDENTIFIER = Naming(r"[^A-Za-z0-9_]", r"[A-Za-z]", "/", WORDS)
"""The keyword of an argument in Python. TensorFlow puts `arg_` before others, a leading underscore too."""


@dataclass(frozen=True)
class Names:
    """The names of a model's inputs and outputs in an artefact, by their names in the model.

    input_containers: the dtypes of inputs that have another dtype in the artefact; output_containers: pairs of the
    model's and the artefact's dtype for such outputs.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    input_containers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    output_containers: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def feed(self, feed: Mapping[str, T]) -> dict[str, T]:
        """Return a feed with the artefact's names and dtypes."""
        contained = {name: _in_container(value, self.input_containers.get(name)) for name, value in feed.items()}
        return {self.inputs.get(name, name): value for name, value in contained.items()}

    def name_outputs(self, found: Mapping[str, T]) -> dict[str, T]:
        """Return outputs with the model's names, and in its dtypes if these hold all their numbers."""
        back = {new: old for old, new in self.outputs.items()}
        named = {back.get(name, name): value for name, value in found.items()}
        return {name: _out_of_container(value, self.output_containers.get(name)) for name, value in named.items()}

    def changed(self) -> dict[str, dict[str, str]]:
        """Return the renamed ones, as `inputs` and `outputs`."""
        sides = {"inputs": self.inputs, "outputs": self.outputs}
        return {side: {k: v for k, v in names.items() if k != v} for side, names in sides.items()}


def _in_container(array: Any, dtypes: tuple[str, str] | None) -> Any:
    return array if dtypes is None else array.astype(dtypes[1])


def _out_of_container(array: Any, dtypes: tuple[str, str] | None) -> Any:
    if dtypes is None or array.dtype.name != dtypes[1]:
        return array
    narrow = array.astype(dtypes[0])
    return narrow if (narrow.astype(dtypes[1]) == array).all() else array


@dataclass(frozen=True)
class TargetNames:
    """The names that a format accepts for inputs and outputs. `apart`: whether an input and an output may have the same
    name.

    containers: dtypes that the format lacks, each with a dtype that holds all its numbers, by numpy's names.
    """

    inputs: Naming = Naming()
    outputs: Naming = Naming()
    apart: bool = False
    containers: Mapping[str, str] = field(default_factory=dict)

    def of(self, inputs: Iterable[str], outputs: Iterable[str]) -> Names:
        """The names in the artefact."""
        given, results = list(inputs), list(outputs)
        if self.apart:
            return Names(self.inputs.distinct(given), self.outputs.distinct(results))
        # Inputs with legal names are assigned first, then outputs with legal names, then the others.
        key = str.casefold if self.inputs.fold else str
        firm = {key(n) for n in given if self.inputs.legal(n) == n}
        firm_outputs = [n for n in results if self.outputs.legal(n) == n and key(n) not in firm]
        found = self.inputs.distinct(given, firm_outputs)
        return Names(found, self.outputs.distinct(results, found.values()))


ANY = TargetNames(apart=True)
"""A format that takes every name."""
