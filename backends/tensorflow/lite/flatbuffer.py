"""Orders the inputs and outputs of a TensorFlow Lite model as in the source, in place, and measures repeated buffers.

TensorFlow's converter uses protocol buffer maps, which have no order. The vectors in question hold numbers and relative
offsets, so a permutation moves nothing else.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

# Fields of the tables in TensorFlow Lite's schema (schema.fbs), by their index.
_MODEL_SUBGRAPHS, _MODEL_BUFFERS, _MODEL_SIGNATURES = 2, 4, 7
_BUFFER_DATA = 0
_ENDS = ((1, 0), (2, 1))  # the fields inputs and outputs, in a SubGraph and in a SignatureDef
_MAP_NAME, _MAP_TENSOR, _SIGNATURE_SUBGRAPH = 0, 1, 4


def set_signature_order(data: bytearray, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Sort the inputs and outputs of the only signature in `data`, and of the subgraph that it calls, in the order of
    the given names.
    """
    root = _Table(data, struct.unpack_from("<I", data, 0)[0])
    (signature,) = root.tables(_MODEL_SIGNATURES)
    subgraph = root.tables(_MODEL_SUBGRAPHS)[signature.number(_SIGNATURE_SUBGRAPH, "<I")]
    for names, (of_subgraph, of_signature) in zip((inputs, outputs), _ENDS, strict=True):
        _set_order(signature, of_signature, subgraph, of_subgraph, names)


def repeated_bytes(data: bytes) -> int:
    """Return how many bytes of a model's buffers repeat an earlier buffer."""
    root = _Table(data, struct.unpack_from("<I", data, 0)[0])
    by_size: dict[int, list[int]] = defaultdict(list)
    for buffer in root.tables(_MODEL_BUFFERS):
        at, size = buffer.vector(_BUFFER_DATA)
        if size:
            by_size[size].append(at)
    view, repeated = memoryview(data), 0
    for size, places in by_size.items():
        if len(places) > 1:
            contents = {hashlib.sha256(view[at : at + size]).digest() for at in places}
            repeated += size * (len(places) - len(contents))
    return repeated


def buffer_bytes(data: bytes) -> int:
    """Return how many bytes of a model are its buffers."""
    root = _Table(data, struct.unpack_from("<I", data, 0)[0])
    return sum(buffer.vector(_BUFFER_DATA)[1] for buffer in root.tables(_MODEL_BUFFERS))


def _set_order(signature: _Table, of_signature: int, subgraph: _Table, of_subgraph: int, names: Sequence[str]) -> None:
    """Sort one vector of the signature, and the matching vector of the subgraph, in the order of the names."""
    maps = {entry.text(_MAP_NAME): entry for entry in signature.tables(of_signature)}
    ordered = [maps[name] for name in names]
    signature.place(of_signature, lambda i, at: ordered[i].start - at)
    tensors = [entry.number(_MAP_TENSOR, "<I") for entry in ordered]
    found = subgraph.numbers(of_subgraph)
    # A tensor may be several outputs of the signature, and still be listed once in the subgraph.
    wanted = tensors if sorted(tensors) == sorted(found) else sorted(found, key=tensors.index)
    subgraph.place(of_subgraph, lambda i, at: wanted[i])


class _Table:
    """A flatbuffer table that starts at a given byte of `data`."""

    def __init__(self, data: Any, start: int) -> None:
        self.data, self.start = data, start

    def number(self, field: int, form: str) -> int:
        """Return a scalar field; 0 if it is left out, which is the default of all fields read here."""
        at = self._field(field)
        return struct.unpack_from(form, self.data, at)[0] if at else 0

    def text(self, field: int) -> str:
        at, count = self.vector(field)
        return self.data[at : at + count].decode()

    def numbers(self, field: int) -> list[int]:
        at, count = self.vector(field)
        return list(struct.unpack_from(f"<{count}i", self.data, at))

    def tables(self, field: int) -> list[_Table]:
        at, count = self.vector(field)
        return [_Table(self.data, self._follow(at + 4 * i)) for i in range(count)]

    def place(self, field: int, entry: Callable[[int, int], Any]) -> None:
        """Overwrite a vector of 4-byte entries with `entry(index, position)`."""
        at, count = self.vector(field)
        for i in range(count):
            struct.pack_into("<i", self.data, at + 4 * i, entry(i, at + 4 * i))

    def _field(self, field: int) -> int:
        table = self.start - struct.unpack_from("<i", self.data, self.start)[0]
        size = struct.unpack_from("<H", self.data, table)[0]
        place = 4 + 2 * field
        offset = struct.unpack_from("<H", self.data, table + place)[0] if place < size else 0
        return self.start + offset if offset else 0

    def vector(self, field: int) -> tuple[int, int]:
        """Return where the entries of a vector (or the bytes of a string) start, and how many there are."""
        at = self._field(field)
        if not at:
            return 0, 0
        start = self._follow(at)
        return start + 4, struct.unpack_from("<I", self.data, start)[0]

    def _follow(self, at: int) -> int:
        return at + struct.unpack_from("<I", self.data, at)[0]
