"""Pools along dynamic dims, which torch.export would fix to the example's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ....torch_internals import is_fake
from ....torch_internals.symbols import statically_known_true
from ..kernels import KEYS, with_kernels


def infer_line_pools() -> AbstractContextManager[None]:
    """Infer the shape of `max_pool1d` as that of the same pool in two dims.

    Its own kernel computes the length as a number, so that torch.export fixes it to the example's.
    """
    return with_kernels({torch.ops.aten.max_pool1d.default: dict.fromkeys(KEYS, _max_pool1d)})


def _max_pool1d(
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Tensor:
    window = [1, *kernel_size], [1, *(stride or kernel_size)], [0, *padding], [1, *dilation]
    y = F.max_pool2d(input.unsqueeze(-2), *window, ceil_mode)
    return input.new_empty((*y.shape[:-2], y.shape[-1])) if is_fake(input) else y.squeeze(-2)


def over_whole_dims(pool: Callable[..., Any], rank: int, *, is_maximum: bool) -> Callable[..., Any]:
    """Return `pool` over `rank` dims in which a window of a dim's whole length is a reduction of that dim.

    `F.max_pool1d(x, x.shape[2])` is a common way to write a global pool, and the operator's own windows are numbers.
    """

    def pooled(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, *rest: Any, **named: Any) -> Any:
        kernel = _each(kernel_size, rank)
        whole = [i for i, k in enumerate(kernel) if isinstance(k, torch.SymInt)]
        pads = _each(padding, rank)
        dilations = _each(named.get("dilation", rest[0] if rest else 1), rank) if is_maximum else [1] * rank
        # Indices of maxima, or the divisor of sums.
        other = named.get("return_indices" if is_maximum else "divisor_override", rest[2] if len(rest) > 2 else None)
        plain = not other and (is_maximum or input.is_floating_point())
        plain = plain and all(pads[i] == 0 and dilations[i] == 1 for i in whole)
        if not whole or not plain or not all(statically_known_true(kernel[i] == input.shape[i - rank]) for i in whole):
            return pool(input, kernel_size, stride, padding, *rest, **named)
        axes = [i - rank for i in whole]
        reduced = input.amax(axes, keepdim=True) if is_maximum else input.mean(axes, keepdim=True)
        if len(whole) == rank:
            return reduced
        steps = _each(stride, rank) if stride not in (None, [], ()) else kernel
        left, strides = ([1 if i in whole else n for i, n in enumerate(numbers)] for numbers in (kernel, steps))
        return pool(reduced, left, strides, padding, *rest, **named)

    return pooled


def _each(numbers: Any, rank: int) -> list[Any]:
    """Return one number per dim; PyTorch accepts one number for all."""
    found = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return found * rank if len(found) == 1 else found


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Adaptive pool to a length computed from sizes, as a two-dim pool, because the one-dim pool needs a number."""
    (length,) = output_size if isinstance(output_size, (list, tuple)) else (output_size,)
    if not isinstance(length, torch.SymInt):
        return torch.adaptive_avg_pool1d(input, output_size)
    size: Any = [1, length]
    return F.adaptive_avg_pool2d(input.unsqueeze(-2), size).squeeze(-2)


REPLACED: dict[Any, Callable[..., Any]] = {
    pool: over_whole_dims(pool, rank, is_maximum=is_maximum)
    for is_maximum, pools in (
        (True, (F.max_pool1d, F.max_pool2d, F.max_pool3d)),
        (True, (torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)),
        (False, (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)),
    )
    for rank, pool in enumerate(pools, 1)
} | {F.adaptive_avg_pool1d: adaptive_avg_pool1d, torch.adaptive_avg_pool1d: adaptive_avg_pool1d}
"""PyTorch's pools whose windows may be a whole dim, and lengths that are computed."""
