"""Decoding of images."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from convert.errors import Unsupported

from ..rules import onnx
from .narrow import text_of

_JPEG = np.array([0xFF, 0xD8, 0xFF], np.uint8)


@onnx("ImageDecoder")
def image_decoder(t, encoded, *, pixel_format):
    # TensorFlow decodes JPEG, PNG, BMP and GIF; with other formats the model stops when it runs.
    text = text_of(tf.cast(encoded, tf.int32))

    def jpeg():
        return tf.io.decode_jpeg(text, 3, dct_method="INTEGER_ACCURATE")

    def other():
        return tf.io.decode_image(text, 3, expand_animations=False)

    y = tf.cond(tf.reduce_all(tf.equal(encoded[:3], _JPEG)), jpeg, other)
    y.set_shape([None, None, 3])
    if pixel_format == "RGB":
        return y
    if pixel_format == "BGR":
        return tf.reverse(y, [-1])
    if pixel_format != "Grayscale":
        raise Unsupported(f"ImageDecoder with pixel_format={pixel_format!r}")
    # The luma of ITU-R 601 in sixteen bits of fraction.
    luma = tf.tensordot(tf.cast(y, tf.int32), tf.constant([19595, 38470, 7471]), 1)
    return tf.cast((luma + 32768) // 65536, tf.uint8)[..., None]
