"""Test the check of commit messages that `.ci/check` runs (`tests/support/commits.py`)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.commits import ROOT, git, is_imperative, new_commits, problems

BODY = "\n\nBecause of this, as measured by that.\n"


@pytest.mark.parametrize(
    "message",
    [
        "pytorch: add a rule for hardswish" + BODY,
        "onnx, tensorflow: sort nodes with graphlib" + BODY,
        "backends/keras: need no custom objects" + BODY,
        "tests: " + "x" * 65 + BODY,
        "tests: pass --opset on\n\nWhy.\n\nSigned-off-by: A Person <a@example.org>\n",
    ],
)
def test_good_messages(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("tests: " + "x" * 66 + BODY, "73 characters"),
        ("add a rule for hardswish" + BODY, "'package: verb'"),
        ("Pytorch: add a rule" + BODY, "'package: verb'"),
        ("pytorch: Add a rule" + BODY, "'package: verb'"),
        ("pytorch:add a rule" + BODY, "'package: verb'"),
        ('Revert "pytorch: add a rule"' + BODY, "'package: verb'"),
        ("pytorch: added a rule" + BODY, "'added' is not an imperative"),
        ("pytorch: adds a rule" + BODY, "'adds' is not an imperative"),
        ("pytorch: adding a rule" + BODY, "'adding' is not an imperative"),
        ("pytorch: a rule for hardswish" + BODY, "'a' is not an imperative"),
        ("pytorch: add a rule\nBecause.\n", "no empty line"),
        ("pytorch: add a rule\n", "no body"),
        ("pytorch: add a rule\n\nSigned-off-by: A Person <a@example.org>\n", "no body"),
    ],
)
def test_bad_messages(message: str, words: str) -> None:
    (problem,) = problems(message)
    assert words in problem


@pytest.mark.parametrize(
    "verb", ["add", "bring", "embed", "feed", "fix", "focus", "keep", "need", "pass", "process", "read-back", "string"]
)
def test_imperatives(verb: str) -> None:
    assert is_imperative(verb)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a repository without a remote, with three commits whose subjects are their numbers, a day apart."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    for number in range(3):
        commit(tmp_path, number)
    return tmp_path


def day(number: int) -> datetime:
    return datetime(2026, 1, 1 + number, tzinfo=UTC)


def commit(folder: Path, number: int) -> None:
    """Make an empty commit, independent of the machine's git configuration."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    message = ["--date", day(number).isoformat(), "--message", str(number)]
    git(folder, *who, "commit", "--quiet", "--allow-empty", "--no-verify", *message)


def new_subjects(folder: Path, since: datetime) -> list[str]:
    return [git(folder, "log", "-1", "--format=%s", name).strip() for name in new_commits(folder, since)]


def test_commits_from_a_date_on_are_new(clone: Path) -> None:
    assert new_subjects(clone, day(1)) == ["2", "1"]


def test_a_rewritten_history_keeps_its_age(clone: Path) -> None:
    """The commits get other hashes and new committer dates."""
    before = git(clone, "rev-parse", "HEAD")
    who = ["-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "commit.gpgsign=false"]
    git(clone, *who, "rebase", "--quiet", "--root", "--force-rebase", "--keep-empty")
    assert git(clone, "rev-parse", "HEAD") != before
    assert new_subjects(clone, day(1)) == ["2", "1"]


def test_commits_of_the_remote_are_old(clone: Path) -> None:
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert new_subjects(clone, day(1)) == []
    commit(clone, 3)
    assert new_subjects(clone, day(1)) == ["3"]


def test_ci_runs_the_check() -> None:
    assert "python -m tests.support.commits" in (ROOT / ".ci" / "check").read_text()
