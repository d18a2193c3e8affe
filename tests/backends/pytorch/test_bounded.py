"""Files that would keep PyTorch's capture busy forever."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest
import torch

import convert
from convert import limits
from convert.errors import ResourceLimit
from tests.backends.pytorch.test_code_numbers import loaded_code

ENDS = {"pads": "Pad(x, m)", "a shape": "Reshape(x, m)", "repeats": "Tile(x, m)", "starts": "Slice(x, m, m)"}


@pytest.mark.parametrize("name", ENDS)
def test_more_sizes_than_any_tensor_has(name: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[8] x, int64[1] n) => (float[j] y) '
        f"<int64[1] k = {{5000}}> {{ m = Tile(n, k) y = {ENDS[name]} }}"
    )
    with pytest.raises(ResourceLimit, match=f"5,000 numbers .* more than the {2 * limits.TENSOR_DIMS}"):
        convert.convert(model, "torch", tmp_path / "m.pt2", verify=False)


STEPS = {
    "squares": "t = Mul(s, s)",
    "polynomials": "m = Mul(s, s) t = Add(m, s)",
    "quotients": "m = Mul(s, s) d = Add(m, s) t = Div(d, s)",
    "the larger of two": "m = Div(s, p) d = Sub(s, m) t = Max(d, m)",
}


@pytest.mark.parametrize("target", ["torch", "torch-code"])
@pytest.mark.parametrize("steps", [3, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STEPS)
def test_sizes_that_grow_without_end(name: str, steps: int, target: str, tmp_path: Path) -> None:
    """Beyond 64 bits the sizes wrap around, as in onnxruntime. PyTorch would reason about twelve quotients forever."""
    told = [re.sub(r"\b[mds]\b", rf"\g<0>{i}", STEPS[name]).replace("t =", f"s{i + 1} =") for i in range(steps)]
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[n, 4] x) => (int64[2] y) '
        f"<int64[1] p = {{3}}> {{ s0 = Shape(x) {' '.join(told)} y = Identity(s{steps}) }}"
    )
    path = tmp_path / ("m.pt2" if target == "torch" else "m.torch")
    convert.convert(model, target, path, verify=False)
    x = np.ones((3, 4), np.float32)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    module = torch.export.load(path).module() if target == "torch" else loaded_code(path)
    (found,) = torch.utils._pytree.tree_leaves(module(torch.from_numpy(x)))
    np.testing.assert_array_equal(found, want)
