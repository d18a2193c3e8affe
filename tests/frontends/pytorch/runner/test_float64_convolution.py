"""Depthwise convolutions of the reference run equal PyTorch's own, which convolves one channel after another."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from convert.frontends.pytorch.runner import float64_convolution
from convert.frontends.pytorch.runner.float64_ops import double_kernel
from convert.frontends.pytorch.runner.run import all_in_double


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("dims", "options"),
    [
        ((3, 12, 31), {"kernel_size": 4}),
        ((3, 12, 31), {"kernel_size": 5, "stride": 3, "padding": 2, "dilation": 2}),
        ((2, 12, 17, 9), {"kernel_size": 3, "padding": "same"}),
        ((2, 12, 17, 9), {"kernel_size": (2, 4), "stride": (1, 3), "padding": (1, 0), "dilation": (3, 1)}),
        ((1, 12, 7, 5, 6), {"kernel_size": (1, 3, 2), "padding": (0, 2, 1), "stride": 2}),
        ((2, 12, 150, 150), {"kernel_size": 3}),  # a channel is larger than a core's cache
    ],
)
@pytest.mark.parametrize("each", [1, 3])
def test_each_channel_is_convolved_with_its_own_kernels(
    dims: tuple[int, ...], options: dict[str, Any], each: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Which kernel ran is recorded, because on processors with AVX-512 the two may give equal bits.
    own = Mock(wraps=float64_convolution._depthwise)
    monkeypatch.setattr(float64_convolution, "_depthwise", own)
    kind = {3: torch.nn.Conv1d, 4: torch.nn.Conv2d, 5: torch.nn.Conv3d}[len(dims)]
    torch.manual_seed(0)
    layer: Any = kind(12, 12 * each, groups=12, bias=bias, **options).double()
    x = torch.randn(dims, dtype=torch.float64).transpose(-1, -2).contiguous().transpose(-1, -2)
    with torch.no_grad():
        expected = layer(x)
        assert own.call_count == 0
        with all_in_double():
            found = layer(x)
    assert own.call_count == 1
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("dims", "weight", "options"),
    [
        ((2, 6, 9, 9), (6, 3, 3, 3), {"groups": 2}),
        ((2, 6, 9, 9), (6, 1, 3, 3), {"groups": 6, "transposed": True}),
        ((0, 6, 9, 9), (6, 1, 3, 3), {"groups": 6}),
        ((2, 1, 9, 9), (4, 1, 3, 3), {"groups": 1}),
    ],
)
def test_other_convolutions_stay_with_pytorch(
    dims: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(float64_convolution, "_depthwise", None)
    x, w = torch.randn(dims, dtype=torch.float64), torch.randn(weight, dtype=torch.float64)
    rest = ([1, 1], [0, 0], [1, 1], options.get("transposed", False), [0, 0], options["groups"])
    operator = torch.ops.aten.convolution
    kernel = double_kernel(operator.default)
    assert kernel is not None
    assert torch.equal(kernel(x, w, None, *rest), operator(x, w, None, *rest))
    out = torch.empty(0, dtype=torch.float64)
    assert torch.equal(kernel(x, w, None, *rest, out=out), operator(x, w, None, *rest))


def test_a_kernel_that_is_larger_than_its_input_is_refused() -> None:
    with torch.no_grad(), all_in_double(), pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        torch.nn.functional.conv2d(torch.ones(1, 4, 2, 2), torch.ones(4, 1, 3, 3), groups=4)
