"""The suite of releases: how it counts, what it prints, and a run in the environment of these tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.suites import releases
from tests.suites.consumer_environments import Environment, Needs, NotToBeHad
from tests.suites.releases import Outcome, needs, run_tests, table

TESTS = """
import pytest

def test_right(): pass
def test_wrong(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_without_its_fixture(broken): pass
@pytest.mark.skip(reason="asked for")
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
"""


class ThisPython(Environment):
    """The environment that the tests run in."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


HERE = ThisPython(Path("unused"), Needs())


def test_tests_that_are_skipped_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_of_a_release.py").write_text(TESTS)
    found = run_tests("2.99.0", HERE, [str(tmp_path)])
    assert (found.run, found.passed) == (3, 1)
    assert [name.partition("::")[2] for name in found.failed] == ["test_wrong", "test_without_its_fixture"]
    assert not found.is_right


def test_a_run_that_crashes_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_of_a_release.py").write_text("import os\n\ndef test_crash(): os.abort()\n")
    found = run_tests("2.99.0", HERE, [str(tmp_path)])
    assert "pytest ended with -6" in found.problem
    assert not found.is_right


def test_no_tests_are_not_right(tmp_path: Path) -> None:
    assert not run_tests("2.99.0", HERE, [str(tmp_path)]).is_right


def test_the_table() -> None:
    rows = [Outcome("2.13.0", 4000), Outcome("2.14.1", 3990, ("a::b", "a::c")), Outcome("9.0", problem="pip: none")]
    assert table(rows).splitlines() == [
        "| release | tests run | passed | failed |",
        "|---|---|---|---|",
        "| 2.13.0 | 4,000 | 4,000 | 0 |",
        "| 2.14.1 | 3,992 | 3,990 | 2 |",
        "| 9.0 | pip: none |  |  |",
    ]


def test_the_folders_exist_and_the_release_is_asked_for() -> None:
    assert all((releases.ROOT / folder).is_dir() for folder in releases.FOLDERS)
    assert needs("2.14.1").pip[0] == "torch==2.14.1"


def test_a_release_that_cannot_be_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(wanted: Needs, folder: Path) -> Environment:
        raise NotToBeHad(f"pip: no {wanted.pip[0]}")

    monkeypatch.setattr(releases, "environment", refuse)
    assert releases.main(["9.0", "--environments", str(tmp_path)]) == 1
    assert "| 9.0 | pip: no torch==9.0 |" in capsys.readouterr().out
