"""Progress: how much of the work is done, and the estimate of the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convert import activity
from convert.cli import progress
from convert.processes.done import progress_of_child, report_to_parent


@pytest.mark.parametrize(
    ("progress_text", "seconds", "text"),
    [
        ("1 4", 3, ", 25 %, about 9 s left"),
        ("3 32", 60, ", 9 %, about 10 min left"),
        ("99 100", 2, ", 99 %, about 1 s left"),
        ("1 4", 0.5, ""),
        ("0 4", 3, ""),
        ("4 4", 3, ""),
    ],
)
def test_the_rest_of_an_activity(progress_text: str, seconds: float, text: str) -> None:
    assert progress.remaining(progress_text, seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [((3, 12), "for 3 s, 12 s since the start"), ((3, 3), "for 3 s")])
def test_the_seconds_of_the_moving_line_are_no_estimate(seconds: tuple[float, float], text: str) -> None:
    """`3 s of 12 s` would be read as 9 seconds left."""
    assert progress.elapsed(*seconds) == text


def test_a_pipe_hears_of_a_long_activity_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("convert.cli.progress.time.monotonic", lambda: now)
    with progress._lines(), activity.doing("writing", "3 GB"):
        for done in range(1, 10):
            now += 4
            activity.advance(done, 10)
    assert capsys.readouterr().err.splitlines() == [
        "[  0.0 s] writing (3 GB) …",
        "[ 12.0 s] writing (3 GB), 30 %, about 28 s left …",
        "[ 24.0 s] writing (3 GB), 60 %, about 16 s left …",
        "[ 36.0 s] writing (3 GB), 90 %, about 4 s left …",
    ]


def test_a_child_tells_its_parent(tmp_path: Path) -> None:
    """A compromised child can make the parent neither wait nor read a file elsewhere."""
    assert progress_of_child(tmp_path) == ""
    heard = list(activity._listeners)
    report_to_parent(tmp_path)
    try:
        activity.advance(3, 32)
    finally:
        activity._listeners[:] = heard
    assert progress_of_child(tmp_path) == "3 32"
    place = tmp_path / "done"
    for text in ("", "3", "3 32 ", "-1 4", "1 " + "9" * 99):
        place.write_text(text)
        assert progress_of_child(tmp_path) == ""
    (tmp_path / "other").write_text("1 2")
    place.unlink()
    place.symlink_to("other")
    assert progress_of_child(tmp_path) == ""
    place.unlink()
    os.mkfifo(place)
    assert progress_of_child(tmp_path) == ""
