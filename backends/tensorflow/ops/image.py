"""Decoding of images."""

from __future__ import annotations

import tensorflow as tf

from convert.errors import Unsupported

from ..rules import onnx_op
from .image_files import pixels_of_anymap, pixels_of_tiff
from .low_precision import codes_to_text


@onnx_op("ImageDecoder")
def image_decoder(t, encoded, *, pixel_format):
    # TensorFlow decodes JPEG, PNG, BMP, GIF and WebP; JPEG 2000 stops the model at run time.
    data = tf.cast(encoded, tf.int32)
    text = codes_to_text(data)

    def begins(*marks):
        return tf.reduce_any([tf.reduce_all(tf.equal(data[: len(mark)], list(mark))) for mark in marks])

    y = tf.case(
        [
            (begins(b"\xff\xd8\xff"), lambda: tf.io.decode_jpeg(text, 3, dct_method="INTEGER_ACCURATE")),
            (begins(b"II*\0", b"MM\0*"), lambda: pixels_of_tiff(data)),
            (begins(*(b"P%d" % kind for kind in range(1, 7))), lambda: pixels_of_anymap(data)),
        ],
        default=lambda: tf.io.decode_image(text, 3, expand_animations=False),
    )
    y.set_shape([None, None, 3])
    if pixel_format == "RGB":
        return y
    if pixel_format == "BGR":
        return tf.reverse(y, [-1])
    if pixel_format != "Grayscale":
        raise Unsupported(f"ImageDecoder with pixel_format={pixel_format!r}")
    # The luma of ITU-R 601 with 16 fractional bits.
    luma = tf.tensordot(tf.cast(y, tf.int32), tf.constant([19595, 38470, 7471]), 1)
    return tf.cast((luma + 32768) // 65536, tf.uint8)[..., None]
