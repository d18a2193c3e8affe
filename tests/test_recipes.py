"""The recipes for contributors are right: their examples run, their tables are the code's, their paths exist."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.import_graph import TOPS, sources

ROOT = Path(__file__).resolve().parents[1]
READMES = [ROOT / name for name in ("frontends/README.md", "backends/README.md")]
TEXTS = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "README.md",
    *(path for top in (*TOPS, "tests", "fixtures") for path in sorted((ROOT / top).rglob("README.md"))),
]
LAST = "try_it.py"

NO_LIMITS_OF_FILES = {
    "frontends/tensorflow/graph/state.py:_MOST": "elements of an initial value that a note tells",
    "frontends/tensorflow/loops/rnn.py:_MOST": "states of a loop in which cells are looked for",
    "frontends/tensorflow/common/unify_dims.py:_MOST": "operands that are compared with each other",
    "frontends/tensorflow/common/shape_values.py:_LARGEST": "elements of a shape that are followed",
    "frontends/tensorflow/common/element_tracing.py:_DEEPEST": "operators that an element is followed over",
    "frontends/pytorch/ops/fourier.py:LARGEST": "length of a transform that is written as one product",
    "frontends/pytorch/torchscript/loops.py:_MOST_TRIES": "rounds until the types of a loop are settled",
}
UNITS = {"": 1, "MiB": 1 << 20, "GiB": 1 << 30}


def examples(text: str) -> dict[str, dict[str, str]]:
    """For each section its Python files: code blocks that begin with a comment, the file's name."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        files = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL))
        if files:
            found[title] = files
    return found


EXAMPLES = {
    f"{path.parent.name}: {title}": files for path in READMES for title, files in examples(path.read_text()).items()
}


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_runs(title: str, tmp_path: Path) -> None:
    for name, text in EXAMPLES[title].items():
        (tmp_path / name).write_text(text)
    assert LAST in EXAMPLES[title], f"{title} shows files and no {LAST} that uses them"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, LAST], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def limits_of_the_table() -> dict[str, float]:
    """Each constant, file:NAME, with the number that the table gives it."""
    rows = re.findall(r"^\| [^|]+ \| ([\d,]+) ?(\w*) \| `(\w+)` in `([\w/]+\.py)` \|$", READMES[0].read_text(), re.M)
    return {f"{file}:{name}": int(number.replace(",", "")) * UNITS[unit] for number, unit, name, file in rows}


def limits_of_the_code() -> dict[str, float]:
    """Each numeric constant of a module by file:NAME."""
    found = {}
    for file in sources():
        for node in ast.parse(file.read_text()).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and (value := number(getattr(node, "value", None))) is not None:
                found[f"{file.relative_to(ROOT).as_posix()}:{target.id}"] = value
    return found


def number(node: ast.expr | None) -> float | None:
    """What an expression of literals is, such as `100 << 20`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = number(node.left), number(node.right)
        if left is not None and right is not None:
            operators = {ast.LShift: "__lshift__", ast.Pow: "__pow__", ast.Mult: "__mul__", ast.Sub: "__sub__"}
            return getattr(left, operators[type(node.op)])(right) if type(node.op) in operators else None
    return None


def test_the_table_of_limits_is_the_code_s() -> None:
    table, code = limits_of_the_table(), limits_of_the_code()
    assert {name: code.get(name) for name in table} == table
    bound = re.compile(r"(convert/files|frontends)/.*:(_?(MOST|MAX|LARGEST|DEEPEST)(_\w+)?|\w*_LIMIT)")
    lacking = {name for name in code if bound.fullmatch(name)} - set(table) - set(NO_LIMITS_OF_FILES)
    assert not lacking, "limits of what is read that frontends/README.md does not list"
    assert set(NO_LIMITS_OF_FILES) <= set(code)


@pytest.mark.parametrize("text", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_what_a_text_names_is_there(text: Path) -> None:
    """Files in code spans lie below the text's folder or the project's; links lead to files and headings."""
    content = text.read_text()
    if text.parent.name != "fixtures":  # whose text tells of files of PyTorch
        for name in re.findall(r"`([\w./*-]+\.(?:py|md|tsv|proto|sh)|[\w.-]+/[\w./-]*/)`", content):
            everywhere = [f"*/**/{name}"] if text.parent == ROOT else []  # `rules.py`: what many rooms have
            assert any(any(ROOT.glob(n)) for n in (name, *everywhere)) or any(text.parent.glob(name)), f"{text}: {name}"
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", content):
        file = text.parent / target if target else text
        assert file.exists(), f"{text}: {target}"
        if anchor:
            headings = [h.lower() for h in re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)]
            assert anchor in {re.sub(r"[^\w -]", "", h).replace(" ", "-") for h in headings}, f"{text}: {anchor}"


def test_the_map_reads_in_ten_minutes() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= 15_000
