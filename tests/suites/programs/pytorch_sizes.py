"""PyTorch programs that compute with dynamic sizes: lengths, factors, windows."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.suites.programs.torch_program import f, program

LENGTHS = (f(2, 7), f(2, 50), f(2, 100), f(2, 8))
PICTURES = tuple(f(1, 2, n, m) for n, m in ((40, 90), (90, 45), (7, 64)))


def cut_by_ratio(x: Tensor) -> tuple[Tensor, ...]:
    """Cut by ratios: 100 · 0.29 is 28 and 100 · 0.57 is 56 in Python's floats, one more in float32."""
    n = x.shape[1]
    return x[:, : math.trunc(n * 0.57)] * 2, x.new_ones(math.floor(n * 0.29)) + x.sum(), x.new_ones(math.ceil(n / 2.5))


def bits_of_length(x: Tensor) -> tuple[Tensor, ...]:
    n = x.shape[1]
    return x.new_zeros(n & ~3) + x.sum(), x.new_zeros(n | 3), x.new_zeros(n >> 1, n << 1)


def rounded_lengths(x: Tensor) -> tuple[Tensor, ...]:
    n = x.shape[1]
    padded = F.pad(x, (0, math.ceil(n / 4) * 4 - n))
    return padded, x.new_zeros(math.floor(n / 2), round(n * 0.3)) + x.sum(), x * torch.sym_sqrt(n)


def normalized_lengths(x: Tensor) -> tuple[Tensor, ...]:
    return F.rms_norm(x, x.shape[-1:]), F.layer_norm(x, x.shape[-1:]), F.rms_norm(x, x.shape, eps=1e-6)


def resized_by_factors(x: Tensor) -> tuple[Tensor, ...]:
    """Return weighted sums of a ramp, which hide the rounding of positions; no position is half way between two
    elements.

    PyTorch rounds positions to float32 in float64 too, which a graph of unknown lengths in float64 does not.
    """
    ramp = torch.ones_like(x).cumsum(2) + 2 * torch.ones_like(x).cumsum(3)
    return (
        F.interpolate(x, scale_factor=0.7),
        F.interpolate(x, scale_factor=(1.3333, 3.0), mode="nearest-exact"),
        F.interpolate(ramp, scale_factor=0.7, mode="bilinear"),
        F.interpolate(ramp, scale_factor=(2.0, 1.3), mode="bicubic"),
        F.interpolate(x, scale_factor=2.0),
    )


def resized_to_sizes(x: Tensor) -> tuple[Tensor, ...]:
    """Resize to sizes: 3.5 · 2 is 7, but 2 / (4 / 14) is less in float32."""
    square = F.pad(x, (0, max(x.shape[2:]) - x.shape[3], 0, max(x.shape[2:]) - x.shape[2]))
    return F.interpolate(square, size=(4, 8)), F.interpolate(x, size=(14, 6), mode="nearest-exact")


def pooled_lengths(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.avg_pool1d(x[0], 3, stride=3, padding=1, ceil_mode=True),
        F.avg_pool2d(x, 2, stride=2, padding=1, ceil_mode=True),
        F.max_pool2d(x, 2, stride=2, padding=1, ceil_mode=True),
        F.adaptive_avg_pool2d(x, (1, None)),
        F.adaptive_avg_pool2d(x, (None, 1)),
    )


def patches(x: Tensor) -> tuple[Tensor, ...]:
    """Return windows of images of any size as columns, and add them up again."""
    columns = F.unfold(x, (3, 2), dilation=(1, 2), padding=(2, 1), stride=(2, 1))
    together = F.fold(columns, x.shape[2:], (3, 2), dilation=(1, 2), padding=(2, 1), stride=(2, 1))
    return columns, together, F.unfold(x[0], 2, stride=2)


def crossed(x: Tensor) -> Tensor:
    return torch.cross(x, x.flip(0) + 1)


SIZES = [
    *(program(fn.__name__, fn, *LENGTHS) for fn in (
        cut_by_ratio, bits_of_length, rounded_lengths, normalized_lengths,
    )),
    program("resized_by_factors", resized_by_factors, *PICTURES),
    program("resized_to_sizes", resized_to_sizes, *(f(1, 2, n, m) for n, m in ((10, 14), (28, 3), (7, 9)))),
    program("pooled_lengths", pooled_lengths, *(f(2, 3, n, m) for n, m in ((7, 5), (5, 8), (8, 13), (4, 4)))),
    program("patches", patches, *(f(2, 3, n, m) for n, m in ((7, 5), (5, 8), (8, 13), (2, 2)))),
    program("crossed", crossed, f(5, 3), f(7, 3), f(4, 3)),
]  # fmt: skip
