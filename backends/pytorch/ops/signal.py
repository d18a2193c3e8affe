"""Fourier transforms and what goes with them."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported

from ..dtypes import torch_dtype
from ..rules import host, onnx_op


def to_complex(x: Any) -> Any:
    """A tensor whose last dim holds real and imaginary parts, or real parts only, as complex numbers."""
    kind = torch.complex128 if x.dtype == torch.float64 or x.shape[-1] == 1 else torch.complex64
    real = torch.float64 if kind == torch.complex128 else torch.float32
    if x.shape[-1] == 1:
        return x[..., 0].to(real).to(kind)
    return torch.view_as_complex(x.to(real).contiguous())


_AXIS = onnx_op.limit("DFT", "an axis computed at run time")


@onnx_op("DFT")
@host("dft_length", "axis")
def dft(t, x, dft_length=None, axis=None, *, inverse, onesided):
    place = -2 if axis is None else t.static(axis)
    if place is None:
        raise Unsupported(_AXIS)
    place = int(place if isinstance(place, int) else place.ravel()[0]) % x.dim()
    length = None if dft_length is None else t.number(dft_length)
    if length is not None and not isinstance(length, int):
        torch._check(length >= 1)
    y = to_complex(x)
    if inverse and onesided:
        return torch.fft.irfft(y, length, place)[..., None].to(x.dtype)
    y = torch.fft.ifft(y, length, place) if inverse else torch.fft.fft(y, length, place)
    if onesided:
        y = y.narrow(place, 0, y.shape[place] // 2 + 1)
    return torch.view_as_real(y.resolve_conj()).to(x.dtype)


@onnx_op("STFT")
@host("frame_step", "frame_length")
def stft(t, signal, frame_step, window, frame_length, *, onesided):
    y = to_complex(signal)
    step = t.number(frame_step)
    whole = y.shape[-1] if window is None else window.shape[0]
    length = whole if frame_length is None else t.number(frame_length)
    for n in (step, length):
        if not isinstance(n, int):
            torch._check(n >= 1)
            torch._check(n <= y.shape[-1])
    count = (y.shape[-1] - length) // step + 1
    places = torch.arange(count)[:, None] * step + torch.arange(length)[None]
    frames = torch.index_select(y, 1, places.reshape(-1)).reshape(y.shape[0], count, length)
    if window is not None:
        frames = frames * window
    spectrum = torch.fft.fft(frames)
    if onesided:
        spectrum = spectrum[..., : length // 2 + 1]
    return torch.view_as_real(spectrum).to(signal.dtype)


@onnx_op("MelWeightMatrix")
@host("num_mel_bins", "dft_length")
def mel_weight_matrix(t, num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz, *, output_datatype):
    bins, points = t.number(num_mel_bins), t.number(dft_length)
    for n in (bins, points):
        if not isinstance(n, int):
            torch._check(n >= 0)
    rate = sample_rate.reshape(()).to(torch.float64)
    low, high = (
        2595.0 * torch.log1p(v.reshape(()).to(torch.float64) / 700.0) / math.log(10)
        for v in (lower_edge_hertz, upper_edge_hertz)
    )
    mels = torch.arange(bins + 2).to(torch.float64) * ((high - low) / (bins + 2)) + low
    hertz = 700.0 * torch.expm1(mels / 2595.0 * math.log(10))
    edges = torch.floor((points + 1) * hertz / rate)
    place = torch.arange(points // 2 + 1).to(torch.float64)[:, None]
    left, centre, right = edges[None, :-2], edges[None, 1:-1], edges[None, 2:]
    zero, one = torch.zeros_like(left), torch.ones_like(left)
    rising = torch.where((place >= left) & (place <= centre), (place - left) / torch.maximum(centre - left, one), zero)
    rising = torch.where(centre == left, (place == centre).to(torch.float64), rising)
    falls = (place >= centre) & (place < right)
    y = torch.where(falls, (right - place) / torch.maximum(right - centre, one), rising)
    return y.to(torch_dtype(ir.DataType(output_datatype)))
