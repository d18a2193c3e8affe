"""Mutate FlatBuffers files without their schema, at the offsets, lengths and fields of their tables."""

from __future__ import annotations

import random

from tests.suites.fuzzing.numbers import changed_bytes, number


def places(data: bytes) -> list[tuple[int, int]]:
    """Return the positions of offsets, lengths, vtable entries and fields, each with its size in bytes."""
    found: list[tuple[int, int]] = [(0, 4)]
    seen: set[int] = set()
    stack = [_u32(data, 0)]
    while stack and len(found) < 20_000:
        at = stack.pop()
        if at in seen or not _is_table(data, at):
            continue
        seen.add(at)
        vtable = at - _i32(data, at)
        found.append((at, 4))
        for slot in range(vtable, vtable + _u16(data, vtable), 2):
            found.append((slot, 2))
            if slot < vtable + 4 or not _u16(data, slot):
                continue
            field = at + _u16(data, slot)
            found.append((field, 4))
            target = field + _u32(data, field)
            if field + 4 <= target < len(data) - 4:
                stack.append(target)
                _follow_vector(data, target, found, stack)
    return found


def _follow_vector(data: bytes, at: int, found: list[tuple[int, int]], stack: list[int]) -> None:
    """Follow a possible vector: its length and its first elements, which may be offsets of tables."""
    count = _u32(data, at)
    if not 0 < count <= (len(data) - at - 4) // 4:
        return
    found.append((at, 4))
    for place in range(at + 4, at + 4 + 4 * min(count, 40), 4):
        target = place + _u32(data, place)
        if _is_table(data, target):
            found.append((place, 4))
            stack.append(target)


def _is_table(data: bytes, at: int) -> bool:
    if not 4 <= at <= len(data) - 4:
        return False
    vtable = at - _i32(data, at)
    if not 4 <= vtable <= len(data) - 4:
        return False
    size, length = _u16(data, vtable), _u16(data, vtable + 2)
    return size % 2 == 0 and 4 <= size <= 200 and 4 <= length <= 1000 and vtable + size <= len(data) >= at + length


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _i32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little", signed=True)


def changed_flatbuffer(rng: random.Random, data: bytes) -> bytes:
    """Set one to three of these positions to an extreme number, a similar one or that of another position, or change
    bytes.
    """
    if rng.random() < 0.1:
        return changed_bytes(rng, data)
    out, known = bytearray(data), places(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, size = rng.choice(known)
        size = size if rng.random() < 0.8 else 1
        old = int.from_bytes(out[at : at + size], "little")
        other, _ = rng.choice(known)
        new = int.from_bytes(out[other : other + size], "little") if rng.random() < 0.3 else number(rng, old)
        out[at : at + size] = (new % 256**size).to_bytes(size, "little")
    return bytes(out)
