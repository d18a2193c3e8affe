"""The table of promises and of the tests that hold them names all promises, and tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.suites import hostile

ROOT = Path(__file__).resolve().parents[3]
TABLE = (ROOT / "convert" / "files" / "README.md").read_text()
ROWS = [line.strip("|").split("|") for line in TABLE.splitlines() if line.startswith("| ")][1:]


def test_every_promise_has_a_test() -> None:
    safety = (ROOT / "README.md").read_text().partition("\n## Safety\n")[2]
    promised = re.findall(r"^(\d+)\. ", safety, flags=re.MULTILINE)
    assert len(promised) >= 10
    assert {row[0].strip().split(".")[0] for row in ROWS if row[0].strip()[0].isdigit()} == set(promised)
    for promise, tests, *_ in ROWS:
        assert re.search(r"`tests/\S+\.py`", tests), promise


def test_what_the_table_names_is_there() -> None:
    for name in re.findall(r"`(tests/[^`\s]+)", TABLE):
        assert (ROOT / name).exists(), name
    for option, known in (("classes", hostile.MAKERS), ("verbs", hostile.VERBS)):
        for names in re.findall(rf"--{option} ([\w,]+)`", TABLE):
            assert set(names.split(",")) <= set(known), names
