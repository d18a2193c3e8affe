"""Checkpoints in TensorFlow's V2 format (a TensorBundle): an index, and shards whose tensors are memory-mapped.

The index is a LevelDB table (leveldb/doc/table_format.md) from tensor names to BundleEntryProto messages
(tensor_bundle.proto). The shards have the tensors' bytes at the offsets of the entries. Both have checksums, masked as
in LevelDB (leveldb/util/crc32c.h), which are verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph.tensors import lazy_tensor

from ..graph.attributes import dtype_of, shape_of, tensor_from_bytes
from ..graph.protos import MESSAGES, open_buffer
from .snappy import decompress

_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER = 48
_TRAILER = 5  # compression type and checksum after each block
_LITTLE_ENDIAN = 0
_PLAIN, _SNAPPY = 0, 1
_PIECE = _LARGE = 1 << 20
_MASK_DELTA = 0xA282EAD8


@dataclass
class Bundle:
    """An open checkpoint: `prefix` is its path without `.index`."""

    prefix: Path
    entries: dict[str, Any]
    shards: int
    _buffers: dict[int, memoryview] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def tensor(self, key: str) -> ir.TensorProtocol:
        """Return the tensor under `key`, backed by the mapped file; a large one is mapped at each access.

        Raises `BadInput` if it is missing, damaged or does not fit.
        """
        if key not in self.entries:
            raise BadInput(f"the checkpoint {self.prefix} holds no tensor {key!r}")
        entry = self.entries[key]
        dtype, shape = dtype_of(entry.dtype), shape_of(entry.shape)
        if entry.slices:
            raise Unsupported(
                f"the variable {key!r} is stored in slices", hint="save the model without partitioned variables"
            )
        if dtype is None or dtype == ir.DataType.STRING or shape is None or None in shape:
            raise Unsupported(f"the variable {key!r} has a dtype without numbers ({entry.dtype})")
        content = self._bytes(entry)
        if key not in self._checked:
            self._check(key, entry)
            self._checked.add(key)
        path, place = self._shard(entry.shard_id), slice(entry.offset, entry.offset + entry.size)
        dims = [int(d or 0) for d in shape]
        found = tensor_from_bytes(content, dtype, dims)
        if entry.size < _LARGE:
            return found
        return lazy_tensor(dtype, dims, lambda: tensor_from_bytes(open_buffer(path)[place], dtype, dims).numpy())

    def text(self, key: str) -> bytes:
        """Return the single string under `key`: its length, a checksum of the length, and its bytes
        (tensor_bundle.cc).
        """
        content = bytes(self._bytes(self.entries[key]))
        size, at = _varint(content, 0)
        text = content[at + 4 :]
        if len(text) != size:
            raise BadInput(f"the text {key!r} in {self.prefix} is damaged", hint="get the file again")
        return text

    def _check(self, key: str, entry: Any) -> None:
        """Read the bytes instead of mapping them: mapped bytes stay in memory as long as the model does."""
        path, left, checksum = self._shard(entry.shard_id), entry.size, 0
        with path.open("rb") as file:
            file.seek(entry.offset)
            while left:
                piece = file.read(min(left, _PIECE))
                if not piece:
                    raise BadInput(f"{path} became shorter while it was read")
                checksum = google_crc32c.extend(checksum, piece)
                left -= len(piece)
        if _masked_crc(checksum) != entry.crc32c:
            raise BadInput(
                f"the tensor {key!r} in {path} is damaged: its checksum differs from the index's",
                hint="get the file again and compare its checksum with the source's",
            )

    def _shard(self, number: int) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self.shards:05d}")

    def _bytes(self, entry: Any) -> memoryview:
        number = entry.shard_id
        if not 0 <= number < self.shards:
            raise BadInput(f"the checkpoint {self.prefix} has no shard {number}")
        if number not in self._buffers:
            self._buffers[number] = open_buffer(self._shard(number))
        buffer = self._buffers[number]
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > len(buffer):
            raise BadInput(
                f"shard {number} of {self.prefix} is shorter than its index says", hint="is the download complete?"
            )
        return buffer[entry.offset : entry.offset + entry.size]


def open_bundle(prefix: Path) -> Bundle:
    """Open the checkpoint `prefix` (`…/variables/variables`). Raises `BadInput` if the index is invalid."""
    path = prefix.with_name(prefix.name + ".index")
    buffer = open_buffer(path)
    try:
        pairs = dict(_table_entries(buffer))
        header = MESSAGES["BundleHeaderProto"].FromString(pairs.pop(b"", b""))
        entries = {key.decode(): MESSAGES["BundleEntryProto"].FromString(value) for key, value in pairs.items()}
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{path} is not a checkpoint's index: {error}", hint="is the file complete?") from error
    if header.endianness != _LITTLE_ENDIAN:
        raise Unsupported(f"{path} was written on a big-endian machine")
    return Bundle(prefix, entries, header.num_shards)


def _table_entries(buffer: memoryview) -> Iterator[tuple[bytes, bytes]]:
    footer = bytes(buffer[-_FOOTER:])
    if len(footer) < _FOOTER or footer[-8:] != _MAGIC:
        raise BadInput("not a checkpoint's index: the magic number at its end is missing", hint="is the file complete?")
    at = _varint(footer, _varint(footer, 0)[1])[1]  # skip the handle of the meta index
    for _, handle in _block_entries(buffer, *_varint_pair(footer, at)):
        yield from _block_entries(buffer, *_varint_pair(handle, 0))


def _block_entries(buffer: memoryview, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    block = bytes(buffer[offset : offset + size + _TRAILER])
    if len(block) != size + _TRAILER:
        raise BadInput("a block of the checkpoint's index runs past the end of the file", hint="is the file complete?")
    compression = block[size]
    if compression not in (_PLAIN, _SNAPPY):
        raise Unsupported(f"the checkpoint's index is compressed in a way of its own ({compression})")
    if _masked_crc(google_crc32c.value(block[: size + 1])) != int.from_bytes(block[size + 1 :], "little"):
        raise BadInput("a block of the checkpoint's index is damaged", hint="get the file again")
    if compression == _SNAPPY:
        block = decompress(block[:size])
        size = len(block)
    restarts = int.from_bytes(block[size - 4 : size], "little")
    end = size - 4 - 4 * restarts
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        fresh, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + fresh]
        at += fresh
        yield key, block[at : at + length]
        at += length


def _masked_crc(checksum: int) -> int:
    """Return a CRC-32C in its stored form: rotated by 15 bits, plus a constant."""
    return ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _varint_pair(data: bytes, at: int) -> tuple[int, int]:
    first, at = _varint(data, at)
    return first, _varint(data, at)[0]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
