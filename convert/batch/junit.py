"""Writes the results of a batch as JUnit XML, which continuous integration systems show as tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from convert.batch.show import reason
from convert.batch.worker import SUCCESSES
from convert.files.side_files import side_file
from convert.outcome.text import visible

_SUITE = "convert batch"
_HEAD = 4096
_SKIPPED = ("interrupted",)
_DIFFERENT = ("mismatch", "inconclusive")


def is_results(path: Path) -> bool:
    """Return whether a file was written by `write`."""
    with path.open("rb") as file:
        return f'<testsuites name="{_SUITE}"'.encode() in file.read(_HEAD)


def write(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Write a test for each task: a verdict other than PASS is a failure, any other problem an error.

    Raises `UsageError` if the file exists with other content, and `ResourceLimit` on a full disk.
    """
    root = ElementTree.Element("testsuites", name=_SUITE)
    for form in sorted({record["format"] for record in records}):
        root.append(_suite(form, [record for record in records if record["format"] == form]))
    text = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    with side_file(path, is_results, "--junit") as temporary:
        temporary.write_bytes(text)


def _suite(form: str, records: Sequence[dict[str, Any]]) -> ElementTree.Element:
    cases = [_case(record) for record in records]

    def count(kind: str) -> str:
        return str(sum(case.find(kind) is not None for case in cases))

    found = ElementTree.Element(
        "testsuite", name=form, tests=str(len(cases)), failures=count("failure"), errors=count("error"),
        skipped=count("skipped"), time=f"{sum(float(record['seconds']) for record in records):.3f}",
    )  # fmt: skip
    found.extend(cases)
    return found


def _case(record: dict[str, Any]) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", name=_text(record["name"]), classname=record["format"], file=_text(record["source"]),
        time=f"{record['seconds']:.3f}",
    )  # fmt: skip
    outcome = record["outcome"]
    if outcome in SUCCESSES:
        return case
    if outcome in _SKIPPED:
        ElementTree.SubElement(case, "skipped", message=outcome)
        return case
    why = _text(reason(record))
    problem = ElementTree.SubElement(
        case, "failure" if outcome in _DIFFERENT else "error", type=outcome, message=f"{outcome}: {why}"
    )
    hint = record.get("report", {}).get("error", {}).get("hint", "")
    problem.text = "\n".join(filter(None, (_text(record.get("reason") or ""), f"hint: {_text(hint)}" if hint else "")))
    return case


def _text(value: Any) -> str:
    """Return a text without the characters that XML cannot contain."""
    return visible(str(value))
