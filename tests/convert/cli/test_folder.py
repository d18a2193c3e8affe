"""Code in the current directory is not run, however the command line is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from convert.processes.interpreter import module_command

MODULES = (*sorted(sys.stdlib_module_names - {"__main__"}), "click", "numpy", "onnx", "onnx_ir", "torch", "tensorflow")


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [("-m", "convert"), ("-P", "-m", "convert")])
def test_modules_of_this_folder_are_not_imported(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()")
    done = run(*words, "inspect", "nothing.onnx", folder=tmp_path)
    assert done.returncode == 5, done.stderr
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("place", ["convert/tensorflow/core/kernels", "convert.runfiles/org_tensorflow"])
def test_a_folder_from_which_tensorflow_would_load_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True)
    done = run("-P", "-m", "convert", "formats", folder=tmp_path)
    assert done.returncode == 5
    assert f"TensorFlow would load libraries from ./{place}" in done.stderr
    assert "Traceback" not in done.stderr


def test_tensorflow_takes_a_script_for_the_place_of_its_libraries() -> None:
    """TensorFlow uses the first word that is no option, so it must not be a path relative to the user's folder."""
    program, *words = module_command("convert.processes.child", "place")
    script = next(word for word in words if not word.startswith("-"))
    assert Path(script).is_absolute()
    assert Path(script).is_file()
    assert run(*words[:-2], "platform", folder=Path("/")).stdout
    assert program == sys.executable
