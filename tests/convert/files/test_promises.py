"""The table of promises and tests in convert/files/tests.md is complete: its files exist, and no class is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLE = (ROOT / "convert" / "files" / "tests.md").read_text()


def test_each_named_test_exists() -> None:
    named = set(re.findall(r"tests/[\w/]+\.py", TABLE))
    assert len(named) > 30
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_each_promise_of_the_readme_has_a_row() -> None:
    safety = (ROOT / "README.md").read_text().partition("## Safety\n")[2].partition("\n## ")[0]
    promises = re.findall(r"^(\d+)\. ", safety, re.M)
    assert promises == [str(n) for n in range(1, 11)]
    assert set(re.findall(r"^\| (\d+)\. ", TABLE, re.M)) == set(promises)


@pytest.mark.not_core
def test_each_class_of_hostile_files_is_named() -> None:
    from tests.suites.hostile import MAKERS

    named = {word for words in re.findall(r"--classes ([\w,]+)", TABLE) for word in words.split(",")}
    assert named == set(MAKERS)
