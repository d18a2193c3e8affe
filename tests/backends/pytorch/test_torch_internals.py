"""Only one module of the backend names private parts of PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.import_graph import ROOT
from tests.support.wall_of_internals import own_names, private_uses

PACKAGE = ROOT / "backends/pytorch"
FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if file.name != "torch_internals.py"]
OWN = own_names(FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_other_module_names_a_private_part(file: Path) -> None:
    assert private_uses(file, OWN) == []


@pytest.mark.slow
def test_the_compiler_is_imported_with_the_writers() -> None:
    """PyTorch for CUDA imports triton, which crashes a process that has imported TensorFlow before."""
    code = "import sys, convert.backends.pytorch.writer.code; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
