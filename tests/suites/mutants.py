"""Mutants of the verdict, the layout passes and the rule tables: how many do the unit tests notice in a minute?

    pip install cosmic-ray coverage
    python tests/suites/mutants.py convert/passes/layout [--sample 200] [--seed 0] [--file judge.py] [--json]

cosmic-ray makes the mutants: one operator, number, condition or loop changed. Type annotations are left alone. A mutant
is run by those tests of the package's mirrored folder (`tests/convert/passes/layout`) that reach its line, the quick
ones first; tests that would take the folder beyond a minute are not used. Each mutant runs in a process of its own,
forked from one that has numpy, onnx and PyTorch. Mutants that cannot be told from the program are in
`mutant_equivalents.py`, with the reason; what else survives is printed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("convert/parity", "convert/passes/layout", "convert/rules")
SECONDS = 60.0
"""What the tests of one package may take together, without the mutant."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `line` and `changed` are the source's line before and after."""

    file: str
    number: int
    line: str
    changed: str
    source: str


@dataclass(frozen=True)
class TestPool:
    """Tests that fit into the time, quick ones first, and which lines of which file each reaches."""

    tests: Sequence[str]
    reached: dict[str, dict[int, list[str]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--sample", type=int, default=200, help="mutants of each package, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", default="", help="only files of this name")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.chdir(ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(ROOT))
    _import_libraries()
    rows = [
        score_package(p, _chosen(list(all_mutants(Path(p), given.file)), given.sample, given.seed))
        for p in given.packages
    ]
    if given.json:
        print(json.dumps(rows, indent=1))
    for row in rows:
        judged = row["mutants"] - row["equivalent"]
        print(
            f"{row['package']}: {row['noticed']} of {judged} noticed ({row['noticed'] / max(judged, 1):.1%}), "
            f"{row['equivalent']} equivalent, {row['tests']} tests of {row['seconds']:.0f} s"
        )
    return 0


def _import_libraries() -> None:
    """What every test process needs, once; nothing of the project, whose modules are what changes."""
    import onnx_ir  # noqa: F401
    import onnxruntime  # noqa: F401
    import pytest  # noqa: F401
    import torch

    torch.set_num_threads(1)


def all_mutants(package: Path, only: str = "") -> Iterator[Mutant]:
    """Every mutant of the files of a package that differs from the program outside of annotations."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.mutating import mutate_code

    for file in sorted(package.glob("*.py")):
        if only and file.name != only:
            continue
        text, tree = file.read_text(), get_ast_from_path(file)
        skipped = _annotation_spans(ast.parse(text))
        for name in sorted(plugins.operator_names()):
            make = plugins.get_operator(name)
            if make.arguments():
                continue
            operator = make()
            spans = [s for node in ast_nodes(tree) for s in operator.mutation_positions(node)]
            for occurrence, (start, end) in enumerate(spans):
                if any(a <= start and end <= b for a, b in skipped):
                    continue
                changed = mutate_code(text, operator, occurrence)
                if changed is None or changed == text:
                    continue
                before, after = _changed_lines(text, changed, start[0])
                yield Mutant(str(file), start[0], before, after, changed)


def _annotation_spans(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where types are written, which nothing evaluates."""
    found: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
            alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias")
            found += [node.value] if alias and isinstance(node, ast.AnnAssign) else []
        elif isinstance(node, ast.FunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.append(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "cast":
            found.append(node.args[0])
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in found if n is not None]  # type: ignore


def _changed_lines(text: str, changed: str, number: int) -> tuple[str, str]:
    before, after = text.splitlines(), changed.splitlines()
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), number - 1)
    return before[at].strip(), after[at].strip() if at < len(after) else ""


def _chosen(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` of them at random, one change of a line as likely as another."""
    distinct = list({(m.file, m.number, m.changed): m for m in mutants}.values())
    return distinct if not count or count >= len(distinct) else random.Random(seed).sample(distinct, count)


def score_package(package: str, mutants: Sequence[Mutant]) -> dict[str, Any]:
    """How many mutants were noticed, how many are declared equivalents, and which survived."""
    from mutant_equivalents import EQUIVALENTS

    pool, seconds = test_pool(package)
    file = next(f for f in pool.reached if f.startswith(package))
    if notices(Mutant(file, 1, "", "", Path(file).read_text()), pool.tests):
        raise SystemExit(f"the tests of {package} fail without a mutant")
    row: dict[str, Any] = {"package": package, "mutants": len(mutants), "noticed": 0, "equivalent": 0, "survived": []}
    row |= {"tests": len(pool.tests), "seconds": seconds}
    for done, mutant in enumerate(mutants, 1):
        if (Path(mutant.file).name, mutant.line, mutant.changed) in EQUIVALENTS:
            row["equivalent"] += 1
            continue
        tests = reaching_tests(pool, mutant)
        if tests and notices(mutant, tests):
            row["noticed"] += 1
            continue
        row["survived"].append([mutant.file, mutant.number, mutant.line, mutant.changed, len(tests)])
        print(f"{done}: {mutant.file}:{mutant.number} ({len(tests)} tests)\n  - {mutant.line}\n  + {mutant.changed}",
              flush=True, file=sys.stderr)  # fmt: skip
    return row


def test_pool(package: str) -> tuple[TestPool, float]:
    """The tests of the mirrored folder within `SECONDS`, what they take together, and the lines that each reaches."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        _in_child(lambda: _measure(package, result), 900)
        durations, reached = json.loads(result.read_text())
    tests, total = [], 0.0
    for name, seconds in sorted(durations.items(), key=lambda item: item[1]):
        if total + seconds > SECONDS:
            break
        tests.append(name)
        total += seconds
    lines = {f: {int(n): names for n, names in by_line.items()} for f, by_line in reached.items()}
    return TestPool(tests, lines), total


def _measure(package: str, result: Path) -> int:
    import coverage
    import pytest

    durations: dict[str, float] = {}
    watcher = coverage.Coverage(data_file=None, include=[f"{package}/*"], config_file=False)

    class Plugin:
        def pytest_runtest_logreport(self, report: Any) -> None:
            durations[report.nodeid] = durations.get(report.nodeid, 0.0) + report.duration
            if report.failed or report.skipped:
                durations[report.nodeid] = float("inf")

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
            watcher.switch_context(item.nodeid)
            yield
            watcher.switch_context("")

    watcher.start()
    pytest.main([*_ARGUMENTS, f"tests/{package}"], plugins=[Plugin()])
    watcher.stop()
    data = watcher.get_data()
    reached = {os.path.relpath(f): data.contexts_by_lineno(f) for f in data.measured_files()}
    result.write_text(json.dumps([{k: v for k, v in durations.items() if v < SECONDS}, reached]))
    return 0


_ARGUMENTS = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--disable-warnings")


def reaching_tests(pool: TestPool, mutant: Mutant) -> list[str]:
    """Tests that execute the statement; of one that is executed at import, those that use its function or file."""
    by_line = pool.reached.get(mutant.file, {})
    for first, last in _statement_spans(mutant.file, mutant.number):
        found = {t for n in range(first, last + 1) for t in by_line.get(n, ()) if t}
        if found:
            return [t for t in pool.tests if t in found]
    return []


@cache
def _statement_spans(file: str, number: int) -> list[tuple[int, int]]:
    """Lines of the statement at `number`, of the function around it, and of the file."""
    text = Path(file).read_text()
    statement, function = (number, number), None
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt) or not node.lineno <= number <= (node.end_lineno or node.lineno):
            continue
        body = getattr(node, "body", None)
        last = (body[0].lineno - 1) if body else (node.end_lineno or node.lineno)
        if number <= max(last, node.lineno):
            statement = (node.lineno, max(last, node.lineno))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and function is None:
            function = (node.lineno, node.end_lineno or node.lineno)
    return [statement, *([function] if function else []), (1, len(text.splitlines()))]


def notices(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether one of the tests fails, or does not end, with the mutant in place."""

    def run() -> int:
        import pytest

        sys.meta_path.insert(0, _MutantFinder(mutant))
        return int(pytest.main([*_ARGUMENTS, *tests]))

    return _in_child(run, 3 * SECONDS) != 0


class _MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports the mutated source where the module is asked for."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        file = str(ROOT / self.mutant.file)
        return importlib.util.spec_from_file_location(fullname, file, loader=self)

    def get_filename(self, fullname: str) -> str:
        return str(ROOT / self.mutant.file)

    def get_data(self, path: str | bytes) -> bytes:
        return self.mutant.source.encode()


def _in_child(work: Any, seconds: float) -> int:
    """The exit code of `work` in a forked process, whose output is dropped; 1 where it does not end in time."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            code = work()
        os._exit(code)
    end = time.monotonic() + seconds
    status = None
    while status is None and time.monotonic() < end:
        found, result = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(result) if found else None
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
