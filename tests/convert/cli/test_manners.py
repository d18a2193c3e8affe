"""Commands as new users type them, some in the syntax of other converters: exit code, first line and hint of each.

`manners.txt` is the table. `…` at the end of a line matches any text. Rows below `# long` need a framework.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from convert.cli import cli

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
QUICK, LONG = ((Path(__file__).with_name("manners.txt")).read_text("utf-8")).split("\n# long\n")


def rows(text: str) -> list[tuple[str, int, list[str]]]:
    """Return the command of each paragraph, its exit code, and the lines that it prints."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if lines:
            code, _, command = lines[0].partition(" $ ")
            found.append((command, int(code), lines[1:]))
    return found


MODELS = {
    "a.onnx": "mnist_cnn.onnx", "b.onnx": "mnist_cnn.onnx", "zoo/x.onnx": "mnist_cnn.onnx",
    "zoo/y.onnx": "mnist_cnn.onnx", "m.pt": "mnist_cnn.pt", "weights.pt": "mnist_cnn_state.pt",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the models that the commands name, in the folder where the commands run."""
    for name, fixture in MODELS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(FIXTURES / fixture, tmp_path / name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "zoo.toml").write_text('[[models]]\nsource = "a.onnx"\nto = "onnx"\n')
    (tmp_path / "net.py").write_text("def net(): pass\n")
    (tmp_path / "notes.txt").write_text("hello\n")
    monkeypatch.chdir(tmp_path)


def check(command: str, code: int, expected: list[str]) -> None:
    done = CliRunner().invoke(cli, shlex.split(command)[1:])
    told = [line for line in done.stderr.splitlines() if not line.startswith(("[", "note: ", "assuming "))]
    told = [*done.stdout.splitlines(), *told] if not code else told
    assert done.exit_code == code, done.output
    assert not code or not done.stdout
    assert "defect" not in done.output
    for line, found in zip(expected, told[: len(expected)], strict=True):
        assert found.startswith(line[:-1]) if line.endswith("…") else found == line


@pytest.mark.parametrize(("command", "code", "lines"), [pytest.param(*row, id=row[0]) for row in rows(QUICK)])
def test_a_command(command: str, code: int, lines: list[str]) -> None:
    check(command, code, lines)


@pytest.mark.long
@pytest.mark.parametrize(("command", "code", "lines"), [pytest.param(*row, id=row[0]) for row in rows(LONG)])
def test_a_command_that_takes_a_framework(command: str, code: int, lines: list[str]) -> None:
    check(command, code, lines)


def test_the_table_is_large_and_says_each_command_once() -> None:
    commands = [command for command, _, _ in (*rows(QUICK), *rows(LONG))]
    assert len(commands) == len(set(commands)) >= 127
