"""Whole TensorFlow programs as users write them: text as features, sparse tensors, gradients, complex results."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.suites.programs.tensorflow_program import program

N123 = ({"n": 1}, {"n": 2}, {"n": 5})
I32, I64 = tf.int32, tf.int64
RANDOM = np.random.default_rng(5)
KERNEL = tf.constant(RANDOM.normal(size=(3, 3, 2, 4)).astype(np.float32))
WORDS = tf.constant(["a", "b", "c"])
PLACES = [[[0, 1], [2, 0]], [[4, 5], [0, 0], [3, 3]], [[1, 1]]]
"""Positions of entries of [5, 6], unsorted."""


def sparse_tensors(i: Any, v: Any, d: Any) -> Any:
    whole = tf.sparse.reorder(tf.sparse.SparseTensor(i, v, [5, 6]))
    return {
        "product": tf.sparse.sparse_dense_matmul(whole, d),
        "part": tf.sparse.to_dense(tf.sparse.slice(whole, [0, 0], [3, 3])),
        "softmax": tf.sparse.to_dense(tf.sparse.softmax(whole)),
        "joined": tf.sparse.to_dense(tf.sparse.concat(1, [whole, whole])),
        "sum": tf.sparse.to_dense(tf.sparse.add(whole, tf.sparse.transpose(tf.sparse.transpose(whole)))),
    }


def cropped_boxes(x: Any, b: Any) -> Any:
    """Crop a box from each image; its corners have any order and may lie outside."""
    rows = tf.range(tf.shape(b)[0])
    return {
        "linear": tf.image.crop_and_resize(x, b, rows, [5, 6]),
        "nearest": tf.image.crop_and_resize(x, b, rows, [4, 3], "nearest", extrapolation_value=-1.0),
    }


def saliency(x: Any) -> Any:
    """Return the gradient of each pixel through a convolution, an ELU and a pool."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = tf.nn.max_pool2d(tf.nn.elu(tf.nn.conv2d(x, KERNEL, 1, "SAME")), 2, 2, "VALID")
        score = tf.reduce_sum(tf.nn.leaky_relu(h - 0.5) * tf.nn.relu6(h))
    return {"score": score, "map": tape.gradient(score, x)}


def diagonals_of_data(x: Any, k: Any) -> Any:
    return {"part": tf.linalg.diag_part(x, k=k), "made": tf.linalg.diag(x[:, 0], k=k[:1])}


def spectra(x: Any) -> Any:
    z = tf.signal.rfft(x)
    angle = tf.math.angle(tf.signal.rfft(x, [62]))
    return {"whole": z, "power": tf.math.real(z * tf.math.conj(z)), "log": tf.math.log(z + 1.0), "angle": angle}


def vocabulary() -> Any:
    """Look words up; all unknown words share one index."""
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(WORDS, tf.range(3, dtype=I64)), num_oov_buckets=1
    )
    return lambda x: {"places": table.lookup(x), "text": tf.strings.as_string(table.lookup(x), width=3, fill="0")}


def bags_of_words() -> Any:
    """Count words as TextVectorization does."""
    layer = tf.keras.layers.TextVectorization(output_mode="multi_hot", vocabulary=["the", "cat", "sat"])
    return lambda x: layer(x)


USERS = [
    program(
        "sparse_tensors",
        sparse_tensors,
        {"i": ("n", 2, I64), "v": ("n",), "d": (6, 3)},
        {"n": 2},
        {"n": 3},
        {"n": 1},
        given={"i": PLACES},
    ),
    program("cropped_boxes", cropped_boxes, {"x": ("n", 8, 9, 3), "b": ("n", 4)}, *N123),
    program("saliency", saliency, {"x": ("n", 6, 6, 2)}, *N123),
    program(
        "diagonals_of_data",
        diagonals_of_data,
        {"x": ("n", 4, 5), "k": (2, I32)},
        *N123,
        given={"k": [[-1, 2], [1, 1], [0, 0]]},
    ),
    program("spectra", spectra, {"x": ("n", 8)}, *N123),
    program(
        "formatted_numbers",
        lambda x: {"two": tf.strings.as_string(x, precision=2), "all": tf.strings.as_string(x * 1000.0)},
        {"x": ("n", 3)},
        *N123,
    ),
    program(
        "vocabulary",
        vocabulary,
        {"x": ("n", tf.string)},
        *N123,
        given={"x": [["b"], ["c", "?"], ["a", "", "b", "z", "c"]]},
        build=True,
    ),
    program(
        "bags_of_words",
        bags_of_words,
        {"x": ("n", tf.string)},
        *N123,
        given={"x": [["The cat!"], ["", "sat sat"], ["a", "cat the", "sat", "no", "The, the"]]},
        build=True,
    ),
]
