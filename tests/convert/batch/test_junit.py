"""A batch in the form of tests for a continuous integration system."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from convert.batch import junit
from convert.errors import UsageError
from tests.convert.batch.test_show import RECORDS, record

OTHERS = [record("h", "mismatch", reason="y is off"), record("i", "inconclusive"), record("j", "interrupted"),
          record("k\x1b[1m\x00", "bad input", reason="broken\x07 <&>", format="tf")]  # fmt: skip


def test_outcomes_are_passed_failed_wrong_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    junit.write(path, [*RECORDS, *OTHERS])
    root = ElementTree.parse(path).getroot()
    suites = {suite.get("name"): suite for suite in root}
    counts = {
        name: [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] for name, suite in suites.items()
    }
    assert counts == {"onnx": ["10", "2", "5", "1"], "tf": ["1", "0", "1", "0"]}
    found = {case.get("name"): [part.tag for part in case] for case in suites["onnx"]}
    assert found == {"a": [], "b": [], "c": ["error"], "d": ["error"], "e": ["error"], "f": ["error"], "g": ["error"],
                     "h": ["failure"], "i": ["failure"], "j": ["skipped"]}  # fmt: skip
    (broken,) = suites["onnx"].findall("testcase[@name='e']/error")
    assert broken.get("message") == "bad input: zoo/e.pt has 17 bytes"
    assert broken.text == "zoo/e.pt has 17 bytes\nhint: get zoo/e.pt again"
    assert suites["onnx"][0].get("file") == "zoo/a.pt"


def test_only_a_file_of_its_own_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    junit.write(path, RECORDS)
    junit.write(path, RECORDS[:1])
    assert len(ElementTree.parse(path).findall(".//testcase")) == 1
    (other := tmp_path / "other.xml").write_text("<testsuites/>")
    with pytest.raises(UsageError, match="holds something else"):
        junit.write(other, RECORDS)
    assert other.read_text() == "<testsuites/>"
