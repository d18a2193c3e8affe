"""Run the tests on other releases of the libraries.

    python tests/suites/releases.py torch==2.14.1 onnx==1.21.0

Each argument is a combination of releases, with commas between them: `torch`, `transformers`, `keras`, `tensorflow`,
`onnx`, or `python==3.12`. The first release decides which tests run (`SUITES`). Each combination gets a virtual
environment with these releases and the extras that the tests need, in a folder of `--environments`, where it is kept (5
GB on Linux with PyTorch).

    --over PYTHON        install these releases alone, and use the other packages of that interpreter's environment
    --in PYTHON          run the tests in that environment, which must have the releases and this checkout
    --only EXPRESSION    pytest's -k
    --slow               run the slow tests as well
    --paths …            run these tests instead of the library's
    --write              put the rows into the table of README.md

Enter a new release of PyTorch in `TRIED` of `frontends/pytorch/releases.py` before the run: tests that compare notes do
not expect the note about an untested release.

A Markdown table goes to stdout, with a row for each finished run, followed by the failed tests with their reasons. The
exit code is 1 if a test fails, or if the tests could not be run, which stderr explains.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.suites.consumer_environments import Environment, Needs, NotToBeHad, environment, interpreter

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


@dataclass(frozen=True)
class Suite:
    """The tests for one library: paths, options of pytest, and the extras and packages that they need."""

    paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    extras: tuple[str, ...] = ("all", "test")
    packages: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the arguments of pytest."""
        return " ".join([*self.paths, *(f"'{o}'" if " " in o else o for o in self.options)])


_FOR_THE_CORE = ("pytest>=8", "pytest-xdist>=3.6", "pillow>=10", "fsspec>=2024.6", "netron>=9,<10", "ruff>=0.12")
"""Packages that tests of the core import beside the project's own requirements; the extra `test` needs frameworks."""

SUITES = {
    "torch": Suite(("tests/frontends/pytorch", "tests/backends/pytorch")),
    "transformers": Suite(
        (
            "tests/frontends/pytorch/files",
            "tests/frontends/pytorch/export/patches",
            "tests/frontends/pytorch/export/test_patch_table.py",
        )
    ),
    "keras": Suite(("tests/backends/keras",), extras=("tensorflow", "test")),
    "tensorflow": Suite(
        ("tests/frontends/tensorflow", "tests/backends/tensorflow"), extras=("tensorflow", "tflite", "test")
    ),
    "onnx": Suite(("tests",), ("-m", "core"), (), _FOR_THE_CORE),
    "python": Suite(("tests",), ("-m", "core"), (), _FOR_THE_CORE),
}
"""Suites by library; for `python` the core, which needs no framework."""

Releases = Mapping[str, str]
"""Releases by library, including `python`."""

HEADER = ("| releases | Python | tests | run | passed | failed |", "|---|---|---|---|---|---|")

