"""Layers with padding "same" over dynamic sizes: the expressions of their sizes stay short, and are PyTorch's sizes."""

from __future__ import annotations

import math

import pytest
import sympy
import torch
from convert.frontends.pytorch.export.patches.pytorch.padded_sizes import short_quotient
from convert.frontends.pytorch.torch_internals.symbols import CeilToInt, FloorDiv, IntTrueDiv, Max
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.pytorch_tools import agrees, noise, read, shape_of

N = sympy.Symbol("n", integer=True, positive=True)

CEILINGS = {
    "ceil": lambda n, stride: CeilToInt(IntTrueDiv(n, sympy.Integer(stride))),
    "added": lambda n, stride: FloorDiv(n + stride - 1, sympy.Integer(stride)),
    "before": lambda n, stride: FloorDiv(n - 1, sympy.Integer(stride)) + 1,
}
"""Ways to write the number of outputs of a layer with padding "same"."""


@pytest.mark.parametrize("write", CEILINGS)
@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_a_chain_of_padded_layers_has_the_quotient_of_the_input(write: str, kernel: int, stride: int) -> None:
    size = N
    for depth in range(1, 5):
        padded = size + Max(0, (CEILINGS[write](size, stride) - 1) * stride + kernel - size)
        found = short_quotient(padded - kernel, sympy.Integer(stride))
        assert found is not None
        size = found + 1
        assert len(list(sympy.preorder_traversal(size))) < 12
        for n in (*range(1, 70), 224, 225, 511):
            want = n
            for _ in range(depth):
                pad = max((math.ceil(want / stride) - 1) * stride + kernel - want, 0)
                want = (want + pad - kernel) // stride + 1
            assert size.subs(N, n) == want, (n, size)


@pytest.mark.parametrize(
    ("size", "divisor"),
    [
        pytest.param(N + 3, 2, id="no largest one"),
        pytest.param(N + Max(0, 8 - N), 2, id="either may be larger"),
        pytest.param(N + Max(0, 3 * CeilToInt(IntTrueDiv(N, sympy.Integer(3))) - N), 2, id="another stride"),
        pytest.param(Max(0, N - 4) + Max(0, N - 5), 2, id="two of them"),
        pytest.param(N + Max(0, 2 - N), N, id="by a size"),
        pytest.param(N + Max(0, 2 * N), -2, id="by a negative number"),
    ],
)
def test_other_sizes_are_left_as_they_are(size: sympy.Expr, divisor: sympy.Expr | int) -> None:
    assert short_quotient(size, sympy.sympify(divisor)) is None


class Same(nn.Module):
    """Convolutions whose padding depends on the size of their input."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(2, 2, 3 + 2 * (i % 2), 2) for i in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            pads = [
                max((math.ceil(n / 2) - 1) * 2 + k - n, 0) for n, k in zip(x.shape[2:], layer.kernel_size, strict=True)
            ]
            x = layer(F.pad(x, (pads[1] // 2, pads[1] - pads[1] // 2, pads[0] // 2, pads[0] - pads[0] // 2)))
        return x


@pytest.mark.slow
def test_a_deep_network_with_dynamic_sizes_is_right() -> None:
    torch.manual_seed(0)
    module = Same(5).eval()
    # Without short expressions of sizes, four layers take 140 seconds, and each further layer several times as long.
    model = read(module, "x:float32[1,2,h,w]")
    assert len(str(shape_of(model.graph.outputs[0]))) < 60
    for sizes in ((1, 1), (2, 3), (33, 64), (65, 31), (96, 97)):
        agrees(module, model, noise(1, 2, *sizes))
