"""Replaces functions of unknown sizes for which PyTorch computes numbers, so that torch.export would fix the example's
sizes.

Each replaces PyTorch's own function for symbolic sizes, and calls it otherwise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ....torch_internals.symbols import statically_known_true


def _symbolic(*sizes: Any) -> bool:
    return any(isinstance(n, torch.SymInt) for n in sizes)


# -- grids and products ------------------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Grid coordinates between -1 and 1 in all dims but the first two, times the matrices."""
    if not _symbolic(*size):
        return F.affine_grid(theta, list(size), align_corners)
    lengths = list(size)[2:]
    axes = [_grid_axis(n, bool(align_corners), theta) for n in lengths]
    shaped = [a.reshape([-1 if k == i else 1 for k in range(len(axes))]) for i, a in enumerate(axes)]
    base = torch.stack([a.expand(lengths) for a in (*reversed(shaped), theta.new_ones(()))], -1)
    return (base.reshape(1, -1, len(lengths) + 1) @ theta.mT).reshape(size[0], *lengths, len(lengths))


def _grid_axis(length: Any, align_corners: bool, like: Tensor) -> Tensor:
    """Return `length` positions in [-1, 1]; for a single one, 0."""
    place = torch.arange(length, device=like.device, dtype=like.dtype)
    if align_corners:
        return place * (2 / torch.sym_max(length - 1, 1)) - torch.sym_min(length - 1, 1)
    return (place * 2 + 1) / length - 1


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: every element of one tensor times the whole of the other."""
    if not _symbolic(*input.shape, *other.shape):
        return torch.kron(input, other)
    rank = max(input.dim(), other.dim())
    a, b = (t.reshape([1] * (rank - t.dim()) + list(t.shape)) for t in (input, other))
    lengths = [n * m for n, m in zip(a.shape, b.shape, strict=True)]
    wide = a.reshape([n for length in a.shape for n in (length, 1)])
    return (wide * b.reshape([n for length in b.shape for n in (1, length)])).reshape(lengths)


def multi_dot(tensors: Sequence[Tensor], **kwargs: Any) -> Tensor:
    """Product of matrices from left to right; the cheapest order would depend on sizes."""
    if not _symbolic(*(n for t in tensors for n in t.shape)):
        return torch.linalg.multi_dot(tensors, **kwargs)
    return functools.reduce(torch.matmul, tensors)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of every element, in descending order unless `increasing`."""
    count = x.shape[0] if N is None else N
    if not _symbolic(count):
        return torch.vander(x, N, increasing)
    dtype = x.dtype if x.is_floating_point() or x.is_complex() else torch.int64
    column = x.to(dtype).unsqueeze(1)
    powers = torch.cat([torch.ones_like(column), column.expand(-1, count - 1)], 1).cumprod(1)
    return powers if increasing else powers.flip(1)


