"""Rules for Fourier transforms, as products with a constant matrix."""

from __future__ import annotations

import numpy as np

from convert.errors import Unsupported
from convert.semantics.turns import cos_sin

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.indexing import fixed_dims
from ..common.padding import crop, pad_constant
from ..common.shapes import reshape_fixed, transpose
from ..net import Net
from ..rules import onnx_op
from .linear import fully_connected


@onnx_op("DFT")
def dft(net: Net, x: Blob, length: Blob | None, axis: Blob | None, *, inverse: int, onesided: int) -> Blob:
    """DFT-20 along `axis`, of real numbers or of pairs in the last dim; `length` crops or zero-pads."""
    along = net.axis(x, -2 if axis is None else int(net.need(axis, "the axis of DFT").ravel()[0]))
    size = None if length is None else int(net.need(length, "the length of DFT").ravel()[0])
    return cast(net, _fourier_transform(net, widen(net, x, FLOAT), along, size, bool(inverse), bool(onesided)), x.dtype)


@onnx_op("STFT")
def stft(
    net: Net, signal: Blob, frame_step: Blob, window: Blob | None, frame_length: Blob | None, *, onesided: int
) -> Blob:
    """Transform frames of the signal, [batch, frames, length, 1 or 2], times the window."""
    step = int(net.need(frame_step, "the step of STFT").ravel()[0])
    if frame_length is not None:
        size = int(net.need(frame_length, "the frame length of STFT").ravel()[0])
    elif window is not None and isinstance(net.shape(window)[0], int):
        size = int(str(net.shape(window)[0]))
    else:
        raise Unsupported("STFT without a frame length or a window of a fixed one")
    batch, length, parts = fixed_dims(net, signal, "STFT")
    frames = (length - size) // step + 1
    grid = (np.arange(frames)[:, None] * step + np.arange(size)[None, :]).astype(np.int64)
    x = net.facts(net.Gather(widen(net, signal, FLOAT), net.const(grid), axis=1), shape=(batch, frames, size, parts))
    if window is not None:
        x = net.facts(net.Mul(x, reshape_fixed(net, widen(net, window, FLOAT), [size, 1])), shape=x.shape)
    return cast(net, _fourier_transform(net, x, 2, None, False, bool(onesided)), signal.dtype)


def _fourier_transform(net: Net, x: Blob, axis: int, length: int | None, inverse: bool, onesided: bool) -> Blob:
    rank = net.rank(x)
    shape = fixed_dims(net, x, "DFT")
    halved = inverse and onesided  # the input is the first half of a real transform
    size = length if length is not None else 2 * (shape[axis] - 1) if halved else shape[axis]
    taken = size // 2 + 1 if halved else size
    pads = [0] * 2 * rank
    pads[rank + axis] = taken - shape[axis]
    x = pad_constant(net, crop(net, x, pads), pads, 0.0)
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    moved = transpose(net, x, order)
    matrix = _fourier_matrix(taken, size, shape[-1], inverse, onesided)  # [in, parts, out, parts]
    outer = [shape[i] for i in order[:-2]]
    flat = reshape_fixed(net, moved, [*outer, taken * shape[-1]])
    weights = matrix.reshape(taken * shape[-1], -1).T.astype(np.float32)
    y = fully_connected(net, flat, net.const(np.ascontiguousarray(weights)), None)
    y = reshape_fixed(net, y, [*outer, matrix.shape[2], matrix.shape[3]])
    return transpose(net, y, np.argsort(order).tolist())


def _fourier_matrix(taken: int, size: int, parts: int, inverse: bool, onesided: bool) -> np.ndarray:
    """Return the transform's matrix: the factor from each input part to each output part, [in, parts, out, parts]."""
    count = size // 2 + 1 if onesided and not inverse else size
    cosine, sine = cos_sin(np.outer(np.arange(taken), np.arange(count)) * (1 if inverse else -1), size)
    if inverse:
        cosine, sine = cosine / size, sine / size
    real, imaginary = np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)
    full = np.stack([real, imaginary], 1)[:, :parts]
    if not (inverse and onesided):
        return full
    # The other half is the conjugate: all elements but the first (and the middle one) count twice.
    twice = np.full(taken, 2.0)
    twice[0] = 1
    if size % 2 == 0:
        twice[-1] = 1
    return full[..., :1] * twice[:, None, None, None]
