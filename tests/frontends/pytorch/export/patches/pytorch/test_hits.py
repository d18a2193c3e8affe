"""Loops over `nonzero()`, for every combination of positions with a hit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import convert
from convert.errors import Unsupported
from tests.suites.programs.torch_program import Called
from tests.support.marks import slow_but

COUNT = 4


class Experts(nn.Module):
    """As in transformers today: weights in one tensor, and a position that is no expert."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, COUNT)
        self.up, self.down = nn.Parameter(torch.randn(COUNT, 12, 8)), nn.Parameter(torch.randn(COUNT, 8, 6))

    def forward(self, x: Tensor) -> Any:
        b, s, d = x.shape
        x = x.reshape(-1, d)
        weights, which = self.gate(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        with torch.no_grad():
            mask = F.one_hot(which, num_classes=COUNT + 1).permute(2, 1, 0)
            hits = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for place in hits:
            place = place[0]
            if place == COUNT:
                continue
            position, token = torch.where(mask[place])
            gate, up = F.linear(x[token], self.up[place]).chunk(2, dim=-1)
            y = F.linear(F.silu(gate) * up, self.down[place]) * weights[token, position, None]
            out.index_add_(0, token, y.to(out.dtype))
        return out.reshape(b, s, d)


class Layers(nn.Module):
    """As in earlier transformers: a list of modules that a tensor indexes."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, COUNT)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8)) for _ in range(COUNT))

    def hits(self, mask: Tensor) -> Any:
        return torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()

    def forward(self, x: Tensor) -> Any:
        b, s, d = x.shape
        x = x.view(-1, d)
        weights, which = self.gate(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        mask = F.one_hot(which, num_classes=COUNT).permute(2, 1, 0)
        for place in self.hits(mask):
            expert = self.experts[place]
            position, token = torch.where(mask[place].view(2, -1))
            y = expert(x[None, token].reshape(-1, d)) * weights[token, position, None]
            out.index_add_(0, token, y)
        return out.reshape(b, s, d)


class Named(nn.Module):
    """As in Switch Transformers: experts by name, and a router that is cast to the dtype that it has already."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, COUNT)
        self.experts = nn.ModuleDict({f"expert_{k}": nn.Linear(8, 8) for k in range(COUNT)})

    def forward(self, x: Tensor) -> Any:
        self.gate = self.gate.to(x.dtype)
        which = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for place in (F.one_hot(which, COUNT).sum((0, 1)) > 0).nonzero():
            rows = torch.where(which == place)
            out[rows] = self.experts[f"expert_{place[0]}"](x[rows])
        return out


class Numbers(Layers):
    def hits(self, mask: Tensor) -> Any:
        return mask.sum((1, 2)).nonzero().squeeze(-1).tolist()


class Places(Layers):
    def hits(self, mask: Tensor) -> Any:
        return torch.where(mask.sum((1, 2)) > 0)[0]


@pytest.mark.parametrize("make", slow_but([Experts, Layers, Named, Numbers, Places], Named))
def test_experts_in_use(make: type[nn.Module]) -> None:
    """There is no If, because unused experts have no tokens and add nothing."""
    torch.manual_seed(0)
    module = make().eval()
    model = convert.to_onnx(module, torch.randn(2, 5, 8), verify=False)
    assert {n.op_type for n in model.graph.node}.isdisjoint({"If", "Loop"})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for x in (*torch.randn(8, 1, 1, 8).repeat(1, 1, 5, 1), torch.randn(3, 5, 8)):
        with torch.no_grad():
            want = module(x).numpy()
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], want, rtol=1e-4, atol=1e-5)


def adds(x: Tensor) -> Tensor:
    y = x
    for (place,) in (x.sum(0) > 0).nonzero():
        y = y.index_add(1, place[None], x[:, :1] + 1)
    return y


def scales(x: Tensor) -> Tensor:
    y = x
    for i, j in (x > 0).nonzero():
        y = y * (2.0 + i) - j
    return y


@pytest.mark.parametrize(("function", "shape"), [pytest.param(adds, (1, 3), marks=pytest.mark.slow), (scales, (3, 1))])
def test_steps_that_change_something_are_decisions(function: Any, shape: tuple[int, ...]) -> None:
    model = convert.to_onnx(Called(function), [f"x:float32[{shape[0]},{shape[1]}]"], verify=False)
    assert "If" in {n.op_type for n in model.graph.node}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for signs in itertools.product((1.0, -1.0), repeat=3):
        x = torch.rand(3).mul(torch.tensor(signs)).view(shape)
        got = session.run(None, {"x": x.numpy()})[0]
        np.testing.assert_allclose(got, function(x).numpy(), rtol=1e-5, atol=1e-6)


def counts(x: Tensor) -> Any:
    n = 0
    for _ in (x.sum(0) > 0).nonzero():
        n += 1
    return x * n


@pytest.mark.slow
def test_a_number_of_hits_that_python_keeps_is_refused() -> None:
    with pytest.raises(Unsupported, match="for _ in"):
        convert.to_onnx(Called(counts), torch.ones(2, COUNT), verify=False)
