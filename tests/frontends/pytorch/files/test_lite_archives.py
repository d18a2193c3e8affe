"""TorchScript archives for mobile as PyTorch 1.8 to 1.11 wrote them: their constants are named `0.storage`."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest
import torch

import convert
from convert.batch.plan import SUFFIXES
from convert.errors import UnsafeInput


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.line(x) * torch.tensor([1.0, 2.0, 3.0, 4.0])


def _archive(path: Path, end: str) -> Path:
    """Save a traced module whose constants have `end` after their numbers, in the pickle and in the archive."""
    torch.jit.save(torch.jit.trace(Net().eval(), torch.ones(2, 3)), plain := path.with_suffix(".plain"))
    key = pickle.dumps("0", 2)[2:8]
    longer = pickle.dumps(f"0{end}", 2)[2 : 8 + len(end)]
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("/constants.pkl"):
                assert key in content
                content = content.replace(key, longer)
            target.writestr(name + end if "/constants/" in name else name, content)
    return path


@pytest.mark.slow
def test_constants_of_the_lite_interpreter(tmp_path: Path) -> None:
    path = _archive(tmp_path / "m.ptl", ".storage")
    torch.jit.load(str(path))(torch.ones(2, 3))
    report = convert.convert(path, "onnx", tmp_path / "m.onnx", inputs="x:float32[batch,3]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


@pytest.mark.parametrize("end", [".storage", ".other"])
def test_names_of_constants(tmp_path: Path, end: str) -> None:
    path = _archive(tmp_path / "m.ptl", end)
    if end == ".storage":
        assert convert.inspect(path).kind == "torchscript"
    else:
        with pytest.raises(UnsafeInput, match="does not write"):
            convert.inspect(path)


def test_a_batch_takes_these_files_by_their_name() -> None:
    assert ".ptl" in SUFFIXES
