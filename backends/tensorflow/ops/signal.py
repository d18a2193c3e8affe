"""Fourier transforms and related operators."""

from __future__ import annotations

import tensorflow as tf

from ..emit import Dim
from ..rules import onnx_op


def to_complex(x: tf.Tensor) -> tf.Tensor:
    """Return complex numbers for a tensor whose last dim holds real and imaginary parts, or real parts only.

    A real signal is converted to double precision, because float32 does not give the exact zeros of its spectrum.
    """
    if x.shape[-1] == 1:
        return tf.cast(x[..., 0], tf.complex128)
    wide = tf.cast(x, tf.float64 if x.dtype == tf.float64 or x.shape[-1] is None else tf.float32)
    if x.shape[-1] is None:
        wide = tf.pad(wide, [[0, 0]] * (x.shape.rank - 1) + [[0, 1]])
    return tf.complex(wide[..., 0], wide[..., 1])


def to_real_parts(y: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return real and imaginary parts in a last dim of two."""
    return tf.cast(tf.stack([tf.math.real(y), tf.math.imag(y)], -1), dtype)


def resize_last_axis(y: tf.Tensor, length: Dim) -> tf.Tensor:
    """Crop or zero-pad the last axis to `length`."""
    y = y[..., :length]
    missing = tf.maximum(length - tf.shape(y)[-1], 0)
    return tf.pad(y, [[0, 0]] * (y.shape.rank - 1) + [[0, missing]])


@onnx_op("DFT")
def dft(t, x, length, axis, *, inverse, onesided):
    rank = t.rank(x)
    known = t.ints(axis) if axis is not None else [-2]
    y = to_complex(x)
    if known is not None:
        place = known[0] % rank
        order = [*(i for i in range(rank - 1) if i != place), place]
        back = [order.index(i) for i in range(rank - 1)]
    else:
        place = tf.math.floormod(tf.reshape(tf.cast(axis, tf.int32), []), rank)
        every = tf.range(rank - 1)
        order = tf.concat([tf.boolean_mask(every, every != place), tf.reshape(place, [1])], 0)
        back = tf.math.invert_permutation(order)
    y = tf.transpose(y, order)
    y.set_shape([None] * (rank - 1))
    count = tf.shape(y)[-1]
    default = 2 * (count - 1) if inverse and onesided else count
    points = default if length is None else tf.reshape(tf.cast(length, tf.int32), [])
    if inverse and onesided:
        half = resize_last_axis(y, points // 2 + 1)
        return tf.cast(tf.transpose(tf.signal.irfft(half, tf.reshape(points, [1])), back)[..., None], x.dtype)
    y = resize_last_axis(y, points)
    y = tf.signal.ifft(y) if inverse else tf.signal.fft(y)
    y = y[..., : points // 2 + 1] if onesided else y
    return to_real_parts(tf.transpose(y, back), x.dtype)


@onnx_op("STFT")
def stft(t, signal, frame_step, window, frame_length, *, onesided):
    y = to_complex(signal)
    if frame_length is not None:
        length = tf.reshape(tf.cast(frame_length, tf.int32), [])
    else:
        length = tf.shape(y)[-1] if window is None else tf.shape(window)[0]
    step = tf.reshape(tf.cast(frame_step, tf.int32), [])
    starts = tf.range(0, tf.shape(y)[-1] - length + 1, step)
    frames = tf.gather(y, starts[:, None] + tf.range(length)[None, :], axis=-1)
    if window is not None:
        frames = frames * tf.cast(window, frames.dtype)
    spectrum = tf.signal.fft(frames)
    spectrum = spectrum[..., : length // 2 + 1] if onesided else spectrum
    return to_real_parts(spectrum, signal.dtype)
