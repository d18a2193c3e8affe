"""Dtypes of 8 bits and less (float8, float4, int4, int2), which TensorFlow stores but has few kernels for."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

NARROW_FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")
NARROW_INTS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
NARROW = (*NARROW_FLOATS, *NARROW_INTS)

# Dtypes that TensorFlow's Cast supports: as a source to any dtype, as a target from the named ones.
_CASTS = {"float8_e4m3fn": tf.float32, "float8_e5m2": tf.float32, "int4": tf.int32, "uint4": tf.int32}


def widen_dtype(x: tf.Tensor) -> tf.Tensor:
    """Return a narrow tensor exactly, in a dtype that TensorFlow computes with."""
    name = x.dtype.name
    if name in _CASTS:
        return tf.cast(x, _CASTS[name])
    codes = _to_codes(x)
    if name in NARROW_FLOATS:
        every = np.arange(256, dtype=np.uint8) & (15 if name == "float4_e2m1fn" else 255)
        return tf.gather(tf.constant(every.view(x.dtype.as_numpy_dtype).astype(np.float32)), codes)
    low, high = NARROW_INTS[name]
    return tf.math.floormod(codes - low, high - low + 1) + low


def narrow_dtype(x: tf.Tensor, dtype: tf.DType, saturate: bool) -> tf.Tensor:
    """Return `x` in a narrow dtype. Floats are rounded half to even; integers lose the bits that do not fit."""
    name = dtype.name
    if name in NARROW_FLOATS:
        return _from_codes(_float_codes(tf.cast(x, tf.float32), dtype, saturate), dtype)
    low, high = NARROW_INTS[name]
    whole = tf.cast(x, tf.int32)
    span = high - low + 1
    whole = tf.math.floormod(whole - low, span) + low
    if name in _CASTS:
        return tf.cast(whole, dtype)
    return _from_codes(whole, dtype)


def _float_codes(x: tf.Tensor, dtype: tf.DType, saturate: bool) -> tf.Tensor:
    """Return the bit patterns of the nearest numbers, as int32.

    All finite magnitudes are in one sorted table. Thresholds are the midpoints of neighbours; a midpoint rounds to the
    lower neighbour if that is even.
    """
    codes = np.arange(128 if dtype.size == 1 and "float4" not in dtype.name else 8, dtype=np.uint8)
    values = codes.view(dtype.as_numpy_dtype).astype(np.float32)
    values = values[np.isfinite(values)]
    beyond = 2 * values[-1] - values[-2]
    middles = (values + np.append(values[1:], beyond)) / 2
    even = np.arange(len(values)) % 2 == 0
    thresholds = np.where(even, np.nextafter(middles, np.float32(np.inf)), middles).astype(np.float32)
    magnitude = tf.abs(x)
    flat = tf.reshape(magnitude, [-1])
    found = tf.reshape(tf.searchsorted(tf.constant(thresholds), flat, side="right"), tf.shape(x))
    # float4 has neither infinity nor NaN.
    always = dtype.name == "float4_e2m1fn"
    last = len(values) - 1
    if saturate or always:
        found = tf.minimum(found, last)
    negative = tf.bitcast(x, tf.int32) < 0
    sign = 8 if always else 128
    unsigned_zero = dtype.name.endswith("fnuz")
    signed = tf.where(negative & ((found > 0) if unsigned_zero else tf.ones_like(negative)), found + sign, found)
    if always:
        return tf.where(tf.math.is_nan(x), sign, signed)
    if unsigned_zero:
        return tf.where(tf.math.is_nan(x) | (found > last), 128, signed)
    nan = int(np.array([np.nan], dtype.as_numpy_dtype).view(np.uint8)[0])
    # The code after the largest number is infinity, or NaN if the dtype has none.
    return tf.where(tf.math.is_nan(x), tf.where(negative, nan | 128, nan & 127), signed)


_BYTES = np.array([bytes([i]) for i in range(256)], dtype=object)


def codes_to_text(codes: tf.Tensor) -> tf.Tensor:
    """Return the bytes of an int32 vector as one string."""
    return tf.strings.reduce_join(tf.gather(tf.constant(_BYTES), codes))


def _from_codes(codes: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return a tensor with these bit patterns.

    No kernel creates a tensor of such a dtype. But TensorFlow parses serialized tensors of any dtype, so a serialized
    tensor is written here: its dtype, its single dim, and one byte per element.
    """
    count = tf.size(codes)
    # A varint: seven bits per byte, with a flag on each byte but the last.
    number = tf.stack([tf.math.floormod(count // 128**i, 128) + (128 if i < 4 else 0) for i in range(5)])
    head = tf.constant([0x08, dtype.as_datatype_enum, 0x12, 0x08, 0x12, 0x06, 0x08], tf.int32)
    message = tf.concat([head, number, [0x22], number, tf.reshape(tf.math.floormod(codes, 256), [-1])], 0)
    parsed = tf.io.parse_tensor(codes_to_text(message), dtype)
    y = tf.reshape(parsed, tf.shape(codes))
    y.set_shape(codes.shape)
    return y


def _to_codes(x: tf.Tensor) -> tf.Tensor:
    """Return the bit patterns of a narrow tensor, as int32.

    No kernel reads such a tensor. But TensorFlow hashes the bytes of a tensor of any dtype, and 256 hashes identify the
    bytes.
    """
    with tf.init_scope():
        hashes = _hashes(tf.constant(np.arange(256, dtype=np.uint8))).numpy()
    order = np.argsort(hashes)
    found = tf.searchsorted(tf.constant(hashes[order]), _hashes(tf.reshape(x, [-1])))
    y = tf.reshape(tf.gather(tf.constant(order.astype(np.int32)), found), tf.shape(x))
    y.set_shape(x.shape)
    return y


def _hashes(x: tf.Tensor) -> tf.Tensor:
    """Return one int64 per element of a byte vector (FarmHash's Fingerprint64, which is stable by contract)."""
    return tf.bitcast(tf.raw_ops.Fingerprint(data=tf.expand_dims(x, 1), method="farmhash64"), tf.int64)
