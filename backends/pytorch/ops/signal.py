"""Fourier transforms and related operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..rules import host, onnx_op
from ..torch_internals import check


def to_complex(x: Any) -> Any:
    """Return complex numbers for a tensor whose last dim holds real and imaginary parts, or real parts only."""
    kind = torch.complex128 if x.dtype == torch.float64 or x.shape[-1] == 1 else torch.complex64
    real = torch.float64 if kind == torch.complex128 else torch.float32
    if x.shape[-1] == 1:
        return x[..., 0].to(real).to(kind)
    return torch.view_as_complex(x.to(real).contiguous())


@onnx_op("DFT")
@host("dft_length", "axis")
def dft(t, x, dft_length=None, axis=None, *, inverse, onesided):
    length = None if dft_length is None else t.number(dft_length)
    if length is not None and not isinstance(length, int):
        check(length >= 1)
    place = np.array(-2) if axis is None else t.static(axis)
    y = to_complex(x)
    if place is None:
        return _dft_at_run_time(y, t.tensor(axis).reshape(()), length, inverse, onesided).to(x.dtype)
    place = int(place.ravel()[0]) % x.dim()
    if inverse and onesided:
        return torch.fft.irfft(y, length, place)[..., None].to(x.dtype)
    y = torch.fft.ifft(y, length, place) if inverse else torch.fft.fft(y, length, place)
    if onesided:
        y = y.narrow(place, 0, y.shape[place] // 2 + 1)
    return torch.view_as_real(y.resolve_conj()).to(x.dtype)


def _dft_at_run_time(x: Any, axis: Any, length: Any, inverse: Any, onesided: Any) -> Any:
    """Transform along an axis known at run time only: compute the transforms along each axis and select one."""
    rank = x.dim()  # without the dim of real and imaginary parts
    own = torch.arange(rank) == torch.where(axis < 0, axis + rank + 1, axis)
    sizes: list[Any] = [*x.shape]
    for i in range(rank if length is not None or (inverse and onesided) else 0):
        n = sizes[i]
        whole = length if length is not None else 2 * (n - 1) if inverse and onesided else n
        sizes[i] = _size(torch.where(own[i], whole, n))
        places = torch.arange(sizes[i])
        # A one-sided spectrum is completed by its mirror image.
        mirrored = (
            own[i] & (places > sizes[i] // 2) if inverse and onesided else torch.zeros_like(places).to(torch.bool)
        )
        source = torch.where(mirrored, sizes[i] - places, places)
        column = [-1 if k == i else 1 for k in range(rank)]
        x = torch.index_select(x, i, torch.clamp(source, max=n - 1))
        x = torch.where((source < n).reshape(column), x, torch.zeros_like(x))
        x = torch.where(mirrored.reshape(column), torch.conj_physical(x), x)
    transform = torch.fft.ifft if inverse else torch.fft.fft
    # As rows: for more dims with run-time sizes, PyTorch would have to know the order of their strides.
    turned = [torch.movedim(x, i, -1) for i in range(rank)]
    found = [transform(y.reshape(math.prod(y.shape[:-1]), y.shape[-1])).reshape(y.shape) for y in turned]
    y = torch.stack([torch.movedim(y, -1, i) for i, y in enumerate(found)])
    y = torch.index_select(y, 0, torch.argmax(own.to(torch.int64)).reshape(1))[0]
    if onesided and not inverse:
        for i in range(rank):
            y = y.narrow(i, 0, _size(torch.where(own[i], sizes[i] // 2 + 1, sizes[i])))
    real = torch.view_as_real(y.resolve_conj())
    return real[..., :1] if inverse and onesided else real


def _size(x: Any) -> Any:
    n = x.item()
    check(n >= 1)
    return n


@onnx_op("STFT")
@host("frame_step", "frame_length")
def stft(t, signal, frame_step, window, frame_length, *, onesided):
    y = to_complex(signal)
    step = t.number(frame_step)
    whole = y.shape[-1] if window is None else window.shape[0]
    length = whole if frame_length is None else t.number(frame_length)
    for n in (step, length):
        if not isinstance(n, int):
            check(n >= 1)
            check(n <= y.shape[-1])
    count = (y.shape[-1] - length) // step + 1
    places = torch.arange(count)[:, None] * step + torch.arange(length)[None]
    # As rows: PyTorch 2.10 does not transform more dims with run-time sizes.
    frames = torch.index_select(y, 1, places.reshape(-1)).reshape(y.shape[0] * count, length)
    if window is not None:
        frames = frames * window
    spectrum = torch.fft.fft(frames).reshape(y.shape[0], count, length)
    if onesided:
        spectrum = spectrum[..., : length // 2 + 1]
    return torch.view_as_real(spectrum).to(signal.dtype)
