"""Rows of attention and of rotated positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from convert.errors import BadInput
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.frontends.onnx.ops.support import check
from tests.support.cases import Case, case, f32, params
from tests.support.onnx_support import info, model, read

MS = "com.microsoft"
X, WEIGHTS, BIAS = f32(2, 3, 8), const(f32(8, 24) / 3), const(f32(24))
KEYS = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
LEFT = np.array([[0, 1, 1], [0, 0, 1]], np.int32)
PAST = f32(2, 2, 2, 4, 4)
BYTES, HALF_STEP = (np.arange(48) * 7 % 31).reshape(2, 3, 8).astype(np.uint8), const(np.array(0.02, np.float32))
Q, K, V = f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 12)
COSINES, SINES = const(f32(6, 2)), const(f32(6, 2))
PLACES = np.array([[0, 1, 2], [3, 5, 4]], np.int64)


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


PROMPT = f32(2, 3, 64), f32(2, 3, 32), f32(2, 3, 32)
LONG = f32(2, 6, 64), f32(2, 6, 32), f32(2, 6, 32), None, None, _ints(5, 5), _ints(6)
NEXT = f32(2, 1, 64), f32(2, 1, 32), f32(2, 1, 32), f32(2, 2, 5, 16), f32(2, 2, 5, 16, low=-1.0)
CHUNK = *(x[:1] for x in (*PROMPT, *NEXT[3:])), _ints(7), _ints(8)
NOTHING = np.zeros((2, 2, 0, 16), np.float32)
TURNS = const(f32(16, 8)), const(f32(16, 8, low=-1.0))
GROUPS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("prompt", (*PROMPT, NOTHING, NOTHING, _ints(2, 2), _ints(3)), {}),
    ("no past", (*PROMPT, None, None, _ints(2, 2), _ints(3)), {"scale": 0.3}),
    ("a short row", (*PROMPT, None, None, _ints(1, 2), _ints(3)), {}),
    ("one more", (*NEXT, _ints(5, 5), _ints(6)), {}),
    ("rows of two lengths", (*NEXT, _ints(3, 5), _ints(6)), {}),
    ("more room", (*NEXT, _ints(2, 3), _ints(4)), {}),
    ("chunk", CHUNK, {}),
    ("side by side, turned", (f32(2, 3, 128), None, None, NOTHING, NOTHING, _ints(2, 2), _ints(3), *TURNS),
     {"do_rotary": 1}),
    ("turned in pairs", (f32(2, 1, 128), None, None, *NEXT[3:], _ints(4, 5), _ints(6), *TURNS),
     {"do_rotary": 1, "rotary_interleaved": 1}),
    ("turned at places", (*CHUNK, *TURNS, np.array([[3, 4, 5]])), {"do_rotary": 1}),
    *((f"window of {n}", LONG, {"local_window_size": n}) for n in (1, 2, 3)),
    ("window and cap", (*NEXT, _ints(5, 5), _ints(6)), {"local_window_size": 2, "softcap": 2.0, "scale": 0.7}),
    ("smooth", (*NEXT, _ints(3, 5), _ints(6)), {"smooth_softmax": 1}),
    ("sink", (*NEXT, _ints(3, 5), _ints(6), None, None, None, None, f32(4)), {}),
    ("bias", (*CHUNK, None, None, None, f32(1, 4, 3, 8)), {}),
    ("both ways", (*PROMPT, None, None, _ints(2, 2), _ints(3)), {"causal": 0}),
]  # fmt: skip
ROWS = params(
    [
        case(f"{MS}::Attention", X, WEIGHTS, BIAS, num_heads=2),
        case(f"{MS}::Attention", X, WEIGHTS, None, num_heads=4, scale=0.3, unidirectional=1).named("causal"),
        case(f"{MS}::Attention", X, WEIGHTS, BIAS, KEYS, num_heads=2).named("with a mask"),
        case(f"{MS}::Attention", X, WEIGHTS, BIAS, LEFT, num_heads=2, unidirectional=1).named("padded on the left"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, np.stack([KEYS, LEFT, KEYS], 1), num_heads=2,
            mask_filter_value=-3.0,
        ).named("of three dims"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, np.array([2, 3], np.int32), num_heads=2, _dynamic=False
        ).named("with ends"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, np.array([3, 2, 1, 0], np.int32), num_heads=2, _dynamic=False
        ).named("with starts"),
        case(
            f"{MS}::Attention", X, const(f32(8, 20)), const(f32(20)), num_heads=2, qkv_hidden_sizes=[8, 8, 4]
        ).named("of narrow values"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, None, PAST, num_heads=2, unidirectional=1, _outputs=2,
            _dynamic=False,
        ).named("with a past"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, None, None, f32(1, 2, 3, 3), num_heads=2, _dynamic=False
        ).named("with a bias of places"),
        case(
            f"{MS}::QAttention", BYTES, const(np.arange(192).reshape(8, 24).astype(np.uint8) % 60), BIAS, HALF_STEP,
            HALF_STEP, KEYS, const(np.array(7, np.uint8)), const(np.array(30, np.uint8)), num_heads=2,
        ),
        case(
            f"{MS}::QAttention", BYTES, const((np.arange(192).reshape(8, 24) % 60 - 30).astype(np.int8)), BIAS,
            HALF_STEP, HALF_STEP, None, None, None, PAST, num_heads=2, unidirectional=1, _outputs=2, _dynamic=False,
        ).named("with a past"),
        case(f"{MS}::MultiHeadAttention", Q, K, V, num_heads=2),
        case(f"{MS}::MultiHeadAttention", Q, K, V, const(f32(28)), num_heads=2, scale=0.2).named("with a bias"),
        case(
            f"{MS}::MultiHeadAttention", Q, f32(2, 3, 8), f32(2, 3, 8), None, KEYS, num_heads=2, unidirectional=1
        ).named("causal"),
        case(
            f"{MS}::MultiHeadAttention", Q, f32(2, 2, 5, 4), f32(2, 2, 5, 4), num_heads=2, _dynamic=False
        ).named("of another's keys"),
        case(
            f"{MS}::MultiHeadAttention", Q, f32(2, 3, 8), f32(2, 3, 8), None, None, f32(2, 2, 3, 7), f32(2, 2, 4, 4),
            f32(2, 2, 4, 4), num_heads=2, _outputs=3, _dynamic=False,
        ).named("with a past"),
        *(
            case(f"{MS}::GroupQueryAttention", *inputs, num_heads=4, kv_num_heads=2, _outputs=3, _dynamic=False,
                 **attributes).named(f"groups, {label}")
            for label, inputs, attributes in GROUPS
        ),
        case(f"{MS}::RotaryEmbedding", f32(2, 3, 8), PLACES, COSINES, SINES),
        case(f"{MS}::RotaryEmbedding", f32(2, 2, 3, 4), PLACES, COSINES, SINES, interleaved=1).named("interleaved"),
        case(f"{MS}::RotaryEmbedding", f32(2, 3, 8), const([2]), COSINES, SINES).named("from a place"),
        case(
            f"{MS}::RotaryEmbedding", f32(2, 3, 16), PLACES, COSINES, SINES, num_heads=2, rotary_embedding_dim=4
        ).named("of a part"),
    ]
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_it_is_what_onnx_runtime_computes(row: Case) -> None:
    check(row)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "cache", "message"),
    [
        (0, 2, 16, ["b", 2, "p", 4], "of 0 heads, and 2 of keys"),
        (4, -1, 16, ["b", 2, "p", 4], "of 4 heads, and -1 of keys"),
        (4, 3, 16, ["b", 2, "p", 4], "of 4 heads, and 3 of keys"),
        (1 << 40, 2, 16, ["b", 2, "p", 4], "heads in 16 numbers"),
        (4, 2, 15, ["b", 2, "p", 4], "4 heads in 15 numbers"),
        (4, 2, 0, ["b", 2, "p", 4], "4 heads in 0 numbers"),
        (4, 2, 16, ["b", 3, "p", 4], r"a cache of \['b', 3, 'p', 4\]"),
        (4, 2, 16, ["b", 2, "p", 0], r"a cache of \['b', 2, 'p', 0\]"),
        (4, 2, 16, [2], r"a cache of \[2\]"),
    ],
)
def test_heads_that_do_not_fit_are_refused(
    heads: int, kv_heads: int, width: int, cache: list[Any], message: str
) -> None:
    names = ["q", "k", "v", "past_k", "past_v", "lengths", "total"]
    node = onnx.helper.make_node(
        "GroupQueryAttention", names, ["y", "k2", "v2"], domain=MS, num_heads=heads, kv_num_heads=kv_heads
    )
    dims: list[list[Any]] = [["b", "t", width], ["b", "t", 8], ["b", "t", 8], cache, cache, ["b", 1], [1]]
    inputs = [info(name, size, dtype) for name, size, dtype in zip(names, dims, [1] * 5 + [6] * 2, strict=True)]
    with pytest.raises(BadInput, match=message):
        read(model([node], inputs, [info("y", ["b", "t", 16])], domains=[MS]))
