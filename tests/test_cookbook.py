"""Run every command of the recipes in convert/README.md, and compare its output with the shown one.

In the shown output `…` matches anything, and on a line of its own any lines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COOKBOOK = ROOT / "convert" / "README.md"
QUICK = {"ONNX for an older runtime", "Custom operators", "Reading a FAIL", "Reading INCONCLUSIVE"}
"""Recipes that start no framework and verify at most twice; the others are long."""


@dataclass(frozen=True)
class Recipe:
    """The Python files of a section, and its commands with the lines that they print."""

    title: str
    files: dict[str, str]
    commands: list[tuple[str, list[str]]]


def recipes(text: str) -> Iterator[Recipe]:
    """Yield the sections with commands."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        files = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL))
        commands: list[tuple[str, list[str]]] = []
        for block in re.findall(r"^```console\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                if line.startswith("$ "):
                    commands.append((line[2:], []))
                else:
                    commands[-1][1].append(line)
        if commands:
            yield Recipe(title, files, commands)


def pattern(shown: list[str]) -> str:
    """Return a regular expression that matches the lines."""
    parts = ["(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in shown]
    return "".join(parts)


def with_torchvision(folder: Path) -> dict[str, str]:
    """Return variables for recipes with transformers. It imports torchvision, whose operators may be missing."""
    if not any("from transformers import" in file.read_text() for file in folder.glob("make_*.py")):
        return {}
    declared = "from tests.support import timm_helper\n\ntimm_helper.declare_torchvision_operators()\n"
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(declared)
    return {"PYTHONPATH": f"{folder / 'site'}:{ROOT}"}


def printed(command: str, folder: Path) -> str:
    """Return the output of a command on stdout and stderr, without the lines of progress."""
    program = f"{sys.executable} -m convert "
    words = re.sub(r"^convert ", program, command) if command.startswith("convert ") else command
    words = re.sub(r"^python ", f"{sys.executable} ", words)
    done = subprocess.run(
        ["bash", "-c", words], cwd=folder, text=True, check=False, timeout=600,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **with_torchvision(folder)},
    )  # fmt: skip
    return "".join(line for line in done.stdout.splitlines(keepends=True) if not re.match(r"\[ *[\d.]+ s\] ", line))


RECIPES = [
    pytest.param(recipe, id=recipe.title, marks=[] if recipe.title in QUICK else [pytest.mark.long])
    for recipe in recipes(COOKBOOK.read_text("utf-8"))
]


@pytest.mark.slow
@pytest.mark.usefixtures("new_interpreters")  # child processes then import as they do for a user
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_prints_what_is_shown(recipe: Recipe, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures", ignore=shutil.ignore_patterns("tensorflow1", "make_*"))
    for name, text in recipe.files.items():
        (tmp_path / name).write_text(text)
    for command, shown in recipe.commands:
        found = printed(command, tmp_path)
        assert re.fullmatch(pattern(shown), found), f"$ {command}\n{found}\nis shown as\n" + "\n".join(shown)


def test_every_quick_recipe_is_there() -> None:
    assert {recipe.title for recipe in recipes(COOKBOOK.read_text("utf-8"))} >= QUICK


def test_what_is_left_out_is_left_out() -> None:
    assert re.fullmatch(pattern(["a … c", "…", "(d)"]), "a b c\nx\ny\n(d)\n")
    assert re.fullmatch(pattern(["a", "…"]), "a\n")
    assert not re.fullmatch(pattern(["a"]), "a\nb\n")
