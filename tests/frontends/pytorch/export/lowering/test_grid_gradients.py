"""The gradients of grid_sample against PyTorch's kernels, alone and inside a module."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from convert.frontends.pytorch.export.lowering.grid_gradients import grid_sampler_backward
from torch import Tensor, nn

import convert
from tests.support.marks import slow_but

SETTINGS = list(itertools.product((2, 3), (0, 1), (0, 1, 2), (False, True)))


@pytest.mark.parametrize(("dims", "mode", "padding", "aligned"), SETTINGS)
def test_gradients_are_those_of_pytorchs_kernels(dims: int, mode: int, padding: int, aligned: bool) -> None:
    drawn = torch.Generator().manual_seed(dims)
    x = torch.randn(2, 3, *[4, 5, 6][:dims], dtype=torch.float64, generator=drawn)
    grid = torch.rand(2, *[5, 4, 3][:dims], dims, dtype=torch.float64, generator=drawn) * 5 - 2.5
    grad = torch.randn(2, 3, *[5, 4, 3][:dims], dtype=torch.float64, generator=drawn)
    kernel = getattr(torch.ops.aten, f"grid_sampler_{dims}d_backward")
    wanted = kernel(grad, x, grid, mode, padding, aligned, [True, True])
    for got, want in zip(grid_sampler_backward(grad, x, grid, mode, padding, aligned), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


class Warped(nn.Module):
    """Returns samples, and their gradients for the positions and for the image."""

    def __init__(self, padding: str) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, x: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            x, grid = (v.clone().requires_grad_() for v in (x, grid))
            y = F.grid_sample(x, grid, padding_mode=self.padding, align_corners=False)
            return y, *torch.autograd.grad(y.square().sum(), (x, grid))


@pytest.mark.parametrize("padding", slow_but(["zeros", "border", "reflection"], "border"))
def test_gradients_at_other_sizes_than_the_example(padding: str) -> None:
    module = Warped(padding).eval()
    inputs = ["x:float32[b,3,h,w]", "grid:float32[b,p,q,2]"]
    model = convert.to_onnx(module, inputs, verify=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for b, h, w, p, q in ((2, 5, 6, 4, 4), (1, 7, 4, 3, 9)):
        drawn = torch.Generator().manual_seed(h)
        x, grid = torch.randn(b, 3, h, w, generator=drawn), torch.rand(b, p, q, 2, generator=drawn) * 3 - 1.5
        want = [v.detach().numpy() for v in module(x, grid)]
        got = session.run(None, {"x": x.numpy(), "grid": grid.numpy()})
        for a, v in zip(got, want, strict=True):
            np.testing.assert_allclose(a, v, rtol=1e-4, atol=1e-4)
