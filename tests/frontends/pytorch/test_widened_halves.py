"""float16 and bfloat16 modules become float32 for targets that lack these dtypes; narrow formats start from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import convert
from convert.outcome.verdict import PASS


class Block(nn.Module):
    """A single-head attention and a gated layer, as in decoders, with a constant of its own dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 64), nn.RMSNorm(64)
        self.qkv, self.up, self.down = nn.Linear(64, 192), nn.Linear(64, 128), nn.Linear(128, 64)
        self.register_buffer("scale", torch.tensor(0.125))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(1, 2) * self.scale, -1) @ v
        return x + self.down(nn.functional.silu(self.up(x)))


def block() -> nn.Module:
    torch.manual_seed(0)
    return Block().eval().bfloat16()


def session_of(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


OPTIONS: list[dict[str, Any]] = [
    {},
    {"dtype": "float32"},
    {"dtype": "float16"},
    {"dtype": "bfloat16"},
    {"quantize": "int8"},
    {"quantize": "int4"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "".join(o.values()) or "none")
def test_what_is_written_loads_and_passes(tmp_path: Path, options: dict[str, Any]) -> None:
    module, path = block(), tmp_path / "m.onnx"
    report = convert.convert(module, "onnx", path, inputs="ids:int64[n,t]", **options)
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    (note,) = [note for note in report.notes if note.code == "wider-dtype"]
    assert ("--dtype bfloat16" in note) == (not options or options == {"dtype": "float32"})
    assert next(module.parameters()).dtype == torch.bfloat16, "the user's module stays as it was"
    ids = np.random.default_rng(0).integers(0, 50, (2, 7))
    (got,) = session_of(path).run(None, {"ids": ids})
    with torch.no_grad():
        want = block().float()(torch.from_numpy(ids)).numpy()
    bound = {"": 1e-5, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2, "int8": 0.1, "int4": 0.4}
    error = np.sqrt(np.mean((got.astype(np.float32) - want) ** 2) / np.mean(want**2))
    assert error < bound["".join(options.values())]


def test_a_file_with_weights(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 8))
    torch.save(layers.eval().bfloat16(), tmp_path / "m.pt")
    report = convert.convert(tmp_path / "m.pt", "onnx", tmp_path / "m.onnx", inputs="input:int64[n,t]")
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    session_of(tmp_path / "m.onnx")
    dtypes = {w.data_type for w in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert onnx.TensorProto.BFLOAT16 not in dtypes


def test_an_input_in_bfloat16_becomes_float32(tmp_path: Path) -> None:
    report = convert.convert(nn.Linear(64, 8).bfloat16(), "onnx", tmp_path / "m.onnx", inputs="input:bfloat16[n,64]")
    assert [str(tensor) for tensor in (*report.inputs, *report.outputs)] == [
        "input: float32[n,64]",
        "output: float32[n,8]",
    ]
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason


def test_other_formats_and_halves_keep_their_dtype(tmp_path: Path) -> None:
    halves = convert.convert(nn.Linear(64, 8).half(), "onnx", tmp_path / "m.onnx", inputs="input:float16[n,64]")
    assert str(halves.inputs[0]) == "input: float16[n,64]"
    wide = convert.convert(
        nn.Linear(64, 8).half(), "onnx", tmp_path / "w.onnx", inputs="input:float16[n,64]", dtype="float32"
    )
    assert str(wide.inputs[0]) == "input: float32[n,64]"
    kept = convert.convert(nn.Linear(64, 8).bfloat16(), "torch", tmp_path / "m.pt2", inputs="input:bfloat16[n,64]")
    assert str(kept.inputs[0]) == "input: bfloat16[n,64]"


class Layers(nn.Module):
    """A convolution, norms, an attention and a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.batch = nn.Conv1d(4, 6, 3, padding=1), nn.LayerNorm(6), nn.BatchNorm1d(6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.steps, self.out = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.batch(self.conv(x)).relu().transpose(1, 2))
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(self.steps(x)[0]).softmax(-1)


TARGETS = {
    "onnx": (".onnx", ("bfloat16",)),
    "tf": (".savedmodel", ()),
    "keras": (".keras", ()),
    "tflite": (".tflite", ("float16", "bfloat16")),
    "caffe2": (".caffe2", ("bfloat16",)),
    "torch": (".pt2", ()),
}
"""Suffixes, and the dtypes that become float32."""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", TARGETS)
def test_halves_convert_to_every_target(target: str, dtype: str, tmp_path: Path) -> None:
    suffix, lacking = TARGETS[target]
    torch.manual_seed(0)
    module = Layers().eval().to(getattr(torch, dtype))
    report = convert.convert(module, target, tmp_path / f"m{suffix}", inputs=f"x:{dtype}[2,4,7]")
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    assert [v.dtype for v in report.outputs] == ["float32" if dtype in lacking else dtype]
    notes = [note for note in report.notes if f"{dtype} of the source becomes float32" in note]
    assert len(notes) == (dtype in lacking)


def test_a_target_is_told_only_what_it_stores(tmp_path: Path) -> None:
    module = nn.Linear(3, 2).eval().bfloat16()
    report = convert.convert(module, "tflite", tmp_path / "m.tflite", inputs="input:bfloat16[2,3]")
    (note,) = [note for note in report.notes if note.code == "wider-dtype"]
    assert "--dtype float16 stores" in note
    assert "bfloat16 or" not in note
