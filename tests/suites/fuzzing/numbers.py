"""Mutate without knowing the format: bytes, extreme numbers, JSON."""

from __future__ import annotations

import json
import random
from typing import Any

NUMBERS = (0, 1, 2, 3, 7, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1,
           2**63, 2**64 - 1)  # fmt: skip
_WORDS = (
    "",
    "float32",
    "int64",
    "../../x",
    "/etc/passwd",
    "a" * 300,
    "\x00",
    "\u202e\x1b[31m",
    "NaN",
    "__class__",
    "0",
)


def number(rng: random.Random, old: int = 0) -> int:
    """Return an extreme number, or one near the old one."""
    return rng.choice(
        [rng.choice(NUMBERS), old + rng.choice((-2, -1, 1, 2, 8)), old * 2, -old, old ^ (1 << rng.randrange(33))]
    )


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    """Change, truncate, insert, move or zero some bytes; half of the changes are near the start or the end."""
    if not data:
        return bytes(rng.randrange(1, 9))
    out = bytearray(data)
    kind = rng.randrange(8)
    low, high = rng.choice([(0, len(out)), (0, min(512, len(out))), (max(0, len(out) - 512), len(out))])
    at = rng.randrange(low, high)
    size = rng.choice((1, 2, 4, 8, 16, 64, 300))
    if kind == 0:
        return bytes(out[:at])
    if kind == 1:
        out[at:at] = rng.randbytes(size)
    elif kind == 2:
        del out[at : at + size]
    elif kind == 3:
        out[at : at + size] = bytes(len(out[at : at + size]))
    elif kind == 4:
        other = rng.randrange(len(out))
        out[at : at + size] = out[other : other + len(out[at : at + size])]
    else:
        for _ in range(rng.randint(1, 4)):
            out[rng.randrange(low, high)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(out)


def changed_word(rng: random.Random, data: bytes) -> bytes:
    """Set a little-endian number of 1, 2, 4 or 8 bytes to an extreme one."""
    out = bytearray(data)
    size = rng.choice((1, 2, 4, 8))
    if len(out) < size:
        return changed_bytes(rng, data)
    at = rng.randrange(0, len(out) - size + 1)
    old = int.from_bytes(out[at : at + size], "little")
    out[at : at + size] = (number(rng, old) % 256**size).to_bytes(size, "little")
    return bytes(out)


def changed_text(rng: random.Random, data: bytes) -> bytes:
    """Drop, duplicate or swap a line of a program or table, or change a number or word in it."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        words = lines[at].split(b" ")
        place = rng.randrange(len(words))
        every = data.replace(b"\n", b" ").split(b" ")
        words[place] = rng.choice([rng.choice(every), str(number(rng)).encode(), b"", b"(" * rng.choice((1, 50, 3000))])
        lines[at] = b" ".join(words)
    return b"\n".join(lines)


def _other_value(rng: random.Random, old: Any) -> Any:
    if isinstance(old, bool):
        return rng.choice([not old, 1, None])
    if isinstance(old, int) and rng.random() < 0.7:
        return number(rng, old)
    if isinstance(old, str) and rng.random() < 0.6:
        return rng.choice([rng.choice(_WORDS), old[:-1], old + "x", old.upper(), old * 2])
    deep: Any = 0
    for _ in range(rng.choice((3, 60, 500))):
        deep = [deep]
    return rng.choice(
        [
            None,
            -1,
            0,
            number(rng),
            1e300,
            float("nan"),
            "",
            [],
            {},
            [old],
            {"class_name": old},
            rng.choice(_WORDS),
            deep,
        ]
    )


def changed_json(rng: random.Random, data: bytes) -> bytes:
    """Replace, drop or duplicate a value of a JSON document, or change its bytes."""
    try:
        document = json.loads(data)
    except ValueError:
        return changed_bytes(rng, data)
    if rng.random() < 0.1:
        return changed_bytes(rng, data)
    return json.dumps(changed_tree(rng, document)).encode()


def changed_tree(rng: random.Random, document: Any) -> Any:
    """Do the same to a loaded JSON document, in place."""
    places: list[tuple[Any, Any]] = []
    stack = [document]
    while stack:
        item = stack.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item))
        places += [(item, key) for key in keys]
        stack += [item[key] for key in keys if isinstance(item[key], dict | list)]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not places:
            return _other_value(rng, document)
        holder, key = rng.choice(places)
        _change_item(rng, holder, key, places)
    return document


def _change_item(rng: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    if (isinstance(holder, list) and key >= len(holder)) or (isinstance(holder, dict) and key not in holder):
        return
    kind = rng.randrange(6)
    other, place = rng.choice(places)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind == 2 and (place in other if isinstance(other, dict) else place < len(other)):
        holder[key] = json.loads(json.dumps(other[place]))
    else:
        holder[key] = _other_value(rng, holder[key])
