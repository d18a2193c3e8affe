"""Count the mutants of the verdict, the layout passes and the rule tables that the unit tests detect within a minute.

    pip install cosmic-ray coverage
    python tests/suites/mutants.py convert/passes/layout [--sample 200] [--seed 0] [--file judge.py] [--json]

cosmic-ray makes the mutants: one operator, number, condition or loop changed. Type annotations are left alone. A mutant
is run by the tests of the package's mirrored folder (`tests/convert/passes/layout`) that reach its line, the quick ones
first. Tests that start processes (`not_core`) are not used, nor any after a minute of processor time. Each mutant runs
in a process of its own, forked from one that has collected the tests (`mutant_process.py`). `mutant_classes.py` lists
classes of equivalent mutants, with the reason. All other survivors are printed; some of them are equivalent too.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mutant_process import ARGUMENTS, Mutant, in_child, is_in_place, notices, notices_in_place

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("convert/parity", "convert/passes/layout", "convert/rules")
LONGEST = 180.0
"""Seconds of processor time that no test of the pool takes."""


@dataclass(frozen=True)
class TestPool:
    """Tests that fit into the time, quick ones first, and the lines of each file that each test reaches."""

    tests: Sequence[str]
    reached: dict[str, dict[int, list[str]]]
    durations: dict[str, float]

    def limits(self, tests: Sequence[str]) -> dict[str, float]:
        """Return for each test the seconds of processor time after which it counts as endless, far more than its
        measured time.
        """
        return {name: 5.0 + 10 * self.durations[name] for name in tests}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--sample", type=int, default=200, help="mutants of each package, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", default="", help="only files of this name")
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time for all tests together")
    parser.add_argument("--measured", type=Path, help="file for what tests take and reach: read where it is there")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.chdir(ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(ROOT))
    _import_libraries()
    rows = []
    for package in given.packages:
        mutants = chosen_mutants(Path(package), given.file, given.sample, given.seed)
        rows.append(score_package(package, mutants, given.seconds, given.measured))
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
    """Import what every test process needs, but nothing of the project, whose modules are mutated."""
    import onnx_ir  # noqa: F401
    import onnxruntime  # noqa: F401
    import pytest  # noqa: F401
    import torch

    torch.set_num_threads(1)


def chosen_mutants(package: Path, only: str = "", count: int = 0, seed: int = 0) -> list[Mutant]:
    """Choose `count` mutants at random (0: all) of a package, outside of annotations, each change of a line once."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    places = [place for file in sorted(package.rglob("*.py")) if only in ("", file.name) for place in _places(file)]
    if count:
        random.Random(seed).shuffle(places)
    found: dict[tuple[str, int, str], Mutant] = {}
    for file, name, occurrence, number in places:
        text = file.read_text()
        changed = None
        with contextlib.suppress(AttributeError):  # cosmic-ray cannot replace an exception with a dot in its name
            changed = mutate_code(text, plugins.get_operator(name)(), occurrence)
        if changed is None or _program(changed) in (None, _program(text)):
            continue
        before, after = _changed_lines(text, changed, number)
        found.setdefault((str(file), number, after), Mutant(str(file), number, before, after, changed))
        if len(found) == count:
            break
    return list(found.values())


def _program(source: str) -> str | None:
    """Return the program of a source, with numbers in one notation (1e140 is 1e+140), or None if it does not parse.

    An example is a mutated `*` of an argument list.
    """
    with contextlib.suppress(SyntaxError):
        return ast.dump(ast.parse(source))
    return None


def _places(file: Path) -> Iterator[tuple[Path, str, int, int]]:
    """Yield every change that cosmic-ray has for a file: file, operator, number of the occurrence, and line."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path

    nodes = list(ast_nodes(get_ast_from_path(file)))
    skipped = _annotation_spans(ast.parse(file.read_text()))
    for name in sorted(plugins.operator_names()):
        make = plugins.get_operator(name)
        if make.arguments():
            continue
        spans = [s for node in nodes for s in make().mutation_positions(node)]
        for occurrence, (start, end) in enumerate(spans):
            if not any(a <= start and end <= b for a, b in skipped):
                yield file, name, occurrence, start[0]


def _annotation_spans(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the places of types, which are never evaluated."""
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


