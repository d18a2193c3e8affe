"""What inputs, outputs and nodes are called in a target: the model's names where they are legal there, and distinct.

One rule for all writers, `Naming`; each format says what its framework takes, in every way of using the artefact. What
is illegal is replaced, what is taken gets a number, and what has a legal name of its own keeps it. The same names give
the same answer again, so that a verification later on finds them as a writer has made them.
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
    """What a framework takes for a name.

    `illegal` is a pattern of the characters that it does not take, `first` one of those that a name may begin with;
    `strip` are characters that it loses at its ends; `reserved` are words of the language that the artefact is used
    from. `fold`: names that differ in case only are the same name to it.
    """

    illegal: str = r"\x00"
    first: str = r"(?s:.)"
    strip: str = ""
    reserved: Collection[str] = ()
    fold: bool = False

    def legal(self, name: str) -> str:
        """`name` with an underscore for each illegal character, and an `n` before what no name may begin with."""
        text = re.sub(self.illegal, "_", name.strip(self.strip) if self.strip else name)
        text = text if re.match(self.first, text) else f"n{text}"
        return f"{text}_" if text in self.reserved else text

    def distinct(self, names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
        """A legal name for each of `names`, of which no two are the same and none is `taken`."""
        wanted = list(dict.fromkeys(names))
        key = str.casefold if self.fold else str
        used, found = {key(name) for name in taken}, dict[str, str]()
        for exact in (True, False):  # those that are legal as they are choose first
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
"""What cannot be the keyword of a Python method's argument."""

IDENTIFIER = Naming(r"[^A-Za-z0-9_]", r"[A-Za-z]", "/", WORDS)
"""The keyword of an argument in Python. TensorFlow puts `arg_` before others, a leading underscore too."""


@dataclass(frozen=True)
class Names:
    """What the inputs and outputs of a model are called in an artefact, by what the model calls them.

    input_containers: the dtypes of those that the artefact has in another dtype; output_containers: the model's and the
    artefact's of such outputs.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    input_containers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    output_containers: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def feed(self, feed: Mapping[str, T]) -> dict[str, T]:
        """A feed with the artefact's names, and in its dtypes."""
        contained = {name: _in_container(value, self.input_containers.get(name)) for name, value in feed.items()}
        return {self.inputs.get(name, name): value for name, value in contained.items()}

    def name_outputs(self, found: Mapping[str, T]) -> dict[str, T]:
        """Outputs with the model's names, and in its dtypes where all their numbers are of these."""
        back = {new: old for old, new in self.outputs.items()}
        named = {back.get(name, name): value for name, value in found.items()}
        return {name: _out_of_container(value, self.output_containers.get(name)) for name, value in named.items()}

    def changed(self) -> dict[str, dict[str, str]]:
        """Those that are called something else, `inputs` and `outputs`."""
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
    """What a format takes for names of inputs and of outputs. `apart`: one of either may have the same name.

    containers: dtypes that it lacks, and those in which it has each of their numbers, by numpy's names.
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
        # Inputs that are legal as they are choose first, then such outputs, then the others.
        key = str.casefold if self.inputs.fold else str
        firm = {key(n) for n in given if self.inputs.legal(n) == n}
        firm_outputs = [n for n in results if self.outputs.legal(n) == n and key(n) not in firm]
        found = self.inputs.distinct(given, firm_outputs)
        return Names(found, self.outputs.distinct(results, found.values()))


ANY = TargetNames(apart=True)
"""A format that takes every name."""