_PROBE = """
import json, platform
from importlib.metadata import PackageNotFoundError, version
found = {"python": platform.python_version()}
for name in NAMES:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
try:
    import convert
    found["convert"] = convert.__file__
except ImportError:
    pass
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Failure:
    """A failed test, and the first line of the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of the tests on one combination; `problem` is the reason if they did not finish."""

    releases: str
    python: str = ""
    tests: str = ""
    passed: int = 0
    failed: tuple[Failure, ...] = ()
    problem: str = ""

    @property
    def run(self) -> int:
        """Return the number of tests that ran, without skipped ones."""
        return self.passed + len(self.failed)

    @property
    def is_right(self) -> bool:
        """True if tests were run and none failed."""
        return bool(self.passed) and not self.failed and not self.problem


def combination(text: str) -> dict[str, str]:
    """Read `torch==2.14.1` or `tensorflow==2.20.0,keras==3.13.2`; a release alone is one of PyTorch."""
    found = {}
    for part in text.split(","):
        name, equal, release = part.strip().rpartition("==")
        name = name if equal else "torch"
        if name not in SUITES or not re.fullmatch(r"\d+(\.\d+)*\S*", release):
            raise ValueError(f"{part!r} is no release of {', '.join(SUITES)}: write torch==2.14.1")
        found[name] = release
    return found


def needs(releases: Releases) -> Needs:
    """Return the requirements: these releases, and the extras, for which pip finds releases that fit."""
    python = releases.get("python") or f"{sys.version_info.major}.{sys.version_info.minor}"
    suites = [SUITES[name] for name in releases]
    extras = ",".join(dict.fromkeys(extra for suite in suites for extra in suite.extras))
    packages = dict.fromkeys(package for suite in suites for package in suite.packages)
    project = f"{ROOT}[{extras}]" if extras else str(ROOT)
    return Needs(".".join(python.split(".")[:2]), (*_pins(releases), *packages, "--editable", project))


def _pins(releases: Releases) -> tuple[str, ...]:
    return tuple(f"{name}=={release}" for name, release in releases.items() if name != "python")


def made_over(base: str, releases: Releases, folder: Path) -> Environment:
    """Make an environment with only these releases and this checkout, on top of another one that has the other
    packages.

    Raises `NotToBeHad` if pip does not install them, or if the other environment has another Python.
    """
    listed = _run([base, "-c", "import json, sys; print(json.dumps([sys.version_info[:2], sys.path]))"])
    (major, minor), paths = json.loads(listed)
    wanted = needs(releases).python if "python" in releases else f"{major}.{minor}"
    if wanted != f"{major}.{minor}":
        raise NotToBeHad(f"{base} is Python {major}.{minor}, and no {wanted}")
    made = Environment(folder, Needs(wanted, _pins(releases)))
    _run([interpreter(wanted), "-m", "venv", "--clear", str(folder)])
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "base.pth").write_text("\n".join(p for p in paths if p.endswith("site-packages")))
    pip = [str(made.python), "-m", "pip", "install", "--quiet"]
    if pins := _pins(releases):
        _run([*pip, *pins])  # install their requirements too if the installed releases do not fit
    _run([*pip, "--no-deps", "--editable", str(ROOT)])
    return made


@dataclass(frozen=True)
class Installed(Environment):
    """The environment of an existing interpreter."""

    program: Path = Path(sys.executable)

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.program


def installed(made: Environment, names: Sequence[str]) -> dict[str, str]:
    """Return the releases in an environment, including `python`, and the place of the project as `convert`."""
    told = _run([str(made.python), "-c", _PROBE.replace("NAMES", repr(list(names)))], made)
    found: dict[str, str] = json.loads(told.strip().splitlines()[-1])
    return found


def check(releases: Releases, found: Mapping[str, str]) -> None:
    """Raise `NotToBeHad` if an environment has other releases than the requested ones, or another checkout."""
    for name, release in releases.items():
        there = found.get(name, "none").partition("+")[0]
        if there != release.partition("+")[0] and not there.startswith(f"{release}."):
            raise NotToBeHad(f"the environment has {name} {there}, and not {release}")
    if not Path(found.get("convert", "/")).is_relative_to(ROOT):
        raise NotToBeHad(f"the environment runs {found.get('convert', 'no convert')}, and not {ROOT}")


def run_tests(releases: str, made: Environment, suite: Suite, options: Sequence[str] = (), python: str = "") -> Outcome:
    """Run pytest in an environment and read its report."""
    with tempfile.TemporaryDirectory(prefix="convert-releases-") as folder:
        file = Path(folder) / "report.xml"
        command = [str(made.python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junit-xml={file}"]
        given = [*suite.options, *options, *suite.paths]
        done = subprocess.run([*command, *given], cwd=ROOT, env=made.variables(), capture_output=True)
        if not file.exists():
            text = (done.stderr or done.stdout).decode(errors="replace").strip()
            last = text.splitlines()[-1] if text else "no message"
            return Outcome(releases, problem=f"pytest ended with {done.returncode}: {last[:200]}")
        found = outcome_of(releases, file, python, str(Suite(suite.paths, (*suite.options, *options))))
        if done.returncode > 1:  # pytest's exit codes: 1 if tests failed, 5 if there were none
            first = f": {found.failed[0].name}: {found.failed[0].reason}" if found.failed else ""
            return Outcome(releases, problem=f"pytest ended with {done.returncode}{first}")
        return found


def outcome_of(releases: str, file: Path, python: str = "", tests: str = "") -> Outcome:
    """Count the tests in a report of pytest (JUnit's XML). An expected failure counts as skipped, as pytest has it."""
    passed, failed = 0, []
    for test in ElementTree.parse(file).iter("testcase"):
        wrong = next((part for part in test if part.tag in ("failure", "error")), None)
        if wrong is not None:
            failed.append(Failure(f"{test.get('classname')}::{test.get('name')}", _reason(wrong)))
        elif not any(part.tag == "skipped" for part in test):
            passed += 1
    return Outcome(releases, python, tests, passed, tuple(failed))


def _reason(wrong: ElementTree.Element) -> str:
    """Return the first line of a test's failure, or the last line for a module that cannot be collected."""
    lines = [line.strip() for line in (wrong.text or "").splitlines() if line.strip()]
    message = (wrong.get("message") or "").strip().splitlines()
    found = lines[-1:] if "collection" in (wrong.get("message") or "") else message or lines[-1:]
    return (found or ["no message"])[0][:200]


def row(found: Outcome) -> str:
    """Return the row of a finished run."""
    cells = [found.releases, found.python, f"`{found.tests}`", *(f"{n:,}" for n in (found.run, found.passed))]
    return f"| {' | '.join([*cells, f'{len(found.failed):,}'])} |"


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a table of the finished runs."""
    return "\n".join([*HEADER, *(row(found) for found in outcomes if not found.problem)])


def reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for each reason of a combination, with its number of failed tests, and a line for each test."""
    lines = []
    for found in outcomes:
        for reason, count in Counter(failure.reason for failure in found.failed).most_common():
            lines.append(f"- {found.releases}: {count} × {reason}")
            lines += [f"  - {failure.name}" for failure in found.failed if failure.reason == reason]
    return lines


def written(text: str, outcomes: Sequence[Outcome]) -> str:
    """Return README's text with the rows of these runs, each in place of the row of the same tests."""
    begin, _, rest = text.partition("\n".join(HEADER) + "\n")
    if not rest:
        raise ValueError(f"README.md has no table that begins with {HEADER[0]}")
    lines = rest.split("\n")
    end = next(i for i, line in enumerate([*lines, ""]) if not line.startswith("|"))
    rows = {_key(line): line for line in lines[:end]}
    rows |= {_key(line): line for line in (row(found) for found in outcomes if not found.problem)}
    return begin + "\n".join([*HEADER, *rows.values(), *lines[end:]])


def _key(line: str) -> tuple[str, ...]:
    """Return the key of a row: releases, Python without its patch version, and tests."""
    releases, python, tests = (cell.strip() for cell in line.strip("|").split("|")[:3])
    return releases, ".".join(python.split(".")[:2]), tests


def tried(text: str, given: argparse.Namespace, temporary: Path) -> Outcome:
    """Run the tests on one combination, in the environment that the command line selects."""
    releases = combination(text)
    options = (["-k", given.only] if given.only else []) + (["-m", "not long"] if given.slow else [])
    folder = ((given.environments or temporary) / re.sub(r"[^\w.]+", "-", text)).resolve()
    try:
        if given.inside:
            made: Environment = Installed(folder, Needs(), Path(given.inside).absolute())
        elif given.over:
            made = made_over(given.over, releases, folder)
        else:
            made = environment(needs(releases), folder)
        found = installed(made, [name for name in releases if name != "python"])
        check(releases, found)
    except NotToBeHad as error:
        return Outcome(text, problem=str(error))
    shown = ", ".join(f"{name} {found[name].partition('+')[0]}" for name in releases if name != "python")
    suite = SUITES[next(iter(releases))]
    suite = replace(suite, paths=tuple(given.paths)) if given.paths else suite
    return run_tests(shown or f"Python {found['python']}", made, suite, options, found["python"])


def _run(command: Sequence[str], made: Environment | None = None) -> str:
    variables = None if made is None else made.variables()
    try:
        done = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, env=variables)
    except OSError as error:
        raise NotToBeHad(f"{command[0]}: {error}") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise NotToBeHad(f"{Path(command[0]).name}: {(lines or ['?'])[-1][:200]}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests on the combinations of the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("combinations", nargs="+", metavar="LIBRARY==RELEASE[,…]", help="such as torch==2.14.1")
    parser.add_argument("--environments", type=Path, help="the folder of the environments; else they are not kept")
    parser.add_argument("--over", metavar="PYTHON", help="take what is not asked for from this Python's environment")
    parser.add_argument("--in", dest="inside", metavar="PYTHON", help="run the tests in the environment of this Python")
    parser.add_argument("--only", default="", metavar="EXPRESSION", help="run these tests alone (pytest's -k)")
    parser.add_argument("--paths", nargs="+", default=(), help="run these tests, and not those of the library")
    parser.add_argument("--slow", action="store_true", help="run the slow tests as well")
    parser.add_argument("--write", action="store_true", help="put the rows into the table of README.md")
    given = parser.parse_args(arguments)
    try:
        for text in given.combinations:
            combination(text)
    except ValueError as error:
        parser.error(str(error))
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="convert-releases-") as temporary:
        for text in given.combinations:
            outcomes.append(tried(text, given, Path(temporary)))
            if outcomes[-1].problem:
                print(f"{text}: {outcomes[-1].problem}", file=sys.stderr)
    print("\n".join([table(outcomes), *reasons(outcomes)]))
    if given.write:
        README.write_text(written(README.read_text(), outcomes))
    return 0 if all(found.is_right for found in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
