"""Verifies the layout of a TensorFlow Lite file by the schema, as the runtime does before it reads anything.

The generated accessors follow any offset, and may then read arbitrary bytes as a name, a shape or an option. The rules
are those of FlatBuffers' own verifier (flatbuffers/verifier.h). `tables.tsv` has the type of each field of each table:

- a scalar, as its number of bytes
- a string (`s`)
- a vector of scalars (`v4`), of strings (`S`) or of tables (`T:Tensor`)
- a table (`t:…`)
- a union (`U:…`), whose type is in the field before
"""

from __future__ import annotations

import re
import struct
from functools import cache
from importlib import resources
from typing import Any

from convert import limits

_DEPTH = 64
"""Maximum nesting of tables, as in FlatBuffers."""
_UNIONS = {"ArraySegments": "SparseIndexVector", "ArrayIndices": "SparseIndexVector", "Details": "QuantizationDetails"}
"""Names of the enumerations that number the tables of a union, for unions whose enumeration is not named after the
field.
"""


@cache
def table_fields() -> dict[str, list[str]]:
    """Return the type of each field, for each table, in the order of the slots; `-` for unused ones."""
    text = resources.files(__package__).joinpath("tables.tsv").read_text()
    return {name: kinds.split() for name, kinds in (line.split("\t") for line in text.splitlines())}


def check_layout(data: memoryview, schema: Any) -> None:
    """Check all tables of a file. Raises `ValueError` for an invalid offset, size or string."""
    _Walk(data, schema).walk()


class _Walk:
    def __init__(self, data: memoryview, schema: Any) -> None:
        self.data, self.schema, self.size = data, schema, len(data)
        self.fields = table_fields()
        self.tables: list[tuple[int, str, int]] = []
        self.seen: set[tuple[int, str]] = set()
        self.unions: dict[str, dict[int, str]] = {}

    def walk(self) -> None:
        self._refer(0, "Model", 0)
        while self.tables:
            self._check_table(*self.tables.pop())

    def _number(self, code: str, at: int, size: int) -> int:
        """Return a number of `size` bytes, aligned to its size."""
        if not 0 <= at <= self.size - size or at % size:
            raise ValueError("a number outside of the file")
        found: int = struct.unpack_from(code, self.data, at)[0]
        return found

    def _target(self, at: int) -> int:
        """Return the target of the offset at `at`."""
        offset = self._number("<I", at, 4)
        if not 0 < offset < 1 << 31 or at + offset >= self.size:
            raise ValueError("an offset that leads nowhere")
        return at + offset

    def _refer(self, at: int, table: str, depth: int) -> None:
        place = self._target(at)
        if (place, table) not in self.seen:
            self.seen.add((place, table))
            self.tables.append((place, table, depth))
            if depth > _DEPTH or len(self.seen) > limits.TFLITE_ENTRIES:
                raise ValueError("tables without end")

    def _check_table(self, place: int, table: str, depth: int) -> None:
        slots = place - self._number("<i", place, 4)
        count = self._number("<H", slots, 2)
        if count % 2 or slots + count > self.size:
            raise ValueError("a table of fields outside of the file")
        kinds, last = self.fields.get(table, []), 0
        for number, kind in enumerate(kinds[: max(0, count // 2 - 2)]):
            offset = self._number("<H", slots + 4 + 2 * number, 2)
            if not offset or kind == "-":
                last = 0
                continue
            at = place + offset
            if kind.isdigit():
                last = self._number({"1": "<B", "2": "<H", "4": "<I", "8": "<Q"}[kind], at, int(kind))
            else:
                self._check_field(kind, at, depth, last)

    def _check_field(self, kind: str, at: int, depth: int, union: int) -> None:
        what, _, name = kind.partition(":")
        if what == "U":
            if table := self._tables_of_union(name).get(union):
                self._refer(at, table, depth + 1)
            elif not 0 <= at <= self.size - 4:
                raise ValueError("a union outside of the file")
        elif what == "t":
            self._refer(at, name, depth + 1)
        else:
            place = self._target(at)
            width = 4 if what in "ST" else 1 if what == "s" else int(what[1:])
            length = self._number("<I", place, 4)
            if place + 4 + width * length > self.size:
                raise ValueError("a vector that does not end in the file")
            for number in range(length if what in "ST" else 0):
                if what == "T":
                    self._refer(place + 4 + 4 * number, name, depth + 1)
                else:
                    self._check_text(self._target(place + 4 + 4 * number))
            if what == "s":
                self._check_text(place)

    def _check_text(self, place: int) -> None:
        end = place + 4 + self._number("<I", place, 4)
        if end >= self.size or self.data[end]:
            raise ValueError("a text without an end")

    def _tables_of_union(self, field: str) -> dict[int, str]:
        if field not in self.unions:
            names = vars(getattr(self.schema, _UNIONS.get(field, field)))
            self.unions[field] = {v: k for k, v in names.items() if isinstance(v, int) and re.match("[A-Z]", k) and v}
        return self.unions[field]
