"""A program as it is read and run: a module, the names of its inputs and outputs, and its weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class FlatArgument:
    """A flat argument of a program: its name, dtype (numpy's name) and dims (ints, or JAX's expressions).

    kept: whether the module has the argument; JAX leaves out arguments that no result depends on.
    """

    name: str
    dtype: str
    dims: tuple[int | str | None, ...]
    kept: bool = True


@dataclass(frozen=True)
class Program:
    """A StableHLO module with its inputs and outputs.

    weights: the content of the first inputs by name, if they are the parameters of a module in memory. exported: a
    `jax.export.Exported` that runs the program; None for a module alone. platforms: the platforms that the program is
    for; if there are several, the module gets the index of one. notes: what the user should know about the program.
    """

    module: bytes
    inputs: tuple[FlatArgument, ...] = ()
    outputs: tuple[str, ...] = ()
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    exported: Any = None
    platforms: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def io_name(path: str, fallback: str) -> str:
    """Return a name for JAX's path `params['dense'][0].kernel`: its parts, joined by dots.

    >>> io_name("params['dense'][0].kernel", "x"), io_name("result[1]", "x"), io_name("", "x")
    ('params.dense.0.kernel', 'output_1', 'x')
    """
    parts = [a or b or c for a, b, c in re.findall(r"\['?([^'\]]+)'?\]|\.?([^.\[\]]+)|(\.)", path)]
    parts = [re.sub(r"\W+", "_", part) for part in parts]
    if parts and parts[0] == "result":
        parts = parts[1:] or ["output"]
        if parts[0].isdigit():
            parts[0] = f"output_{parts[0]}"
    return ".".join(parts) or fallback


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to those that occurred before."""
    found: list[str] = []
    for name in names:
        number, unique = 0, name
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found.append(unique)
    return found
