"""The facts that capture learned about sizes: the conditions under which its graph holds, and the line that fixed a
dim.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import torch
from torch.export import ExportedProgram

from convert.graph import Dim

from ...common.locate import TORCH
from ...torch_internals import SIZE_LOGGER, guard_texts
from ...torch_internals.symbols import symbolic_shapes
from .. import FOLDER
from .dims import Dims

Place = tuple[str, int]
"""A dim of an input: the input's name and the number of the dim."""

_SIZE = re.compile(r"L\['(?P<input>\w+)'\](?P<inside>(?:\[\w+\]|\['\w+'\])*)\.size\(\)\[(?P<dim>\d+)\]")
_SYMBOL = re.compile(r"create_symbol (?P<symbol>\w+) = .*? for (?P<size>L\[.*?\.size\(\)\[\d+\])")
_GUARD = re.compile(r"eval .* \[guard added\] \((?P<line>[^()]+) in \w+\)", re.S)
_FIXED = re.compile(r"set_replacement (?P<symbol>\w+) = \d+ ")
BUILT_IN = re.compile(r"(?!.*\b[Mm]in\().*// \d+\)* == 1$")
"""A length of 1 after strided layers, which PyTorch has fixed. Its minimum with 1 is PyTorch's own check that it is not
0, which also occurs for correct lengths.
"""
# PyTorch always treats lengths of 0 and 1 specially, which is not a property of the model.
_ALWAYS = re.compile(r".* (!= [01]|>= 2)")
_FOLDERS = (TORCH, FOLDER)


class _MessageRecorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class _LibraryFiles(set[str]):
    """Files whose lines are not shown to users: all of PyTorch and of this package.

    PyTorch counts code without a file as its own, and names the caller of the capture instead.
    """

    def __contains__(self, file: object) -> bool:
        return file != "<string>" and (super().__contains__(file) or str(file).startswith(_FOLDERS))


@contextmanager
def record_size_messages() -> Iterator[list[str]]:
    """Record torch.export's log messages about sizes, and suppress those that it also raises."""
    outer, logger, recorder = logging.getLogger("torch"), logging.getLogger(SIZE_LOGGER), _MessageRecorder()
    before = outer.level, logger.level, logger.propagate, logger.handlers
    inner = symbolic_shapes.uninteresting_files
    symbolic_shapes.uninteresting_files = cache(lambda: _LibraryFiles(inner()))
    outer.setLevel(logging.CRITICAL)
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [recorder]
    try:
        yield recorder.messages
    finally:
        symbolic_shapes.uninteresting_files = inner
        outer.setLevel(before[0])
        logger.setLevel(before[1])
        logger.propagate, logger.handlers = before[2:]


def specialization_lines(messages: Sequence[str]) -> dict[Place, str]:
    """Return the source line that fixed a dim to one size, for each such dim."""
    places: dict[str, Place] = {}
    lines: dict[Place, str] = {}
    line = ""
    for message in messages:
        if (found := _SYMBOL.match(message)) and (size := _SIZE.fullmatch(found["size"])):
            places[found["symbol"]] = _input_dim(size)
        elif found := _GUARD.match(message):
            line = found["line"].rpartition("/")[2]  # PyTorch truncates the path at any character
        elif (found := _FIXED.match(message)) and found["symbol"] in places:
            lines.setdefault(places[found["symbol"]], line)
    return lines


def _input_dim(size: re.Match[str]) -> Place:
    return "_".join([size["input"], *re.findall(r"\w+", size["inside"])]), int(size["dim"])


def guards_of(program: ExportedProgram, inputs: Sequence[torch.fx.Node], dims: Dims) -> list[str]:
    """Return the conditions on sizes under which the program holds, in dim names: "height % 8 == 0".

    Conditions implied by the bounds of one dim are left out, and those that only separate lengths 0 and 1 from others.
    """
    sizes: dict[Place, Dim] = {}
    for node in inputs:
        fake = node.meta.get("val")
        if isinstance(fake, torch.Tensor):
            sizes |= {(node.name, i): dims.of(d) for i, d in enumerate(fake.shape)}
    found = []
    for code in guard_texts(program):
        text = _named_guard(code, sizes)
        if text is not None and not _ALWAYS.fullmatch(text) and text not in found and _is_informative(text):
            found.append(text)
    return found


def sized_guards(program: ExportedProgram, sizes: Mapping[Place, int]) -> Iterator[str]:
    """Yield the guards of a program with numbers in place of sizes, without those that PyTorch always makes."""
    for code in guard_texts(program):
        text = _named_guard(code, sizes)
        if text is not None and not _ALWAYS.fullmatch(text):
            yield text


def _named_guard(code: str, sizes: Mapping[Place, Dim]) -> str | None:
    """Return a guard in the names of the dims; None for one about something else."""
    parts = _parts(code)
    if any(not isinstance(part, str) and part not in sizes for part in parts):
        return None
    text = "".join(part if isinstance(part, str) else _parenthesize(sizes[part]) for part in parts)
    return None if "L[" in text else text


@lru_cache(1 << 14)
def _parts(code: str) -> tuple[str | Place, ...]:
    """Return a guard as text with parsed dims, because each guard is evaluated for many sizes."""
    found: list[str | Place] = []
    end = 0
    for match in _SIZE.finditer(code):
        found += [code[end : match.start()], _input_dim(match)]
        end = match.end()
    return (*found, code[end:])


def _parenthesize(dim: Any) -> str:
    return str(dim) if str(dim).isidentifier() or str(dim).isdecimal() else f"({dim})"


def _is_informative(text: str) -> bool:
    """Return False if both sides are equal (`n == n`), or if the guard only bounds one dim."""
    left, _, right = text.partition(" == ")
    return left != right and not re.fullmatch(r"\w+ (<|<=|>|>=) \d+", text)
