"""Quantized transposed convolutions of the source, compared with their definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.runner.run import run
from convert.frontends.pytorch.torch_internals.packed_weights import exact_transposed_convolutions
from torch import nn

from convert.request.options import Options
from convert.request.source import Source

pytestmark = pytest.mark.filterwarnings("ignore")
SCALE, ZERO, STEP = 1 / 127, 3, 0.03


class Up(nn.Module):
    """A quantized layer between real numbers."""

    def __init__(self, dims: int, groups: int) -> None:
        super().__init__()
        kind: Any = (None, torch.ao.nn.quantized.ConvTranspose1d, torch.ao.nn.quantized.ConvTranspose2d)[dims]
        self.layer = kind(4, 6, 2, 2, groups=groups)
        torch.manual_seed(dims + groups)
        self.weight = torch.quantize_per_tensor(0.2 * torch.randn(4, 6 // groups, *[2] * dims), 0.01, 0, torch.qint8)
        self.bias = torch.randn(6)
        self.layer.set_weight_bias(self.weight, self.bias)
        self.layer.scale, self.layer.zero_point = STEP, 64
        self.dims, self.groups = dims, groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.quantize_per_tensor(x, SCALE, ZERO, torch.quint8)).dequantize()

    def defined(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's result by definition: the convolution of the real numbers, rounded."""
        function: Any = (None, nn.functional.conv_transpose1d, nn.functional.conv_transpose2d)[self.dims]
        real = torch.quantize_per_tensor(x, SCALE, ZERO, torch.quint8).dequantize()
        y = function(real, self.weight.dequantize(), self.bias, 2, groups=self.groups)
        return torch.quantize_per_tensor(y, STEP, 64, torch.quint8).dequantize()


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution(dims: int, groups: int, tmp_path: Path) -> None:
    """oneDNN is wrong by up to 21 steps here, on processors with VNNI; FBGEMM is, after loading from a file."""
    module, x = Up(dims, groups).eval(), torch.rand(2, 4, *[5] * dims)
    packed = module.layer._packed_params
    with exact_transposed_convolutions(module):
        direct = module(x)
    assert module.layer._packed_params is packed
    torch.jit.trace(module, (x,)).save(tmp_path / "up.ts")
    (loaded,) = run(Source("torchscript", tmp_path / "up.ts"), [{"x": x.numpy()}], "float32", Options())
    for got in (direct, torch.from_numpy(next(iter(loaded.values())))):
        torch.testing.assert_close(got, module.defined(x), rtol=0, atol=1.01 * STEP)
