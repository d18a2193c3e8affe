"""Changes since another batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convert.batch.changes import changes, earlier_records
from convert.errors import BadInput
from tests.convert.batch.test_show import record


def verified(name: str, size: int, **errors: tuple[float, float]) -> dict[str, Any]:
    outputs = [{"name": output, "error": error, "floor": floor} for output, (error, floor) in errors.items()]
    return record(name, "verified", report={"output_bytes": size, "verdict": {"outputs": outputs}})


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    return changes([after], {(before["name"], before["format"]): before})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (record("a", "verified"), record("a", "verified"), {}),
        (record("a", "verified"), record("a", "mismatch"), {"new failures": ["a → onnx: mismatch, was verified"]}),
        (record("a", "crash"), record("a", "converted"), {"repaired": ["a → onnx: converted, was crash"]}),
        (record("a", "crash"), record("a", "memory"), {"other outcomes": ["a → onnx: memory, was crash"]}),
        (record("a", "verified"), record("b", "verified"), {"new": ["b → onnx"], "gone": ["a → onnx"]}),
        (verified("a", 100_000), verified("a", 101_000), {}),
        (verified("a", 100_000), verified("a", 150_000), {"sizes": ["a → onnx: 150 kB, was 100 kB"]}),
        (verified("a", 1, y=(1e-7, 2e-7)), verified("a", 1, y=(7e-7, 2e-7)), {}),
        (
            verified("a", 1, y=(1e-7, 2e-7), z=(1e-7, 2e-7)),
            verified("a", 1, y=(9e-7, 2e-7), z=(2e-7, 2e-7)),
            {"errors": ["a → onnx: y 9.0e-07, was 1.0e-07"]},
        ),
    ],
)
def test_what_has_changed(before: dict[str, Any], after: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert changed(before, after) == expected


def test_records_of_a_journal_or_its_folder(tmp_path: Path) -> None:
    whole = {"event": "ended", **record("a", "crash"), "key": "k", "limits": {"seconds": 1.0, "memory": None}}
    lines = [whole, {**whole, "outcome": "verified"}]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for place in (tmp_path, tmp_path / "journal.jsonl"):
        assert [(key, r["outcome"]) for key, r in earlier_records(place).items()] == [(("a", "onnx"), "verified")]
    (tmp_path / "other.txt").write_text("nothing\n")
    for wrong in (tmp_path / "gone", tmp_path / "other.txt"):
        with pytest.raises(BadInput, match=r"no journal|no record"):
            earlier_records(wrong)
