"""README's operator of one's own, as it is written there, and the beginning of a rule for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[3] / "README.md"

MODEL = """
import cube, torch
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.ops.mine.cube(x) + 1
batch = torch.export.Dim("batch")
torch.export.save(torch.export.export(Net(), (torch.ones(2, 4),), dynamic_shapes=({0: batch},)), "net.pt2")
import sys
from convert.cli import cli
for words in WORDS:
    try:
        cli.main(words, prog_name="convert")
    except SystemExit as ended:
        print("exit", ended.code)
"""


def run(folder: Path, code: str, *words: list[str]) -> str:
    (folder / "cube.py").write_text(code)
    text = MODEL.replace("WORDS", repr(list(words)))
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def code() -> str:
    return README.read_text("utf-8").split("```python\n# cube.py\n")[1].split("```")[0]


def test_the_operator_of_the_readme_is_verified(tmp_path: Path) -> None:
    assert len([line for line in code().splitlines() if line.strip()]) <= 10
    told = run(tmp_path, code(), ["net.pt2", "net.onnx", "--rules", "cube.py"])
    assert "PASS" in told
    assert "exit 0" in told


@pytest.mark.long
def test_its_skeleton_runs_as_it_is(tmp_path: Path) -> None:
    operator = code().split("@torch_op")[0]
    told = run(tmp_path, operator, ["ops", "--skeleton", "mine::cube"])
    text = told[told.index("# my_rules.py") : told.index("exit 0")]
    assert "def cube(g, x):" in text
    (tmp_path / "my_rules.py").write_text(text)
    told = run(tmp_path, operator, ["net.pt2", "net.onnx", "--rules", "cube.py", "--rules", "my_rules.py"])
    assert "the rule for mine::cube is to be written: x=" in told
    assert "exit 4" in told
