"""Check the messages of new commits: `python -m tests.support.commits`, which `.ci/check` runs.

A message has a subject of at most 72 characters, `package: verb …` with the verb in the imperative, then an empty line
and a body that says why. Commits of `origin/main` and commits authored before `SINCE` are old and are not checked. The
date decides, not a hash, because a rewritten history keeps its dates alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SINCE = datetime(2026, 11, 29, 12, tzinfo=UTC)
"""Older commits may have another form."""
WIDTH = 72
SUBJECT = re.compile(r"[a-z][a-z0-9_.-]*(?:[,/] ?[a-z0-9_.-]+)*: (?P<verb>[a-z][a-z-]*)\b")
"""`package: verb`, or several packages: `onnx, tensorflow: verb`."""
NO_VERBS = frozenset(
    ["a", "an", "the", "this", "that", "these", "some", "more", "new", "no", "not", "for", "in", "on", "with", "of"]
)
INFLECTED = re.compile(r"(?:[^e]ed|ing|[^suai]s)$")
"""Endings of `added`, `adding` and `adds`; `need`, `pass`, `focus` and `alias` do not match."""
IMPERATIVES = frozenset({"bring", "embed", "ping", "shed", "string"})
"""Imperatives that end like inflected verbs."""
TRAILER = re.compile(r"[A-Z][A-Za-z-]+: \S")


def problems(message: str) -> list[str]:
    """Return what is wrong with a commit message, a phrase each; an empty list if nothing is."""
    subject, *rest = message.rstrip("\n").split("\n")
    found = []
    if len(subject) > WIDTH:
        found.append(f"the subject has {len(subject)} characters, at most {WIDTH} are allowed")
    match = SUBJECT.match(subject)
    if match is None:
        found.append("the subject does not begin with 'package: verb' in lower case")
    elif not is_imperative(match["verb"]):
        found.append(f"{match['verb']!r} is not an imperative, such as add, fix, rename")
    if rest and rest[0].strip():
        found.append("no empty line follows the subject")
    if not any(line.strip() and not TRAILER.match(line) for line in rest):
        found.append("there is no body that says why")
    return found


def is_imperative(verb: str) -> bool:
    """Return whether a word may be an imperative: no article or preposition, no ending of another form."""
    return verb in IMPERATIVES or (verb not in NO_VERBS and not INFLECTED.search(verb))


def git(folder: Path, *words: str) -> str:
    """Return what git prints; raise `subprocess.CalledProcessError` if it fails."""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_commit(folder: Path, name: str) -> bool:
    """Return whether the clone has a commit of this name."""
    if shutil.which("git") is None:
        return False
    command = ["git", "-C", str(folder), "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def new_commits(folder: Path, since: datetime = SINCE) -> list[str]:
    """Return the hashes of the commits to check, the newest first; merges are left out."""
    remote = "refs/remotes/origin/main"
    old = [f"^{remote}"] if is_commit(folder, remote) else []
    dated = git(folder, "log", "--no-merges", "--format=%H %at", *old, "HEAD")
    lines = [line.split() for line in dated.splitlines()]
    return [name for name, seconds in lines if int(seconds) >= since.timestamp()]


def main() -> int:
    """Print the problems of each new commit; return 1 if there are any."""
    if not is_commit(ROOT, "HEAD"):
        print("commit messages: this is no clone, nothing to check")
        return 0
    commits = new_commits(ROOT)
    wrong = 0
    for commit in commits:
        message = git(ROOT, "log", "-1", "--format=%B", commit)
        for problem in problems(message):
            print(f"{commit[:10]} {message.splitlines()[0]}\n  {problem}", file=sys.stderr)
            wrong = 1
    print(f"commit messages: {len(commits)} new checked")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
