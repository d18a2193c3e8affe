"""TorchScript of PyTorch 1.0 to 1.2: archives with `model.json`, written here by hand, and files of PyTorch 1.0.1."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.files.old_torchscript import STORAGES, is_old, rewritten

import convert
from convert.errors import BadInput, ConvertError, UnsafeInput
from convert.files.sniff import sniff
from tests.support import hostile

CODE = """op_version_set = 0
def forward(self,
    x: Tensor) -> Tensor:
  _0 = torch.mul(x, getattr(self, "0").weight)
  return torch.add(_0, CONSTANTS.c1, alpha=1)
"""
NUMBERS = np.arange(8, dtype=np.float32)


def _model(**changes: Any) -> dict[str, Any]:
    """Return the content of model.json: one module with a weight in it, which is the middle of a longer storage."""
    weight = {"dims": ["2"], "strides": ["2"], "offset": "3", "requiresGrad": True, "dataType": "FLOAT",
              "data": {"key": "tensors/0"}, "device": "cpu"}  # fmt: skip
    inner = {"name": "0", "parameters": [{"isBuffer": True, "tensorId": "0", "name": "weight"}], "optimize": True}
    main = {"name": "m", "submodules": [inner], "torchscriptArena": {"key": "code/m.py"}, "optimize": True}
    scalar = {"offset": "0", "dataType": "FLOAT", "data": {"key": "tensors/1"}, "device": "cpu"}
    return {"protoVersion": "1", "mainModule": main, "producerName": "pytorch", "tensors": [weight, scalar]} | changes


def _write(path: Path, model: dict[str, Any], code: str = CODE) -> Path:
    content = [("m/version", b"1\n"), ("m/model.json", json.dumps(model).encode()), ("m/code/m.py", code.encode()),
               ("m/tensors/0", NUMBERS.tobytes()), ("m/tensors/1", np.float32(5).tobytes())]  # fmt: skip
    return hostile.write_zip(path, content)


def test_tensors_constants_and_code(tmp_path: Path) -> None:
    path = _write(tmp_path / "old.pt", _model())
    assert sniff(path) == "torchscript"
    assert is_old(path)
    (tmp_path / "new").mkdir()
    module = torch.jit.load(rewritten(path, tmp_path / "new"))
    assert [name for name, _ in module.named_buffers()] == ["0.weight"]
    x = torch.tensor([10.0, 100.0])
    torch.testing.assert_close(module(x), x * torch.tensor([3.0, 5.0]) + 5)


@pytest.mark.parametrize("kind", STORAGES)
def test_dtypes(kind: str, tmp_path: Path) -> None:
    model = _model()
    model["tensors"][0] |= {
        "dataType": kind,
        "dims": ["1"],
        "offset": "0",
        "requiresGrad": False,
    }  # the first bytes of 0.0 and 1.0
    (tmp_path / "new").mkdir()
    module = torch.jit.load(rewritten(_write(tmp_path / "old.pt", model), tmp_path / "new"))
    (weight,) = module.buffers()
    assert weight.dtype.itemsize == STORAGES[kind][1]
    assert weight.numpy().tobytes() == NUMBERS.tobytes()[: weight.dtype.itemsize]


def _changed(**changes: Any) -> dict[str, Any]:
    model = _model()
    model["tensors"][0] |= changes
    return model


def _named(name: str) -> dict[str, Any]:
    model = _model()
    model["mainModule"]["submodules"][0]["name"] = name
    return model


@pytest.mark.parametrize(
    ("model", "code", "kind", "words"),
    [
        pytest.param(_model(), CODE.replace("torch.mul(x", "ops.aten.save(x"), UnsafeInput, "save", id="operator"),
        pytest.param(_changed(dims=["9"]), CODE, BadInput, "element 19 of a storage of 8", id="beyond-storage"),
        pytest.param(_changed(dataType="COMPLEX64"), CODE, BadInput, "COMPLEX64", id="dtype"),
        pytest.param(_changed(data={"key": "tensors/7"}), CODE, BadInput, "tensors/7", id="no-storage"),
        pytest.param(_named('0"]; x'), CODE, BadInput, "called", id="name"),
        pytest.param({"tensors": []}, CODE, BadInput, "mainModule", id="no-module"),
        pytest.param(_model(tensors=[]), CODE, BadInput, "damaged", id="no-tensors"),
        pytest.param(_model(mainModule={"attributes": [{}]}), CODE, BadInput, "attributes", id="attributes"),
    ],
)
def test_refused(model: dict[str, Any], code: str, kind: type[ConvertError], words: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "old.pt", model, code)
    with pytest.raises(kind, match=words):
        convert.convert(path, "onnx", tmp_path / "new.onnx", inputs=["float32[2]"], verify=False)
    assert not (tmp_path / "new.onnx").exists()


def test_a_file_of_pytorch_1_0_is_verified(tmp_path: Path, fixtures: Path) -> None:
    with zipfile.ZipFile(fixtures / "museum" / "pytorch-1.0.1.zip") as archive:
        archive.extract("traced_plain.pt", tmp_path)
    done = convert.convert(tmp_path / "traced_plain.pt", "onnx", tmp_path / "m.onnx", inputs=["float32[2,3,9,8]"])
    assert done.verdict is not None
    assert done.verdict.status == "PASS"
