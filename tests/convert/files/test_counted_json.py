"""JSON is counted before it is parsed, because a list of empty lists takes twenty times its bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from convert import limits
from convert.errors import ResourceLimit
from convert.files.counted_json import parse_json
from convert.files.sniff import sniff


@pytest.mark.parametrize("text", ['{"a": [1, 2, {"b": "x"}]}', b'{"a": [1, 2, {"b": "x"}]}'])
def test_what_it_says(text: str | bytes) -> None:
    assert parse_json(text, "x") == {"a": [1, 2, {"b": "x"}]}


@pytest.mark.parametrize("text", ["[" + "[]," * 20 + "[]]", "[" * 30, json.dumps({str(i): 0 for i in range(30)})])
def test_too_many_values(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JSON_VALUES", 20)
    with pytest.raises(ResourceLimit, match="no more than 20 are read"):
        parse_json(text, "x")


def test_a_header_of_lists(tmp_path: Path) -> None:
    header = b'{"__metadata__": [' + b"[]," * (limits.JSON_VALUES // 2) + b"[]]}"
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ResourceLimit, match="values of JSON"):
        sniff(path)
