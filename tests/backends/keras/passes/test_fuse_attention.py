"""Attention with its projections becomes Keras's MultiHeadAttention for any way in which the source splits and joins
heads.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import convert
from convert.request.options import parse_input

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras", reason="the Keras backend writes with Keras")
nn, attend = torch.nn, torch.nn.functional.scaled_dot_product_attention


class Joined(nn.Module):
    """One matrix for queries, keys and values, with heads split as in vision transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, steps, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(attend(q, k, v).transpose(1, 2).reshape(batch, steps, width))


class Causal(nn.Module):
    """Four matrices without biases; each step sees earlier steps only; values are narrower than keys, the result is
    wider.
    """

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, width, bias=False) for width in (32, 32, 12))
        self.o = nn.Linear(12, 20, bias=False)

    def forward(self, x):
        heads = [f(x).unflatten(-1, (4, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        return self.o(attend(*heads, is_causal=True).transpose(1, 2).flatten(2))


class Torch(nn.Module):
    """PyTorch's own layer, with three different inputs."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=batch_first, kdim=12, vdim=10)
        nn.init.normal_(self.attention.in_proj_bias)
        nn.init.normal_(self.attention.out_proj.bias)

    def forward(self, x, y, z):
        return self.attention(x, y, z, need_weights=False)[0]


class Read(Joined):
    """Another node reads the product too, so its layer must stay."""

    def forward(self, x):
        return super().forward(x), self.qkv(x).sum(-1)


class Scaled(Joined):
    """Another scale than Keras's layer has."""

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(attend(q, k, v, scale=0.5).transpose(1, 2).flatten(2))


class Shuffled(Joined):
    """Steps and heads are swapped in between, which the layer does not do."""

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(attend(q, k, v).reshape(x.shape))


class Windows(Joined):
    """Steps attend only within their window, and windows are split off after the projection."""

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.qkv(x).reshape(batch * 2, steps // 2, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(attend(q, k, v).transpose(1, 2).flatten(2)).reshape(batch, steps, width)


class Alike(nn.Module):
    """Only some projections have a bias, while the layer has biases for all or none."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias=b) for b in (True, False, True, True))

    def forward(self, x):
        heads = [f(x).unflatten(-1, (4, 4)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        return self.o(attend(*heads).transpose(1, 2).flatten(2))


class Thin(nn.Module):
    """With heads of size 1 and as many steps as heads, Keras would add the biases along the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(5, 5) for _ in range(4))

    def forward(self, x):
        heads = [f(x).unflatten(-1, (5, 1)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        return self.o(attend(*heads).transpose(1, 2).flatten(2))


LAYERS = {
    "joined": (Joined, ["x:float32[batch,5,24]"], 8),
    "causal": (Causal, ["x:float32[batch,steps,16]"], 4),
    "torch": (
        lambda: Torch(True),
        ["x:float32[batch,seq,16]", "y:float32[batch,mem,12]", "z:float32[batch,mem,10]"],
        8,
    ),
    "steps first": (
        lambda: Torch(False),
        ["x:float32[5,batch,16]", "y:float32[7,batch,12]", "z:float32[7,batch,10]"],
        8,
    ),
}
LOOSE = {
    "read": (Read, "x:float32[batch,5,24]"),
    "scaled": (Scaled, "x:float32[batch,5,24]"),
    "shuffled": (Shuffled, "x:float32[batch,5,24]"),
    "windows": (Windows, "x:float32[batch,6,24]"),
    "alike": (Alike, "x:float32[batch,5,16]"),
    "thin": (Thin, "x:float32[batch,5,5]"),
}


SIZES = {"batch": (2, 1), "steps": (6, 3), "seq": (5, 2), "mem": (3, 6)}


def converted(make, inputs: list[str], path: Path):
    """Return the Keras model, after checking that it gives the PyTorch model's results for two sizes of each dim."""
    torch.manual_seed(0)
    module = make().eval()
    convert.convert(module, "keras", path, inputs=inputs, verify=False)
    model = keras.saving.load_model(path)
    for place in range(2):
        shapes = [[n.size or SIZES[n.name][place] for n in parse_input(text).shape] for text in inputs]
        feeds = [torch.randn(*shape) for shape in shapes]
        with torch.no_grad():
            wanted = module(*feeds)
        found = model([x.numpy() for x in feeds] if len(feeds) > 1 else feeds[0].numpy())
        for got, want in zip(*(x if isinstance(x, (list, tuple)) else [x] for x in (found, wanted)), strict=True):
            np.testing.assert_allclose(np.asarray(got), want.numpy(), rtol=1e-4, atol=1e-5)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_it_is_one_layer_with_all_weights(name: str, tmp_path: Path) -> None:
    make, inputs, variables = LAYERS[name]
    model = converted(make, inputs, tmp_path / "m.keras")
    kinds = Counter(type(layer).__name__ for layer in model.layers)
    assert kinds["MultiHeadAttention"] == 1
    assert kinds["Dense"] == kinds["Embedding"] == 0
    assert len(model.trainable_variables) == variables
    assert sum(int(np.prod(w.shape)) for w in model.weights) == sum(p.numel() for p in make().parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOSE)
def test_what_the_layer_does_not_do_stays_in_pieces(name: str, tmp_path: Path) -> None:
    make, text = LOOSE[name]
    kinds = Counter(type(layer).__name__ for layer in converted(make, [text], tmp_path / "m.keras").layers)
    assert kinds["MultiHeadAttention"] == 0
    assert kinds["Dense"] >= 2
