"""Test the counts of `releases.py`, its table, and a run in the environment of these tests."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.suites import releases
from tests.suites.consumer_environments import Environment, Needs, NotToBeHad
from tests.suites.releases import Failure, Outcome, Suite, needs, reasons, run_tests, table, written

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
    """The environment that runs the tests."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


HERE = ThisPython(Path("unused"), Needs())


def of(folder: Path) -> Suite:
    return Suite((str(folder),))


def test_tests_that_are_skipped_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_of_a_release.py").write_text(TESTS)
    found = run_tests("torch 2.99.0", HERE, of(tmp_path), ("-k", "not nothing"))
    assert (found.run, found.passed) == (3, 1)
    assert [failure.name.partition("::")[2] for failure in found.failed] == ["test_wrong", "test_without_its_fixture"]
    assert "assert False" in found.failed[0].reason
    assert found.tests == f"{tmp_path} -k 'not nothing'"
    assert not found.is_right


def test_a_run_that_crashes_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_of_a_release.py").write_text("import os\n\ndef test_crash(): os.abort()\n")
    found = run_tests("torch 2.99.0", HERE, of(tmp_path))
    assert "pytest ended with -6" in found.problem
    assert not found.is_right


def test_a_module_that_cannot_be_imported_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_of_a_release.py").write_text("from json import of_another_release\n")
    found = run_tests("torch 2.99.0", HERE, of(tmp_path))
    assert found.problem.startswith("pytest ended with 2: ")
    assert "cannot import name 'of_another_release'" in found.problem


def test_no_tests_are_not_right(tmp_path: Path) -> None:
    assert not run_tests("torch 2.99.0", HERE, of(tmp_path)).is_right


WRONG = (Failure("a::b", "assert 1 == 2"), Failure("a::c", "assert 1 == 2"), Failure("a::d", "KeyError"))
ROWS = [
    Outcome("torch 2.13.0", "3.11.7", "tests/a", 4000),
    Outcome("torch 2.14.1", "3.11.7", "tests/a", 3990, WRONG),
    Outcome("torch 9.0", problem="pip: none"),
]


def test_the_table_has_the_runs_that_came_to_their_end() -> None:
    assert table(ROWS).splitlines() == [
        "| releases | Python | tests | run | passed | failed |",
        "|---|---|---|---|---|---|",
        "| torch 2.13.0 | 3.11.7 | `tests/a` | 4,000 | 4,000 | 0 |",
        "| torch 2.14.1 | 3.11.7 | `tests/a` | 3,993 | 3,990 | 3 |",
    ]
    assert reasons(ROWS) == [
        "- torch 2.14.1: 2 × assert 1 == 2", "  - a::b", "  - a::c", "- torch 2.14.1: 1 × KeyError", "  - a::d",
    ]  # fmt: skip


def test_rows_go_to_their_places_in_readme() -> None:
    before = "\n".join(
        ["# x", "", *releases.HEADER, releases.row(replace(ROWS[1], passed=1)), "| other | 3.12 | t |", "", "y"]
    )
    after = written(before, ROWS).splitlines()
    assert after[4:] == [releases.row(ROWS[1]), "| other | 3.12 | t |", releases.row(ROWS[0]), "", "y"]
    assert written(releases.README.read_text(), []) == releases.README.read_text()
    with pytest.raises(ValueError, match="no table"):
        written("# x\n", ROWS)


def test_the_tests_exist_and_the_releases_are_asked_for() -> None:
    assert all((releases.ROOT / path).exists() for suite in releases.SUITES.values() for path in suite.paths)
    assert needs({"torch": "2.14.1"}).pip[0] == "torch==2.14.1"
    assert needs({"torch": "2.14.1"}).pip[-1].endswith("[all,test]")
    both = needs({"tensorflow": "2.20.0", "keras": "3.13.2"})
    assert both.pip[:2] == ("tensorflow==2.20.0", "keras==3.13.2")
    assert both.pip[-1].endswith("[tensorflow,tflite,test]")
    assert needs({"python": "3.12.1"}).python == "3.12"
    assert "torch" not in " ".join(needs({"python": "3.12.1"}).pip).replace(str(releases.ROOT), "")


def test_combinations_are_read() -> None:
    assert releases.combination("2.13.0") == {"torch": "2.13.0"}
    assert releases.combination("tensorflow==2.20.0, keras==3.13.2") == {"tensorflow": "2.20.0", "keras": "3.13.2"}
    for wrong in ("jax==1.0", "torch==new", "torch"):
        with pytest.raises(ValueError, match="is no release of"):
            releases.combination(wrong)


def test_an_environment_has_what_was_asked_for() -> None:
    found = {"python": "3.12.1", "torch": "2.13.0+cpu", "convert": str(releases.ROOT / "convert/__init__.py")}
    releases.check({"torch": "2.13.0", "python": "3.12"}, found)
    for wanted in ({"torch": "2.13"}, {"python": "3.12.1"}):
        releases.check(wanted, found)
    for wanted in ({"torch": "2.1"}, {"onnx": "1.21.0"}, {"python": "3.1"}):
        with pytest.raises(NotToBeHad, match="the environment has"):
            releases.check(wanted, found)
    with pytest.raises(NotToBeHad, match="the environment runs"):
        releases.check({}, found | {"convert": "/elsewhere/convert/__init__.py"})


def test_what_is_installed_here_is_found() -> None:
    found = releases.installed(HERE, ["pytest", "no-such-package"])
    assert found["pytest"] == pytest.__version__
    assert "no-such-package" not in found
    assert found["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")


def test_a_release_that_cannot_be_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(wanted: Needs, folder: Path) -> Environment:
        raise NotToBeHad(f"pip: no {wanted.pip[0]}")

    monkeypatch.setattr(releases, "environment", refuse)
    assert releases.main(["torch==9.0", "--environments", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines() == list(releases.HEADER)
    assert told.err == "torch==9.0: pip: no torch==9.0\n"
