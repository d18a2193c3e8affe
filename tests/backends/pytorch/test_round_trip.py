"""PyTorch → ONNX → PyTorch and Keras → PyTorch → Keras: each step is verified, and the last model is compared with the
first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import convert
from convert.batch.fork_server_pool import fork_server_socket
from convert.processes.fork_client import ADDRESS
from convert.processes.marks import MARK, new_mark

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
pytestmark = pytest.mark.long


class Recurrent(nn.Module):
    """Returns all outputs of two layers, and the last states."""

    def __init__(self, layer: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.body = layer(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)[0])


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.embed(words)).mean(1)


class Residual(nn.Module):
    def __init__(self, *, groups: int = 1) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6())
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=groups), nn.BatchNorm2d(8), nn.Hardswish())
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head((x + self.body(x)).mean((2, 3)))


def upsampler() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.PixelShuffle(2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.ConvTranspose2d(2, 3, 4, 2, 1),
        nn.Sigmoid(),
    )


PICTURE, SERIES, WORDS = "float32[batch,3,16,16]", "float32[batch,time,8]", "int64[batch,8]"
MODULES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)), SERIES),
    "residual": (Residual, PICTURE),
    "depthwise": (lambda: Residual(groups=8), PICTURE),
    "upsampler": (upsampler, PICTURE),
    "norms": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.InstanceNorm2d(8, affine=True)),
        PICTURE,
    ),
    "series": (
        lambda: nn.Sequential(nn.Conv1d(3, 8, 3, dilation=2), nn.PReLU(8), nn.MaxPool1d(2)),
        "float32[batch,3,16]",
    ),
    "volumes": (lambda: nn.Sequential(nn.Conv3d(1, 4, 3), nn.ELU(), nn.AvgPool3d(2)), "float32[batch,1,8,8,8]"),
    "LSTM": (lambda: Recurrent(nn.LSTM), SERIES),
    "GRU": (lambda: Recurrent(nn.GRU), SERIES),
    "transformer": (Words, WORDS),
}


@pytest.fixture(scope="module", autouse=True)
def _warm() -> Iterator[None]:
    """Models run in forks of a warm process."""
    kinds = ("onnx", "torch-module", "torch-export")
    with fork_server_socket(kinds, ("onnx", "torch", "keras")) as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ADDRESS, address)
        patch.setenv(MARK, new_mark())
        yield


def passed(report: Any) -> Any:
    assert report.verdict.status == "PASS", report.verdict.reason
    return report


def ends(tensors: Any) -> list[tuple[str, list[int | None]]]:
    """Return names and dims; names of dynamic dims are not kept."""
    return [(t.name, [d if isinstance(d, int) else None for d in t.shape]) for t in tensors]


@pytest.mark.parametrize("name", MODULES)
def test_from_pytorch_to_onnx_and_back(name: str, tmp_path: Path) -> None:
    make, inputs = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    there = passed(convert.convert(module, "onnx", tmp_path / "m.onnx", inputs=inputs))
    back = passed(convert.convert(tmp_path / "m.onnx", "torch", tmp_path / "m.pt2"))
    assert ends(back.inputs) == ends(there.inputs)
    passed(convert.verify(module, tmp_path / "m.pt2", inputs=inputs))


def networks() -> dict[str, Callable[[], Any]]:
    """Yield Keras models, channels last."""
    keras = pytest.importorskip("keras")
    L = keras.layers

    def functional(shape: tuple, *layers: Any, dtype: str = "float32") -> Any:
        x = start = keras.Input(shape, name="x", dtype=dtype)
        for layer in layers:
            x = layer(x)
        return keras.Model(start, x)

    def attention() -> Any:
        x = keras.Input((6, 8), name="x")
        y = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x))
        return keras.Model(x, L.Dense(3)(y))

    def branches() -> Any:
        x = keras.Input((8, 8, 3), name="x")
        parts = [L.Conv2D(4, n, padding="same", activation="relu")(x) for n in (1, 3)]
        return keras.Model(x, L.GlobalAveragePooling2D()(L.Concatenate()(parts)))

    return {
        "dense": lambda: functional((8,), L.Dense(16, "gelu"), L.Dense(3, "softmax")),
        "convolutions": lambda: functional(
            (8, 8, 3), L.Conv2D(8, 3, 2, "same"), L.BatchNormalization(), L.ReLU(6), L.Flatten(), L.Dense(3)
        ),
        "depthwise": lambda: functional(
            (8, 8, 3), L.DepthwiseConv2D(3, depth_multiplier=2), L.MaxPooling2D(), L.Conv2D(4, 1)
        ),
        "separable": lambda: functional(
            (8, 8, 3), L.SeparableConv2D(6, 3), L.Activation("silu"), L.AveragePooling2D(2, 1, "same")
        ),
        "transposed": lambda: functional(
            (8, 8, 3), L.Conv2DTranspose(4, 3, 2, "same"), L.UpSampling2D(2, interpolation="bilinear")
        ),
        "series": lambda: functional(
            (12, 3), L.Conv1D(4, 3, padding="causal", dilation_rate=2), L.GlobalMaxPooling1D()
        ),
        "LSTM": lambda: functional((None, 4), L.Bidirectional(L.LSTM(5, return_sequences=True)), L.Dense(2)),
        "GRU": lambda: functional((None, 4), L.GRU(5), L.Dense(2)),
        "attention": attention,
        "branches": branches,
    }


NETWORKS = ("dense", "convolutions", "depthwise", "separable", "transposed", "series", "LSTM", "GRU", "attention",
            "branches")  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_from_keras_to_pytorch_and_back(name: str, tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    model = networks()[name]()
    model.set_weights([w + np.random.default_rng(0).normal(size=w.shape, scale=0.1) for w in model.get_weights()])
    model.save(tmp_path / "m.keras")
    there = passed(convert.convert(tmp_path / "m.keras", "torch", tmp_path / "m.pt2"))
    back = passed(convert.convert(tmp_path / "m.pt2", "keras", tmp_path / "back.keras"))
    assert ends(back.inputs) == ends(there.inputs)
    passed(convert.verify(tmp_path / "m.keras", tmp_path / "back.keras"))


class Weighted(nn.Module):
    def forward(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.einsum("nd,nd,n->nd", x, x, v)


def test_the_order_of_products_does_not_depend_on_the_example(tmp_path: Path) -> None:
    specs = ["x:float32[n,3]", "v:float32[n]"]
    convert.convert(Weighted(), "torch", tmp_path / "m.pt2", inputs=specs, verify=False)
    call = torch.export.load(tmp_path / "m.pt2").module()
    for n in (1, 4, 9):
        x, v = torch.arange(3.0 * n).reshape(n, 3), torch.arange(1.0 * n)
        torch.testing.assert_close(call(x, v)["output"], x * x * v[:, None])
