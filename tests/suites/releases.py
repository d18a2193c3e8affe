"""The tests of the PyTorch packages on other releases of PyTorch: `python tests/suites/releases.py 2.13.0 2.14.1`.

For each release a virtual environment is made with that release and the extras `all` and `test` of this project, in a
folder of `--environments`, where it is kept (5 GB on Linux). A release that passes belongs in `TRIED` of
`frontends/pytorch/releases.py`; enter it before the run, because tests that compare notes do not expect the one of a
release that was not tried. `--only EXPRESSION` is pytest's `-k`; `--slow` runs the slow tests as well. A table goes to
stdout, the failed tests to stderr. The exit code is 1 where a test fails or the tests could not be run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.suites.consumer_environments import Environment, Needs, NotToBeHad, environment

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests/frontends/pytorch", "tests/backends/pytorch")


@dataclass(frozen=True)
class Outcome:
    """What became of the tests on one release; `problem` says why they did not come to an end."""

    release: str
    passed: int = 0
    failed: tuple[str, ...] = ()
    problem: str = ""

    @property
    def run(self) -> int:
        """How many tests were run; those that were skipped are not among them."""
        return self.passed + len(self.failed)

    @property
    def is_right(self) -> bool:
        """True if tests were run and none failed."""
        return bool(self.passed) and not self.failed and not self.problem


def needs(release: str) -> Needs:
    """What is installed for one release: torchvision and what else asks for PyTorch, as pip finds that it fits."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Needs(python, (f"torch=={release}", "--editable", f"{ROOT}[all,test]"))


def run_tests(release: str, made: Environment, paths: Sequence[str] = FOLDERS, options: Sequence[str] = ()) -> Outcome:
    """Run pytest in an environment and read its report."""
    with tempfile.TemporaryDirectory(prefix="convert-releases-") as folder:
        file = Path(folder) / "report.xml"
        command = [str(made.python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junit-xml={file}"]
        done = subprocess.run([*command, *options, *paths], cwd=ROOT, env=made.variables(), capture_output=True)
        if not file.exists():
            text = (done.stderr or done.stdout).decode(errors="replace").strip()
            last = text.splitlines()[-1] if text else "no message"
            return Outcome(release, problem=f"pytest ended with {done.returncode}: {last[:200]}")
        return outcome_of(release, file)


def outcome_of(release: str, file: Path) -> Outcome:
    """Count the tests in a report of pytest (JUnit's XML). An expected failure counts as skipped, as pytest has it."""
    passed, failed = 0, []
    for test in ElementTree.parse(file).iter("testcase"):
        marks = {part.tag for part in test}
        if marks & {"failure", "error"}:
            failed.append(f"{test.get('classname')}::{test.get('name')}")
        elif "skipped" not in marks:
            passed += 1
    return Outcome(release, passed, tuple(failed))


def table(outcomes: Sequence[Outcome]) -> str:
    """A table with a row for each release."""
    lines = ["| release | tests run | passed | failed |", "|---|---|---|---|"]
    for found in outcomes:
        cells = [f"{found.run:,}", f"{found.passed:,}", f"{len(found.failed):,}"]
        lines.append(f"| {found.release} | {' | '.join([found.problem, '', ''] if found.problem else cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests on the releases of the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="+", metavar="RELEASE", help="of PyTorch, as pip knows it: 2.14.1")
    parser.add_argument("--environments", type=Path, help="the folder of the environments; else they are not kept")
    parser.add_argument("--only", default="", metavar="EXPRESSION", help="run these tests alone (pytest's -k)")
    parser.add_argument("--slow", action="store_true", help="run the slow tests as well")
    given = parser.parse_args(arguments)
    options = (["-k", given.only] if given.only else []) + (["-m", "not long"] if given.slow else [])
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="convert-releases-") as temporary:
        for release in given.releases:
            folder = (given.environments or Path(temporary)) / f"torch-{release}"
            try:
                found = run_tests(release, environment(needs(release), folder.resolve()), options=options)
            except NotToBeHad as error:
                found = Outcome(release, problem=str(error))
            outcomes.append(found)
            for name in found.failed:
                print(f"{release}: {name}", file=sys.stderr)
    print(table(outcomes))
    return 0 if all(found.is_right for found in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