def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, *, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Powers of a base with evenly spaced exponents."""
    if not _symbolic(steps) or isinstance(start, Tensor) or isinstance(end, Tensor):
        return torch.logspace(start, end, steps, base, dtype=dtype, **kwargs)
    place = torch.arange(steps, device=kwargs.get("device"), dtype=torch.float64)
    exponents = start + place * ((end - start) / torch.sym_max(steps - 1, 1))
    return (base**exponents).to(dtype or torch.get_default_dtype())


def fftfreq(n: Any, d: float = 1.0, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
    """Frequencies of a discrete Fourier transform, negative ones last."""
    if not _symbolic(n):
        return torch.fft.fftfreq(n, d, dtype=dtype, device=device, **kwargs)
    place = torch.arange(n, device=device)
    signed = torch.where(place < (n + 1) // 2, place, place - n)
    return signed.to(dtype or torch.get_default_dtype()) / (n * d)


def rfftfreq(n: Any, d: float = 1.0, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
    """Frequencies of the real transform, all non-negative."""
    if not _symbolic(n):
        return torch.fft.rfftfreq(n, d, dtype=dtype, device=device, **kwargs)
    return torch.arange(n // 2 + 1, device=device).to(dtype or torch.get_default_dtype()) / (n * d)


# -- pairs -------------------------------------------------------------------------------------------------------------


def triu_indices(row: int, col: int, offset: int = 0, **kwargs: Any) -> Tensor:
    """Indices on and above the diagonal of a square matrix, by row."""
    if not _symbolic(row, col) or not statically_known_true(row == col):
        return torch.triu_indices(row, col, offset, **kwargs)
    return _square_indices(row, lambda i, j: j - i >= offset, _upper_count(row, offset), kwargs)


def tril_indices(row: int, col: int, offset: int = 0, **kwargs: Any) -> Tensor:
    """Indices on and below the diagonal of a square matrix, by row."""
    if not _symbolic(row, col) or not statically_known_true(row == col):
        return torch.tril_indices(row, col, offset, **kwargs)
    return _square_indices(row, lambda i, j: j - i <= offset, _upper_count(row, -offset), kwargs)


def _upper_count(rows: Any, offset: int) -> Any:
    """Return how many elements of a square matrix are at least `offset` above the diagonal."""
    above, below = torch.sym_max(rows - offset, 0), torch.sym_max(rows + offset - 1, 0)
    return above * (above + 1) // 2 if offset >= 0 else rows * rows - below * (below + 1) // 2


def _square_indices(rows: Any, holds: Callable[[Tensor, Tensor], Tensor], count: Any, how: dict[str, Any]) -> Tensor:
    place = torch.arange(rows, device=how.get("device"))
    found = torch.nonzero_static(holds(place.unsqueeze(1), place), size=count)
    return found.mT.to(how.get("dtype") or torch.int64)


def pairs(input: Tensor, with_replacement: bool) -> Tensor:
    """Return all pairs of elements, ordered by the first."""
    rows = input.shape[0]
    return input[triu_indices(rows, rows, 0 if with_replacement else 1)].mT


# -- windows -----------------------------------------------------------------------------------------------------------


def _cosines(*factors: float) -> Callable[..., Tensor]:
    """Return a window that is a sum of cosines over a whole period."""

    def window(turn: Tensor) -> Tensor:
        parts = [factor * torch.cos(2 * math.pi * i * turn) for i, factor in enumerate(factors)]
        return torch.stack(parts).sum(0)

    return window


def _bartlett(turn: Tensor) -> Tensor:
    return 1 - (2 * turn - 1).abs()


def _of_length(function: Callable[..., Tensor], shape: Callable[..., Callable[[Tensor], Tensor]]) -> Any:
    """Return a window function that accepts symbolic lengths; `shape` builds the window from the other arguments."""

    def window(window_length: Any, periodic: bool = True, *rest: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        if not _symbolic(window_length):
            return function(window_length, periodic, *rest, dtype=dtype, **kwargs)
        known = {name: kwargs.pop(name) for name in ("alpha", "beta") if name in kwargs}
        steps = window_length if periodic else torch.sym_max(window_length - 1, 1)
        place = torch.arange(window_length, device=kwargs.get("device"), dtype=torch.float64)
        is_one = torch.full((), window_length, dtype=torch.int64) == 1  # in that case the element is 1
        return torch.where(is_one, 1.0, shape(*rest, **known)(place / steps)).to(dtype or torch.get_default_dtype())

    return window


def _hamming(alpha: float = 0.54, beta: float = 0.46) -> Callable[[Tensor], Tensor]:
    return _cosines(alpha, -beta)


def _kaiser(beta: float = 12.0) -> Callable[[Tensor], Tensor]:
    def window(turn: Tensor) -> Tensor:
        inside = torch.sqrt((1 - (2 * turn - 1) ** 2).clamp(min=0))
        return torch.special.i0(beta * inside) / torch.special.i0(turn.new_full((), beta))

    return window


REPLACED: dict[Any, Callable[..., Any]] = {
    F.affine_grid: affine_grid,
    torch.affine_grid_generator: affine_grid,
    torch.kron: kron,
    Tensor.kron: kron,
    torch.vander: vander,
    torch.logspace: logspace,
    torch.fft.fftfreq: fftfreq,
    torch.fft.rfftfreq: rfftfreq,
    torch.linalg.multi_dot: multi_dot,
    torch.chain_matmul: lambda *matrices: multi_dot(list(matrices)),
    torch.triu_indices: triu_indices,
    torch.tril_indices: tril_indices,
    torch.hann_window: _of_length(torch.hann_window, lambda: _cosines(0.5, -0.5)),
    torch.hamming_window: _of_length(torch.hamming_window, _hamming),
    torch.blackman_window: _of_length(torch.blackman_window, lambda: _cosines(0.42, -0.5, 0.08)),
    torch.bartlett_window: _of_length(torch.bartlett_window, lambda: _bartlett),
    torch.kaiser_window: _of_length(torch.kaiser_window, _kaiser),
}
