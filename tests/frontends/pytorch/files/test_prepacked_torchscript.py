"""Archives that `optimize_for_mobile` prepacked for XNNPACK, written here by hand: builds of PyTorch without XNNPACK
neither write nor load them.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.files.prepacked_torchscript import is_prepacked, unpacked
from torch.nn import functional as F

import convert
from convert.errors import BadInput, UnsafeInput
from tests.support import hostile

CODE = """class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    return {result}
"""
MODULE = b"\x80\x02c__torch__\nNet\n)\x81}(X\x08\x00\x00\x00training\x89ub."
RANDOM = torch.Generator().manual_seed(0)
X = torch.randn(2, 4, 5, 6, generator=RANDOM)
BIAS = torch.randn(4, generator=RANDOM)
CONV = torch.randn(4, 2, 3, 2, generator=RANDOM)
LINEAR = torch.randn(4, 6, generator=RANDOM)


def _pickled(value: Any) -> bytes:
    """Return the opcodes with which PyTorch pickles a tensor, a number, a list of integers or None."""
    if isinstance(value, torch.Tensor):
        key = "0" if value is not BIAS else "1"
        storage = b"(" + _pickled("storage") + b"ctorch\nFloatStorage\n" + _pickled(key) + _pickled("cpu")
        sizes = [b"(" + b"".join(map(_pickled, numbers)) + b"t" for numbers in (value.shape, value.stride())]
        arguments = b"(" + storage + _pickled(value.numel()) + b"tQ" + _pickled(0) + b"".join(sizes)
        return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"\x89ccollections\nOrderedDict\n)RtR"
    if isinstance(value, list):
        return b"ctorch.jit._pickle\nbuild_intlist\n(](" + b"".join(map(_pickled, value)) + b"etR"
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value)) + value.encode()
    if value is None:
        return b"N"
    return b"J" + struct.pack("<i", value) if isinstance(value, int) else b"G" + struct.pack(">d", value)


def _object(kind: str, state: list[Any]) -> bytes:
    found = b"(" + b"".join(map(_pickled, state)) + b"t"
    return f"c__torch__.torch.classes.xnnpack\n{kind}OpContext\n".encode() + b"q\x00)\x81" + found + b"bq\x01"


def _write(path: Path, result: str, constants: bytes) -> Path:
    code = CODE.replace("{result}", result).encode()
    content = [("m/data.pkl", MODULE), ("m/code/__torch__.py", code), ("m/constants.pkl", b"\x80\x02(" + constants)]
    content += [(f"m/constants/{i}", t.numpy().tobytes()) for i, t in enumerate((_weight(result), BIAS))]
    return hostile.write_zip(path, [*content, ("m/version", b"3\n")])


def _weight(result: str) -> torch.Tensor:
    return LINEAR if "linear" in result else CONV


ROWS: dict[str, tuple[str, str, list[Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "conv": (
        "conv2d", "Conv2d", [CONV, BIAS, [2, 1], [1, 0], [1, 2], 2, None, None],
        lambda x: F.conv2d(x, CONV, BIAS, (2, 1), (1, 0), (1, 2), 2),
    ),
    "relu": (
        "conv2d", "Conv2d", [CONV, None, [1, 1], [0, 0], [1, 1], 2, 0.0, None],
        lambda x: F.conv2d(x, CONV, None, groups=2).relu(),
    ),
    "relu6": (
        "conv2d", "Conv2d", [CONV, BIAS, [1, 1], [0, 0], [1, 1], 2, 0, 6],
        lambda x: F.relu6(F.conv2d(x, CONV, BIAS, groups=2)),
    ),
    "transposed": (
        "conv2d_transpose", "TransposeConv2d", [CONV, BIAS, [2, 3], [1, 0], [1, 2], [1, 1], 2, -1.0, 1.0],
        lambda x: F.conv_transpose2d(x, CONV, BIAS, (2, 3), (1, 0), (1, 2), 2, (1, 1)).clamp(-1, 1),
    ),
    "linear": ("linear", "Linear", [LINEAR, BIAS, None, 0.5], lambda x: F.linear(x, LINEAR, BIAS).clamp(max=0.5)),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_layers(row: str, tmp_path: Path) -> None:
    operator, kind, state, expected = ROWS[row]
    path = _write(
        tmp_path / "m.ptl", f"ops.prepacked.{operator}_clamp_run(x, CONSTANTS.c0)", _object(kind, state) + b"t."
    )
    assert is_prepacked(path)
    (tmp_path / "new").mkdir()
    torch.testing.assert_close(torch.jit.load(unpacked(path, tmp_path / "new"))(X), expected(X))


def test_a_convolution_is_verified(tmp_path: Path) -> None:
    """Its weights are in a tuple, which the run in float64 has to widen."""
    operator, kind, state, _ = ROWS["relu6"]
    result = f"ops.prepacked.{operator}_clamp_run(x, CONSTANTS.c0)"
    path = _write(tmp_path / "m.ptl", result, _object(kind, state) + b"t.")
    verdict = convert.convert(path, "onnx", tmp_path / "m.onnx", inputs=["float32[2,4,5,6]"]).verdict
    assert verdict is not None
    assert verdict.status == "PASS"


def test_several_layers_of_one_class_are_verified(tmp_path: Path) -> None:
    """The second layer takes its class from the pickle's memo. One weight is packed by the code."""
    operator, kind, state, expected = ROWS["linear"]
    first = _object(kind, state)
    second = b"h\x00" + first.partition(b"q\x00")[2]
    inner = f"ops.prepacked.{operator}_clamp_run(x, CONSTANTS.c0)"
    packed = "ops.prepacked.linear_clamp_prepack(torch.ones([6, 4]))"
    between = f"ops.prepacked.{operator}_clamp_run({inner}, {packed})"
    result = f"ops.prepacked.{operator}_clamp_run({between}, CONSTANTS.c1)"
    path = _write(tmp_path / "m.ptl", result, first + second + b"t.")
    (tmp_path / "new").mkdir()
    module = torch.jit.load(unpacked(path, tmp_path / "new"))
    torch.testing.assert_close(module(X), expected(F.linear(expected(X), torch.ones(6, 4))))
    verdict = convert.convert(path, "onnx", tmp_path / "m.onnx", inputs=["float32[2,4,5,6]"]).verdict
    assert verdict is not None
    assert verdict.status == "PASS"


