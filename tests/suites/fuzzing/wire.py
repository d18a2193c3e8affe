"""Mutate protobuf messages field by field, without their schema, and LevelDB tables that hold messages."""

from __future__ import annotations

import random
from typing import Any

import google_crc32c

from tests.suites.fuzzing.numbers import changed_bytes, number

Field = tuple[int, int, Any]
"""Number, wire type, and value: an integer, bytes, or the fields of a message within."""


def _varint(value: int) -> bytes:
    value %= 2**64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a varint of more than 10 bytes")


def fields_of(data: bytes, depth: int = 0) -> list[Field]:
    """Return the fields of a message. Bytes that parse as a message are treated as one. Raises `ValueError`."""
    fields: list[Field] = []
    at = 0
    try:
        while at < len(data):
            key, at = _read_varint(data, at)
            value: Any
            wire = key & 7
            if key >> 3 == 0:
                raise ValueError("field 0")
            if wire == 0:
                value, at = _read_varint(data, at)
            elif wire == 2:
                size, at = _read_varint(data, at)
                value, at = data[at : at + size], at + size
                if at > len(data):
                    raise ValueError("cut off")
                value = _inner(value, depth)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                value, at = data[at : at + size], at + size
                if len(value) < size:
                    raise ValueError("cut off")
            else:
                raise ValueError("a group")
            fields.append((key >> 3, wire, value))
    except IndexError:
        raise ValueError("cut off") from None
    return fields


def _inner(value: bytes, depth: int) -> bytes | list[Field]:
    if not value or depth > 30 or all(32 <= c < 127 for c in value):
        return value
    try:
        return fields_of(value, depth + 1)
    except ValueError:
        return value


def message_of(fields: list[Field]) -> bytes:
    """Return the message of these fields."""
    out = bytearray()
    for name, wire, value in fields:
        out += _varint(name << 3 | wire)
        if wire == 0:
            out += _varint(value)
        elif wire == 2:
            content = message_of(value) if isinstance(value, list) else value
            out += _varint(len(content)) + content
        else:
            out += value
    return bytes(out)


def changed_message(rng: random.Random, data: bytes) -> bytes:
    """Drop, duplicate or swap a field at any depth, or change its value, type or length."""
    if rng.random() < 0.1:
        return changed_bytes(rng, data)
    try:
        top = fields_of(data)
    except ValueError:
        return changed_bytes(rng, data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        fields = top
        while fields:
            at = rng.randrange(len(fields))
            inner = fields[at][2]
            if isinstance(inner, list) and inner and rng.random() < 0.85:
                fields = inner
                continue
            _change_field(rng, fields, at)
            break
    return message_of(top)


def _change_field(rng: random.Random, fields: list[Field], at: int) -> None:
    name, wire, value = fields[at]
    other = rng.randrange(len(fields))
    kind = rng.randrange(12)
    if kind == 0:
        del fields[at]
    elif kind == 1:
        fields.insert(other, fields[at])
    elif kind == 2:
        fields[at], fields[other] = fields[other], fields[at]
    elif kind == 3:
        fields[at] = (name, wire, fields[other][2]) if fields[other][1] == wire else (name, *fields[other][1:])
    elif kind == 4:
        fields[at] = (rng.choice((name + 1, max(1, name - 1), rng.randint(1, 30), 2**28)), wire, value)
    elif wire == 0:
        fields[at] = (name, wire, number(rng, value))
    elif wire in (1, 5):
        fields[at] = (name, wire, rng.choice([bytes(len(value)), b"\xff" * len(value), rng.randbytes(len(value))]))
    else:
        content = message_of(value) if isinstance(value, list) else value
        texts = [f[2] for f in fields if isinstance(f[2], bytes)]
        short = [b"", content[:-1], content + b"\0", b"x" * 500, "\u202e".encode(), rng.choice([*texts, b"y"])]
        fields[at] = (name, wire, rng.choice([*short, changed_bytes(rng, content)]))


# -- the index of a checkpoint (leveldb/doc/table_format.md) -----------------------------------------------------------


def changed_index(rng: random.Random, data: bytes) -> bytes:
    """Change an entry of a checkpoint's index and fix the checksums, or change bytes."""
    if rng.random() < 0.3:
        return changed_bytes(rng, data)
    entries = table_entries(data)
    at = rng.randrange(len(entries))
    key, value = entries[at]
    kind = rng.randrange(6)
    if kind == 0:
        del entries[at]
    elif kind == 1:
        entries[at] = (key, entries[rng.randrange(len(entries))][1])
    elif kind == 2:
        entries[at] = (key + b"x", value)
    else:
        entries[at] = (key, changed_message(rng, value))
    return table_of(entries)


def table_entries(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return keys and values of a LevelDB table without compression."""
    footer = data[-48:]
    _, at = _read_varint(footer, 0)
    _, at = _read_varint(footer, at)
    start, at = _read_varint(footer, at)
    size, at = _read_varint(footer, at)
    found = []
    for _, handle in _block_entries(data[start : start + size]):
        place, at = _read_varint(handle, 0)
        length, at = _read_varint(handle, at)
        found += _block_entries(data[place : place + length])
    return found


def _block_entries(block: bytes) -> list[tuple[bytes, bytes]]:
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    at, key, found = 0, b"", []
    while at < end:
        shared, at = _read_varint(block, at)
        more, at = _read_varint(block, at)
        size, at = _read_varint(block, at)
        key = key[:shared] + block[at : at + more]
        found.append((key, block[at + more : at + more + size]))
        at += more + size
    return found


def table_of(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Return a LevelDB table of one block."""
    out = bytearray()
    data = _append_block(out, entries)
    meta = _append_block(out, [])
    index = _append_block(out, [(entries[-1][0] if entries else b"", data)])
    return bytes(out + (meta + index).ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little"))


def _append_block(out: bytearray, entries: list[tuple[bytes, bytes]]) -> bytes:
    """Append a block with its trailer; return its handle."""
    body, restarts = bytearray(), []
    for key, value in entries:
        restarts.append(len(body))
        body += b"\0" + _varint(len(key)) + _varint(len(value)) + key + value
    restarts = restarts or [0]
    body += b"".join(r.to_bytes(4, "little") for r in restarts) + len(restarts).to_bytes(4, "little")
    handle = _varint(len(out)) + _varint(len(body))
    crc = google_crc32c.value(bytes(body) + b"\0")
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    out += body + b"\0" + masked.to_bytes(4, "little")
    return handle
