"""Modules that compute gradients in forward, against PyTorch, for other batches than the example's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import convert
from tests.support.marks import slow_but

EYE = torch.eye(3)


class Forces(nn.Module):
    """Returns an energy and its gradient for the input."""

    def __init__(self, energy: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.energy = energy
        self.conv, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.ConvTranspose2d(3, 4, 3, 2)
        self.lstm, self.gru = nn.LSTM(3, 4, batch_first=True, bidirectional=True), nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        x = x.requires_grad_()
        energy = self.energy(self, x).sum()
        return energy, torch.autograd.grad(energy, x)[0]


def symmetric(x: Tensor) -> Tensor:
    return x @ x.mT + EYE


ROWS: dict[str, tuple[Callable[[Any, Tensor], Tensor], tuple[int, ...]]] = {
    "mean pool": (lambda m, x: F.avg_pool2d(m.conv(x), 3, 2, 1, ceil_mode=True) ** 2, (2, 3, 8, 8)),
    "mean line": (lambda m, x: F.avg_pool1d(x, 2) ** 2, (2, 3, 8)),
    "adaptive": (lambda m, x: F.adaptive_avg_pool2d(m.conv(x), 3) ** 2, (2, 3, 8, 8)),
    "max pool": (lambda m, x: F.max_pool2d(m.conv(x), 3, 2, 1) ** 2, (2, 3, 8, 8)),
    "max line": (lambda m, x: F.max_pool1d(x, 2) ** 2, (2, 3, 8)),
    "transposed": (lambda m, x: m.up(x) ** 2, (2, 3, 4, 4)),
    "lstm": (lambda m, x: m.lstm(x)[0] ** 2, (2, 4, 3)),
    "gru": (lambda m, x: m.gru(x)[0] ** 2, (2, 4, 3)),
    "attention": (lambda m, x: F.scaled_dot_product_attention(*(x[:, None],) * 3) ** 2, (2, 5, 3)),
    "inverse": (lambda m, x: torch.linalg.inv(symmetric(x)) ** 2, (2, 3, 3)),
    "determinant": (lambda m, x: torch.linalg.det(x) ** 2, (2, 3, 3)),
    "determinant of columns": (lambda m, x: torch.linalg.det(x.mT) ** 2, (2, 3, 3)),
    "logarithm": (lambda m, x: torch.linalg.slogdet(symmetric(x))[1], (2, 3, 3)),
    "solution": (lambda m, x: torch.linalg.solve(symmetric(x) + x, x) ** 2, (2, 3, 3)),
    "solution of columns": (lambda m, x: torch.linalg.solve((symmetric(x) + x).mT, x) ** 2, (2, 3, 3)),
    "root": (lambda m, x: torch.linalg.cholesky(symmetric(x)) ** 2, (2, 3, 3)),
}
QUICK = ("mean pool",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in ROWS])
def test_energy_and_forces(name: str) -> None:
    energy, shape = ROWS[name]
    module = Forces(energy).eval()
    model = convert.to_onnx(module, torch.randn(shape), verify=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch in (1, 2, 5):
        x = torch.randn(batch, *shape[1:])
        want = [v.detach().numpy() for v in module(x.clone())]
        for got, value in zip(session.run(None, {"x": x.numpy()}), want, strict=True):
            np.testing.assert_allclose(got, value, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(value).max())))


class Atoms(nn.Module):
    """Returns an energy of any number of atoms, and the forces on them."""

    def __init__(self, energy: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.energy = energy
        self.pair = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
        self.embed, self.mix = nn.Linear(3, 6), nn.Linear(12, 1)

    def forward(self, x: Tensor) -> Any:
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            energy = self.energy(self, x).sum()
            return energy, -torch.autograd.grad(energy, x)[0]


def gaps(x: Tensor) -> Tensor:
    return (x[:, None] - x[None]).square().sum(-1)


def both(m: Any, x: Tensor) -> Tensor:
    rows = m.embed(x).tanh()
    n = x.shape[0]
    pairs = torch.cat([rows[:, None].expand(n, n, 6), rows[None].expand(n, n, 6)], -1)
    return m.mix(pairs) * torch.exp(-gaps(x))[..., None]


ENERGIES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "layers on pairs": lambda m, x: m.pair(gaps(x)[..., None]),
    "layers on two atoms": both,
    "within a radius": lambda m, x: torch.where(gaps(x) < 1, m.pair(gaps(x)[..., None])[..., 0], 0.0),
    "distances": lambda m, x: torch.cdist(x, x.detach() + 1) ** 3,
    "attention": lambda m, x: torch.softmax(-gaps(x), -1) @ m.embed(x),
    "flattened pairs": lambda m, x: m.pair(gaps(x).reshape(-1, 1)),
    "one atom each": lambda m, x: m.embed(x).sin(),
}


@pytest.mark.parametrize("name", slow_but(ENERGIES, "within a radius"))
def test_forces_on_any_number_of_atoms(name: str) -> None:
    module = Atoms(ENERGIES[name]).eval()
    model = convert.to_onnx(module, "x:float32[atoms,3]", verify=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for atoms in (2, 5, 9):
        x = torch.randn(atoms, 3)
        want = [v.detach().numpy() for v in module(x)]
        for got, value in zip(session.run(None, {"x": x.numpy()}), want, strict=True):
            np.testing.assert_allclose(got, value, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(value).max())))
