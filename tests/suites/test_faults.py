"""Kills, full disks and limits of `faults.py`: a few by default, all of them with `-m long`."""

from __future__ import annotations

import sys
from pathlib import Path

import faults
import faults_limits
import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
    pytest.mark.not_core,
]


@pytest.mark.slow
def test_a_killed_conversion_leaves_the_old_output_or_a_new_one() -> None:
    """Kill two processes: the one that was started, and the one that works for it."""
    done, wrong = faults.kills(["convert"], ["KILL"], 2, seed=1)
    assert (done, wrong) == (2, [])


@pytest.mark.long
@pytest.mark.parametrize("name", faults.SIGNALS)
@pytest.mark.parametrize("verb", faults.VERBS)
def test_a_signal_at_any_moment(verb: str, name: str) -> None:
    done, wrong = faults.kills([verb], [name], 50, seed=0)
    assert (done, wrong) == (50, [])


@pytest.mark.long
@pytest.mark.parametrize("verb", faults.VERBS)
def test_what_runs_out(verb: str) -> None:
    done, wrong = faults_limits.starve([verb])
    assert wrong == []
    assert done >= 18


def test_what_is_cut_is_told(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<!DOCTYPE html>")
    (tmp_path / "in.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "journal.jsonl").write_text('{"event": 1}\n{"ev\n{"event": 2}')
    assert set(faults.contents(tmp_path).values()) == {"cut", "damaged"}
    (tmp_path / "journal.jsonl").write_text('{"event": 1}\n{"ev')
    assert faults.contents(tmp_path)["journal.jsonl"] == "whole"


def test_leftovers_and_mixtures_are_told(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "tmp" / "convert-tmp-12345678").mkdir(parents=True)
    for name, text in (("a", "old"), ("b", "new"), (".convert-0123456789abcdef", "half")):
        (tmp_path / "out" / name).write_text(text)
    told = faults.contents(tmp_path / "out")
    place = faults.Place(tmp_path, old={"a": told["a"], "b": "1", "c": "2"}, new={"a": "3", "b": told["b"]})
    found = "\n".join(faults.find_faults("convert", place, "none", "Traceback (most recent", swept=True))
    for words in ("a traceback", "c is gone", "part old and part new", ".convert-0123456789abcdef is left", "tmp-1234"):
        assert words in found
