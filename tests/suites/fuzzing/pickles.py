"""Mutate pickles, opcode by opcode."""

from __future__ import annotations

import pickletools
import random
import struct

from tests.suites.fuzzing.numbers import changed_bytes, number

_OPCODES = [code.code.encode("latin-1") for code in pickletools.opcodes]


def operations(data: bytes) -> list[bytes]:
    """Return the bytes of each opcode with its argument."""
    starts = [place for _, _, place in pickletools.genops(data)]
    ends = [*starts[1:], len(data)]
    return [data[start or 0 : end] for start, end in zip(starts, ends, strict=True)]


def changed_pickle(rng: random.Random, data: bytes) -> bytes:
    """Drop, duplicate, move or replace an opcode, or change its argument."""
    if rng.random() < 0.1:
        return changed_bytes(rng, data)
    parts = operations(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        kind = rng.randrange(10)
        if kind == 0:
            del parts[at]
        elif kind == 1:
            parts.insert(other, parts[at])
        elif kind == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif kind == 3:
            parts[at] = rng.choice(_OPCODES) + parts[at][1:]
        elif kind == 4:
            parts[at] = parts[other]
        else:
            numbered = [i for i, part in enumerate(parts) if part[:1] in b"KMJX\x8a\x8c" and len(part) > 1]
            if numbered:
                place = rng.choice(numbered)
                parts[place] = _other_argument(rng, parts[place])
        if not parts:
            return b""
    return b"".join(parts)


def _other_argument(rng: random.Random, part: bytes) -> bytes:
    """Return another number or string."""
    code = part[:1]
    if code in b"X\x8c":
        head = 5 if code == b"X" else 2
        text = rng.choice(
            [b"", part[head:-1], part[head:] + b"x", b"\xe2\x80\xaex", b"0", b"a" * 500, part[head:].upper()]
        )
        return b"X" + struct.pack("<I", len(text)) + text
    old = int.from_bytes(part[1:] if code != b"\x8a" else part[2:], "little")
    new = number(rng, old)
    if rng.random() < 0.7:
        return b"J" + struct.pack("<i", (new + 2**31) % 2**32 - 2**31)
    raw = new.to_bytes(10, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw
