"""The README's custom operator, exactly as written there, and the beginning of a rule for it."""

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
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)


def code() -> str:
    return README.read_text("utf-8").split("```python\n# cube.py\n")[1].split("```")[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a program with the operator, and the file that defines it."""
    (tmp_path / "cube.py").write_text(code())
    made = run(tmp_path, "-c", MODEL)
    assert made.returncode == 0, made.stderr
    return tmp_path


@pytest.mark.slow
def test_the_operator_of_the_readme_is_verified(folder: Path) -> None:
    assert len([line for line in code().splitlines() if line.strip()]) <= 10
    done = run(folder, "-m", "convert", "net.pt2", "net.onnx", "--rules", "cube.py")
    assert done.returncode == 0, done.stderr
    assert "PASS" in done.stdout


@pytest.mark.long
def test_its_skeleton_runs_as_it_is(folder: Path) -> None:
    (folder / "cube.py").write_text(code().split("@torch_op")[0])
    done = run(folder, "-m", "convert", "ops", "--skeleton", "mine::cube", "--rules", "cube.py")
    assert "def cube(g, x):" in done.stdout
    (folder / "my_rules.py").write_text(done.stdout)
    done = run(folder, "-m", "convert", "net.pt2", "net.onnx", "--rules", "cube.py", "--rules", "my_rules.py")
    assert done.returncode == 4
    assert "the rule for mine::cube is to be written: x=" in done.stderr
