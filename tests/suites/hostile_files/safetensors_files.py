"""Safetensors files with a false header."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name

GOOD = FIXTURES / "mnist_cnn.safetensors"
FACTORY = f"{FIXTURES / 'mnist_model.py'}:build"


def safetensors_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write files with one lie each."""
    data = GOOD.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    first, second = [name for name in header if name != "__metadata__"][:2]
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    length = header[first]["data_offsets"][1] - header[first]["data_offsets"][0]
    told: dict[str, dict[str, Any]] = {
        "offsets that overlap": {"data_offsets": header[second]["data_offsets"]},
        "offsets below zero": {"data_offsets": [-8, length - 8]},
        "offsets the other way round": {"data_offsets": header[first]["data_offsets"][::-1]},
        "offsets beyond the end": {"data_offsets": [end, end + length]},
        "offsets of 2^63": {"data_offsets": [2**63, 2**63 + length]},
        "offsets that are text": {"data_offsets": ["0", "8"]},
        "three offsets": {"data_offsets": [0, 8, 16]},
        "a shape of 2^60": {"shape": [2**60]},
        "a shape whose product overflows": {"shape": [2**32, 2**32, 2**32]},
        "a shape below zero": {"shape": [-1, -1]},
        "a shape 10,000 deep": {"shape": [1] * 10_000},
        "no such dtype": {"dtype": "F32; import os"},
        "another dtype": {"dtype": "F64"},
        "a dtype that is a list": {"dtype": ["F32"]},
    }
    files = {name: _file({**header, first: {**header[first], **change}}, rest) for name, change in told.items()}
    again = json.dumps(header[second])
    files |= {
        "a header of 2^63": struct.pack("<Q", 2**63) + data[8:],
        "a header of 2^64 - 1": struct.pack("<Q", 2**64 - 1) + data[8:],
        "a header of 99 MB": struct.pack("<Q", 99 << 20) + data[8:],
        "a header 100,000 deep": _raw(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", rest),
        "one name twice": _raw(f"{json.dumps(header)[:-1]}, {first!r}: {again}}}".replace("'", '"').encode(), rest),
        "a number of 10^5 digits": _raw(b'{"a": {"dtype": "F32", "shape": [' + b"9" * 100_000 + b"]}}", rest),
        "metadata that are a list": _file({"__metadata__": [1], **header}, rest),
        "names with control characters": _file({"\u202ea\x1b[31m\n": header[first], **header}, rest),
    }
    for name, content in files.items():
        path = folder / f"{file_name(name)}.safetensors"
        path.write_bytes(content)
        yield Case(name, path, ("--model", FACTORY), good=FIXTURES / "mnist_cnn.pt")


def _file(header: Any, rest: bytes) -> bytes:
    return _raw(json.dumps(header).encode(), rest)


def _raw(header: bytes, rest: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + rest
