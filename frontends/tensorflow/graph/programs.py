"""StableHLO programs in a graph (`XlaCallModule`, as jax2tf writes it), read by the frontend for such programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from convert.errors import BadInput, Problem, Unsupported
from convert.plugin import embedded_reader

OPERATOR = "XlaCallModule"
_KIND = "stablehlo"


def check_programs(nodes: Iterable[Any]) -> list[Problem]:
    """Return every operator without a rule in the programs of these nodes. Raises `BadInput` for a damaged one."""
    problems: list[Problem] = []
    seen: set[bytes] = set()
    for node in nodes:
        if node.op != OPERATOR or _module(node) in seen:
            continue
        seen.add(_module(node))
        if not _module(node):
            raise BadInput(f"{node.location} holds no program", hint="save the model again")
        try:
            embedded_reader(_KIND).check(_module(node), str(node.location))
        except Unsupported as error:
            problems += error.problems
    return problems


def only_computes(node: Any) -> bool:
    """Return whether running the program of a node does nothing but compute, as far as known."""
    module = _module(node)
    return bool(module) and embedded_reader(_KIND).only_computes(module)


def lower_program(g: Any, module: bytes, arguments: Any, label: str, platforms: Any) -> list[Any]:
    """Write a program to `g` and return its results."""
    return embedded_reader(_KIND).lower(g, module, arguments, label, platforms)


def _module(node: Any) -> bytes:
    found: bytes = node.attr["module"].s if "module" in node.attr else b""
    return found
