"""Rows of the TensorFlow backend's table: strings, Fourier transforms, regions of interest, blocks and caches."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.backends.tensorflow.ops.onnx_cases import const, ints, number
from tests.support.cases import boolean, case, f32, f64, i64


def texts(*shape: int, of: tuple[str, ...]) -> np.ndarray:
    """A tensor of strings."""
    return np.array(of, dtype=object).reshape(shape)


WORDS = texts(2, 2, of=("hello wide  world", " a b", "", "Grüße"))
DAYS = texts(5, of=("Monday", "tuesday", "Wednesday", "monday", "ÄRGER"))
GRAMS = {
    "max_gram_length": 2,
    "min_gram_length": 1,
    "ngram_counts": [0, 4],
    "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
}

TEXT = [
    case("StringConcat", WORDS, texts(2, 1, of=("x", "ä"))),
    case("RegexFullMatch", DAYS, pattern="[A-Za-z]*day"),
    case("StringSplit", WORDS, _outputs=2),
    case("StringSplit", WORDS[:1], delimiter=" ", _outputs=2),
    case("StringSplit", WORDS[:1], delimiter="l", maxsplit=1, _outputs=2),
    case("StringNormalizer", DAYS[:4], case_change_action="LOWER", is_case_sensitive=1, stopwords=["Monday"]),
    case("StringNormalizer", DAYS[:4], case_change_action="UPPER", is_case_sensitive=0, stopwords=["MONDAY"]),
    case("StringNormalizer", DAYS[:1], case_change_action="NONE", is_case_sensitive=1, stopwords=["Monday"]),
    *(
        case("TfIdfVectorizer", i64(2, 9, low=2, high=9), mode=mode, max_skip_count=skip, **GRAMS)
        for mode, skip in (("TF", 0), ("TF", 4), ("IDF", 1))
    ),
    case("TfIdfVectorizer", i64(9, low=2, high=9), mode="TFIDF", max_skip_count=1, weights=[0.5] * 7, **GRAMS),
]

SIGNAL = [
    case("DFT", f32(2, 9, 1)),
    case("DFT", f32(2, 9, 4, 2), number(12, np.int64), number(1, np.int64)),
    case("DFT", f32(2, 8, 1), None, number(1, np.int64), onesided=1),
    case("DFT", f64(2, 8, 2), None, number(-2, np.int64), inverse=1),
    case("STFT", f32(2, 40, 1), number(5, np.int64), f32(8)),
    case("STFT", f32(2, 40, 1), number(6, np.int64), None, number(16, np.int64), onesided=0),
    case(
        "MelWeightMatrix",
        number(8, np.int64),
        number(32, np.int64),
        number(8192, np.int64),
        number(20.0),
        number(4000.0),
    ),
]

ROIS = np.array([[0, 0, 5, 6], [1.5, 2, 4, 7], [-2, -1, 9, 11], [3, 3, 3, 3]], np.float32)
IMAGES = ints(0, 1, 1, 0)
BOXES = np.hstack([np.array([[0], [1], [1], [0], [1]], np.float32), [*ROIS, np.array([8, 7, 30, 9], np.float32)]])

REGIONS = [
    *(
        case(
            "RoiAlign",
            f32(2, 3, 8, 9),
            ROIS,
            IMAGES,
            coordinate_transformation_mode=where,
            sampling_ratio=ratio,
            output_height=3,
            output_width=2,
            spatial_scale=0.9,
        )
        for where, ratio in (("half_pixel", 2), ("output_half_pixel", 0), ("half_pixel", 0))
    ),
    case("RoiAlign", f32(2, 3, 8, 9), ROIS, IMAGES, mode="max", sampling_ratio=2, output_height=2, output_width=3),
    case("MaxRoiPool", f32(2, 3, 8, 9), BOXES, pooled_shape=[2, 3], spatial_scale=0.9),
    case("MaxRoiPool", f32(2, 3, 8, 9), BOXES, pooled_shape=[4, 4]),
    case("DeformConv", f32(1, 2, 6, 7), const(f32(3, 2, 3, 3)), f32(1, 18, 4, 5), f32(3)),
    case(
        "DeformConv",
        f32(2, 4, 6, 7),
        const(f32(6, 2, 3, 3)),
        f32(2, 36, 3, 4),
        None,
        f32(2, 18, 3, 4),
        group=2,
        offset_group=2,
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    ),
    case("Col2Im", f32(2, 12, 12), ints(5, 6), ints(2, 2), dilations=[1, 3]).named("dilated"),
    case("Col2Im", boolean(1, 4, 12), ints(4, 5), ints(2, 2), strides=[1, 1]).named("boolean"),
    case("Col2Im", f32(1, 18, 6), ints(5, 6), ints(3, 3), pads=[1, 1, 0, 1], strides=[2, 2]).named("strided"),
    case("MaxUnpool", f32(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]),
    case("TensorScatter", f32(2, 3, 5, 4), f32(2, 3, 2, 4), ints(1, 3)),
    case("TensorScatter", f32(2, 5, 4), f32(2, 3, 4), ints(4, 3), mode="circular"),
    case("TensorScatter", f32(3, 5), f32(3, 2), None, axis=1),
    case("BitCast", f32(2, 3), to=TensorProto.INT32),
    case("BitCast", i64(4), to=TensorProto.DOUBLE),
]

CASES = [*TEXT, *SIGNAL, *REGIONS]