@pytest.mark.parametrize(
    ("result", "constants", "kind", "words"),
    [
        pytest.param("ops.prepacked.other_run(x)", b"t.", UnsafeInput, "takes operators", id="operator"),
        pytest.param(
            "ops.prepacked.linear_clamp_run(torch.save(x), CONSTANTS.c0)",
            _object("Linear", ROWS["linear"][2]) + b"t.",
            UnsafeInput,
            "save",
            id="code",
        ),
        pytest.param(
            "ops.prepacked.linear_clamp_run(x, CONSTANTS.c0)",
            b"c__torch__.torch.classes.xnnpack\nLinearOpContext\nNt.",
            BadInput,
            "without a state",
            id="no-state",
        ),
        *(
            pytest.param(
                "ops.prepacked.conv2d_clamp_run(x, CONSTANTS.c0)",
                _object("Conv2d", [*ROWS["conv"][2][:place], numbers, *ROWS["conv"][2][place + 1 :]]) + b"t.",
                BadInput,
                words,
                id=f"{words}{numbers}",
            )
            for place, words in ((2, "the stride "), (3, "the padding "), (4, "the dilation "))
            for numbers in ([-1, -1], [], [1] * 5)
        ),
        pytest.param(
            "ops.prepacked.linear_clamp_run(x, CONSTANTS.c0)",
            _object("Linear", ["text", None, None, None]) + b"t.",
            BadInput,
            r"^\S*/test_refused_\w*/m.ptl could not be read",
            id="a text",
        ),
        pytest.param(
            "ops.prepacked.linear_clamp_run(x, CONSTANTS.c0)", b"t\xff", BadInput, "truncated or corrupt", id="damaged"
        ),
    ],
)
def test_refused(result: str, constants: bytes, kind: type[Exception], words: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "m.ptl", result, constants)
    with pytest.raises(kind, match=words):
        convert.convert(path, "onnx", tmp_path / "m.onnx", inputs=["float32[2,4,5,6]"], verify=False)
    assert not (tmp_path / "m.onnx").exists()


def test_code_in_the_place_of_the_new_functions_is_refused(tmp_path: Path) -> None:
    operator, kind, state, _ = ROWS["linear"]
    result = f"ops.prepacked.{operator}_clamp_run(x, CONSTANTS.c0)"
    path = _write(tmp_path / "m.ptl", result, _object(kind, state) + b"t.")
    (tmp_path / "new").mkdir()
    with zipfile.ZipFile(path) as archive:
        content = [(name, archive.read(name)) for name in archive.namelist()]
    own = ("m/code/__torch__/prepacked_layers.py", b"def linear_run(x: Tensor) -> Tensor:\n  return x\n")
    with pytest.raises(BadInput, match="code of its own"):
        unpacked(hostile.write_zip(path, [*content, own]), tmp_path / "new")
