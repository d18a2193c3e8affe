"""Mutate safetensors files: the length of the header, and its entry for each tensor."""

from __future__ import annotations

import json
import random

from tests.suites.fuzzing.numbers import changed_bytes, changed_json, number


def changed_safetensors(rng: random.Random, data: bytes) -> bytes:
    """Mutate the header and fix its length, or mutate the length, or bytes."""
    kind = rng.randrange(10)
    if kind == 0:
        return changed_bytes(rng, data)
    size = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + size], data[8 + size :]
    if kind == 1:
        return (number(rng, size) % 2**64).to_bytes(8, "little") + header + rest
    if kind < 5:
        return archive(changed_json(rng, header), rest)
    told = json.loads(header)
    tensors = [name for name in told if name != "__metadata__"]
    name, other = rng.choice(tensors), rng.choice(tensors)
    entry = told[name]
    if kind == 5:
        entry["data_offsets"] = told[other]["data_offsets"]
    elif kind == 6:
        entry["data_offsets"][rng.randrange(2)] += rng.choice((-8, -4, -1, 1, 4, 8, 2**31, -(2**31)))
    elif kind == 7:
        entry["shape"] = rng.choice([[*entry["shape"], 1], entry["shape"][::-1], [number(rng)], [-1], [], [0]])
    elif kind == 8:
        entry["dtype"] = rng.choice(["F64", "F16", "BF16", "I32", "U8", "BOOL", "F8_E4M3", "f32", "C64", ""])
    else:
        told[rng.choice((name + "x", "../" + name, "__class__", ""))] = entry
    return archive(json.dumps(told).encode(), rest)


def archive(header: bytes, rest: bytes) -> bytes:
    """Return a file with this header."""
    return len(header).to_bytes(8, "little") + header + rest