def score_package(
    package: str, mutants: Sequence[Mutant], budget: float, measured: Path | None = None
) -> dict[str, Any]:
    """Return how many mutants were noticed, how many belong to a class of equivalents, and which survived."""
    from mutant_classes import reason_of_equivalence

    pool, seconds = test_pool(package, budget, measured)
    row: dict[str, Any] = {"package": package, "mutants": len(mutants), "noticed": 0, "equivalent": 0, "survived": []}
    row |= {"tests": len(pool.tests), "seconds": seconds}
    for done, (mutant, tests, noticed) in enumerate(_outcomes(package, pool, mutants), 1):
        same = not noticed and reason_of_equivalence(mutant.line, mutant.changed)
        row["noticed"] += noticed
        row["equivalent"] += bool(same)
        if done % 10 == 0:
            print(f"{done} of {len(mutants)}, {row['noticed']} noticed", flush=True, file=sys.stderr)
        if not noticed and not same:
            row["survived"].append([mutant.file, mutant.number, mutant.line, mutant.changed, len(tests)])
            print(f"{mutant.file}:{mutant.number} ({len(tests)} tests)\n  - {mutant.line}\n  + {mutant.changed}",
                  flush=True, file=sys.stderr)  # fmt: skip
    return row


def _outcomes(package: str, pool: TestPool, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, Sequence[str], bool]]:
    """Yield each mutant with the tests that reach it, and whether one of them fails.

    A function is replaced in a process that has the tests; code that runs at import needs a new process.
    """
    jobs = [(m, reaching_tests(pool, m)) for m in mutants]
    yield from ((m, tests, False) for m, tests in jobs if not tests)
    jobs = [(m, tests) for m, tests in jobs if tests]
    in_place = [(m, t) for m, t in jobs if is_in_place(m, pool.reached.get(m.file, {}))]
    file = next(f for f in pool.reached if f.startswith(package))
    nothing = Mutant(file, 1, "", "", Path(file).read_text())
    limited = [(m, pool.limits(t)) for m, t in [(nothing, pool.tests), *in_place]]
    found = notices_in_place(package, limited)
    if next(found):
        raise SystemExit(f"the tests of {package} fail without a mutant")
    yield from ((m, tests, noticed) for (m, tests), noticed in zip(in_place, found, strict=True))
    rest = [job for job in jobs if job not in in_place]
    for m, tests in rest:
        yield m, tests, notices(m, tests, 30.0 + 2 * sum(pool.durations[name] for name in tests))


def test_pool(package: str, budget: float, measured: Path | None) -> tuple[TestPool, float]:
    """Return the tests of the mirrored folder within the time, their total time, and the lines that each reaches.

    measured: the file that keeps the result for the next run, until tests or program change.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = measured or Path(folder) / "result.json"
        if not result.exists():
            in_child(lambda: _measure(package, result), 900)
        durations, reached = json.loads(result.read_text())
    tests, total = [], 0.0
    for name, seconds in sorted(durations.items(), key=lambda item: item[1]):
        if total + seconds > budget:
            break
        tests.append(name)
        total += seconds
    lines = {f: {int(n): names for n, names in by_line.items()} for f, by_line in reached.items()}
    return TestPool(tests, lines, durations), total


def _measure(package: str, result: Path) -> int:
    import coverage
    import pytest

    durations: dict[str, float] = {}
    watcher = coverage.Coverage(data_file=None, include=[f"{package}/*"], config_file=False)

    class Plugin:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed or report.skipped:
                durations[report.nodeid] = float("inf")

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
            watcher.switch_context(item.nodeid)
            before = sum(os.times()[:4])
            yield
            durations[item.nodeid] = durations.get(item.nodeid, 0.0) + sum(os.times()[:4]) - before
            watcher.switch_context("")

    watcher.start()
    every = [a for a in ARGUMENTS if a != "-x"]
    pytest.main([*every, f"tests/{package}"], plugins=[Plugin()])
    watcher.stop()
    data = watcher.get_data()
    reached = {os.path.relpath(f): data.contexts_by_lineno(f) for f in data.measured_files()}
    result.write_text(json.dumps([{k: v for k, v in durations.items() if v < LONGEST}, reached]))
    return 0


def reaching_tests(pool: TestPool, mutant: Mutant) -> list[str]:
    """Return tests that execute the statement; if it is executed at import, those that use its function or file.

    A test that only reads a constant executes no line of the package: such tests count for statements executed at
    import.
    """
    by_line = pool.reached.get(mutant.file, {})
    for first, last in _statement_spans(mutant.file, mutant.number):
        found = {t for n in range(first, last + 1) for t in by_line.get(n, ()) if t}
        if found:
            if first == 1:
                found |= set(pool.tests) - {t for lines in pool.reached.values() for ts in lines.values() for t in ts}
            return [t for t in pool.tests if t in found]
    return list(pool.tests)


@cache
def _statement_spans(file: str, number: int) -> list[tuple[int, int]]:
    """Return the lines of the statement at `number`, of the function around it, and of the file."""
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


if __name__ == "__main__":
    sys.exit(main())
