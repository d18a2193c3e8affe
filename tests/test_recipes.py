"""Test the recipes for contributors: their examples run, their tables match the code, their paths exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from convert import limits
from tests.support.import_graph import TOPS

ROOT = Path(__file__).resolve().parents[1]
RECIPES = [ROOT / name for name in ("frontends/recipes.md", "backends/recipes.md")]
TEXTS = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "README.md",
    *(path for top in (*TOPS, "tests", "fixtures") for path in sorted((ROOT / top).rglob("*.md"))),
]
LAST = "try_it.py"

UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def examples(text: str) -> dict[str, dict[str, str]]:
    """Return the Python files of each section: code blocks whose first line is a comment with the file's name."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        files = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL))
        if files:
            found[title] = files
    return found


EXAMPLES = {
    f"{path.parent.name}: {title}": files for path in RECIPES for title, files in examples(path.read_text()).items()
}


@pytest.mark.slow
@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_runs(title: str, tmp_path: Path) -> None:
    for name, text in EXAMPLES[title].items():
        (tmp_path / name).write_text(text)
    assert LAST in EXAMPLES[title], f"{title} shows files and no {LAST} that uses them"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, LAST], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def limit_row(limit: limits.Limit) -> str:
    """Return a line of the table of limits."""
    unit = next((n for n in ("GiB", "MiB") if limit.unit == "bytes" and limit.value % UNITS[n] == 0), limit.unit)
    return f"| `{limit.name}` | {limit.value / UNITS.get(unit, 1):,.0f} {unit} | {limit.what} |"


def test_the_table_of_limits_is_the_code_s() -> None:
    rows = [line for line in (ROOT / "frontends/limits.md").read_text().splitlines() if line.startswith("| ")]
    assert rows[1:] == [limit_row(limit) for limit in limits.table()]


EXAMPLE_BACKEND = ROOT / "tests/support/example_backend"


@pytest.mark.parametrize(
    "file", [p for p in sorted(EXAMPLE_BACKEND.rglob("*")) if p.suffix in (".py", ".toml")], ids=lambda p: p.name
)
def test_the_example_backend_is_shown_whole(file: Path) -> None:
    """The recipe shows each of its files, which `tests/convert/test_plugin_backend.py` installs and runs."""
    name = file.relative_to(EXAMPLE_BACKEND).as_posix()
    blocks = re.findall(r"^```\w+\n# ([\w./]+)\n(.*?)^```$", RECIPES[1].read_text(), flags=re.MULTILINE | re.DOTALL)
    assert dict(blocks)[name].strip() == file.read_text().strip()


@pytest.mark.parametrize("text", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_what_a_text_names_is_there(text: Path) -> None:
    """Files in code spans exist in the text's folder or in the project; links lead to existing files and headings."""
    content = text.read_text()
    if text.parent.name != "fixtures":  # the text of this README names files of PyTorch
        for name in re.findall(r"`([\w./*-]+\.(?:py|md|tsv|proto|sh)|[\w.-]+/[\w./-]*/)`", content):
            everywhere = [f"*/**/{name}"] if text.parent == ROOT else []  # such as `rules.py`, which many packages have
            assert any(any(ROOT.glob(n)) for n in (name, *everywhere)) or any(text.parent.glob(name)), f"{text}: {name}"
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", content):
        file = text.parent / target if target else text
        assert file.exists(), f"{text}: {target}"
        if anchor:
            headings = [h.lower() for h in re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)]
            assert anchor in {re.sub(r"[^\w -]", "", h).replace(" ", "-") for h in headings}, f"{text}: {anchor}"


def test_the_map_reads_in_ten_minutes() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= 15_000
