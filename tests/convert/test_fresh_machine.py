"""A program converts every kind of file on a machine where no library has created its folders yet.

A file is read in a thread that can write nowhere else, and PyTorch's compiler creates a folder during import. The
process of a test has imported it already, and passes the folder on in its environment. So these tests pass no
environment on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
WEIGHTS = ("mnist_cnn_state.pt", "mnist_cnn_checkpoint.pt", "mnist_cnn.safetensors")
MODELS = sorted(p.name for p in FIXTURES.glob("mnist_cnn*") if p.name not in WEIGHTS)
SCRIPT = """
import sys
from pathlib import Path
import convert
source, folder = Path(sys.argv[1]), Path(sys.argv[2])
for target in sys.argv[3:]:
    place = folder / target
    print(convert.convert(source, target, place).verdict.status)
print(convert.verify(source, place).verdict.status)
"""


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    places = {"HOME": folder / "home", "TMPDIR": folder / "temporary"}
    for place in places.values():
        place.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], **{name: str(place) for name, place in places.items()}}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_program_converts_and_verifies(name: str, tmp_path: Path) -> None:
    done = _run(tmp_path, "-c", SCRIPT, str(FIXTURES / name), str(tmp_path), "onnx")
    assert (done.stdout.split(), done.returncode) == (["PASS", "PASS"], 0), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("target", ["caffe2", "tflite"])
def test_a_program_reads_what_it_has_written(target: str, tmp_path: Path) -> None:
    script = f"""
import convert
convert.convert({str(FIXTURES / "mnist_cnn.onnx")!r}, {target!r}, "written", verify=False)
convert.convert("written", "onnx", "read.onnx", inputs="float32[1,1,28,28]", verify=False)
"""
    done = _run(tmp_path, "-c", script)
    assert not done.returncode, done.stderr
    assert (tmp_path / "read.onnx").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_without_code_are_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    done = _run(tmp_path, "-c", SCRIPT, str(FIXTURES / name), str(tmp_path), "onnx")
    assert "holds weights only, not the code that uses them" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_command_converts(name: str, tmp_path: Path) -> None:
    done = _run(tmp_path, "-m", "convert", str(FIXTURES / name), "--to", "onnx", "-o", "m.onnx")
    assert not done.returncode, done.stderr
    assert "\nPASS  error" in done.stdout
