"""Image formats without a TensorFlow decoder, read byte by byte: portable anymaps and plain TIFF."""

from __future__ import annotations

import tensorflow as tf

_SPACE = b" \t\r\n\v\f"


def pixels_of_anymap(data: tf.Tensor) -> tf.Tensor:
    """Return [height, width, 3] uint8 of a PGM (P5) or PPM (P6) with one byte per sample; other data stops the model at
    run time.

    data: the bytes as int32. Format: netpbm.sourceforge.net/doc/ppm.html; the header may have comments.
    """
    colour = tf.equal(data[1], ord("6"))
    known = tf.equal(data[0], ord("P")) & (colour | tf.equal(data[1], ord("5")))
    data = _require(known, data, "TensorFlow has no decoder for this format of images")
    width, at = _number(data, tf.constant(2))
    height, at = _number(data, at)
    most, at = _number(data, at)
    data = _require(tf.equal(most, 255), data, "an anymap of another range than 0 to 255")
    channels = tf.where(colour, 3, 1)
    count = height * width * channels
    rows = tf.reshape(data[at + 1 : at + 1 + count], tf.stack([height, width, channels]))
    return tf.broadcast_to(tf.cast(rows, tf.uint8), tf.stack([height, width, 3]))


def _require(known: tf.Tensor, data: tf.Tensor, otherwise: str) -> tf.Tensor:
    """Return the bytes if the condition holds; otherwise the model stops at run time with this message."""
    with tf.control_dependencies([tf.Assert(known, [otherwise])]):
        return tf.identity(data)


def _number(data: tf.Tensor, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the decimal number after `at`, skipping spaces and comments, and the index where it ends."""

    def blank(at: tf.Tensor, comment: tf.Tensor) -> tf.Tensor:
        return comment | tf.reduce_any(tf.equal(data[at], list(_SPACE))) | tf.equal(data[at], ord("#"))

    def skip(at: tf.Tensor, comment: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return at + 1, (comment | tf.equal(data[at], ord("#"))) & ~tf.equal(data[at], ord("\n"))

    at, _ = tf.while_loop(blank, skip, (at, tf.constant(False)))

    def digit(at: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        return (data[at] >= ord("0")) & (data[at] <= ord("9"))

    at, value = tf.while_loop(digit, lambda at, value: (at + 1, value * 10 + data[at] - ord("0")), (at, 0))
    return value, at


_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_STRIPS, _SAMPLES, _ROWS, _PLANES = 273, 277, 278, 284


def pixels_of_tiff(data: tf.Tensor) -> tf.Tensor:
    """Return [height, width, 3] uint8 of an uncompressed TIFF, 8 bits per sample, grey or RGB; others stop the model at
    run time.

    data: the bytes as int32. Format: TIFF 6.0, part 1.
    """
    little = tf.equal(data[0], ord("I"))

    def number(at: tf.Tensor, size: int) -> tf.Tensor:
        given = tf.gather(data, at[..., None] + tf.range(size))
        order = tf.where(little, tf.range(size), size - 1 - tf.range(size))
        return tf.reduce_sum(given * tf.bitwise.left_shift(1, 8 * order), -1)

    first = number(tf.constant(4), 4)
    entries = first + 2 + 12 * tf.range(number(first, 2))
    tags = number(entries, 2)

    def field(tag: int, default: int) -> tf.Tensor:
        """Return all numbers of a field, or the default."""
        place = tf.reshape(tf.where(tf.equal(tags, tag)), [-1])[:1]
        at = tf.gather(entries, place)
        found = tf.size(at) > 0
        return tf.cond(found, lambda: numbers(at[0]), lambda: tf.constant([default]))

    def numbers(at: tf.Tensor) -> tf.Tensor:
        short = tf.equal(number(at + 2, 2), 3)
        count = number(at + 4, 4)
        size = tf.where(short, 2, 4)
        start = tf.where(count * size <= 4, at + 8, number(at + 8, 4))
        places = start + size * tf.range(count)
        return tf.cond(short, lambda: number(places, 2), lambda: number(places, 4))

    width, height, samples = field(_WIDTH, 0)[0], field(_HEIGHT, 0)[0], field(_SAMPLES, 1)[0]
    kind, strips = field(_PHOTOMETRIC, 1)[0], field(_STRIPS, 0)
    plain = tf.reduce_all(tf.equal(field(_BITS, 1), 8)) & tf.equal(field(_COMPRESSION, 1)[0], 1)
    plain &= tf.equal(field(_PLANES, 1)[0], 1)
    plain &= (tf.equal(kind, 1) & tf.equal(samples, 1)) | (tf.equal(kind, 2) & tf.equal(samples, 3))
    data = _require(plain, data, "a TIFF other than grey or RGB, 8 bits, uncompressed")
    rows, row = tf.range(height), field(_ROWS, -1)[0]
    row = tf.where((row < 1) | (row > height), height, row)  # 2³² − 1, which wraps around, means a single strip
    starts = tf.gather(strips, rows // row) + (rows % row) * width * samples
    found = tf.gather(data, starts[:, None] + tf.range(width * samples))
    found = tf.reshape(tf.cast(found, tf.uint8), tf.stack([height, width, samples]))
    return tf.broadcast_to(found, tf.stack([height, width, 3]))
