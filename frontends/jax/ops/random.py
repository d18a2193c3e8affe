"""Random numbers: Threefry and Philox bit by bit, as XLA makes them on the CPU, and distributions of ONNX.

The two generators are counters that a block cipher encrypts (Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", 2011). StableHLO fixes neither how a state becomes counters nor the order of the results; both are XLA's here.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import stablehlo_op
from ..types import FLOATS, ResultType

U32, U64, INT64 = ir.DataType.UINT32, ir.DataType.UINT64, ir.DataType.INT64
BITS = stablehlo_op.limit(
    "rng_bit_generator", "results that are no integers or of dynamic size, and states of other lengths"
)
INTEGERS = stablehlo_op.limit("rng", "integers")


@stablehlo_op("rng_bit_generator")
def rng_bit_generator(g, state, *, rng_algorithm, results):
    """Return the new state and the bits. The default algorithm is Philox, as on XLA's CPU."""
    length = g.shape(state)[0]
    if g.dtype(state) != U64 or length not in (2, 3) or (length == 3 and rng_algorithm == "THREE_FRY"):
        raise Unsupported(BITS)
    type_ = results[1]
    dims = [d for d in type_.dims if d is not None]
    if len(dims) != len(type_.dims) or not type_.dtype.is_integer() or type_.dtype.bitwidth < 8:
        raise Unsupported(BITS)
    words = [g.Gather(state, np.int64(i), axis=0) for i in range(length)]
    made = _threefry_bits if rng_algorithm == "THREE_FRY" else _philox_bits
    words, bits = made(g, words, dims, wide=type_.dtype.bitwidth == 64)
    after = g.Concat(*(g.Unsqueeze(word, [0]) for word in words), axis=0)
    return [after, bits if bits.dtype == type_.dtype else g.Cast(bits, to=type_.dtype)]


Words = list[ir.Value]
"""32-bit numbers that are encrypted together."""


def _halves(g: Graph, x: ir.Value) -> Words:
    """Return the lower and the upper 32 bits."""
    return [g.Cast(x, to=U32), g.Cast(g.BitShift(x, g.const(32, U64), direction="RIGHT"), to=U32)]


def _whole_word(g: Graph, low: ir.Value, high: ir.Value) -> ir.Value:
    shifted = g.BitShift(g.Cast(high, to=U64), g.const(32, U64), direction="LEFT")
    return g.BitwiseOr(g.Cast(low, to=U64), shifted)


def _counted(g: Graph, start: ir.Value, dims: list[int]) -> ir.Value:
    """Return a counter for each element, beginning at `start`."""
    return g.Add(start, g.const(np.arange(math.prod(dims), dtype=np.uint64).reshape(dims)))


def _threefry_bits(g: Graph, state: Words, dims: list[int], *, wide: bool) -> tuple[Words, ir.Value]:
    """Return two words for each counter: one number of 64 bits, or two elements along the first axis of even size.

    If no axis has an even size, the longest axis is used, and its last element is dropped.
    """
    key, start = state
    if wide or not dims:
        low, high = _threefry(g, _halves(g, key), _halves(g, _counted(g, start, dims)))
        return [key, g.Add(start, g.const(math.prod(dims), U64))], _whole_word(g, low, high) if wide else low
    even = [a for a, size in enumerate(dims) if size % 2 == 0]
    axis = even[0] if even else dims.index(max(dims))
    half = [-(-size // 2) if a == axis else size for a, size in enumerate(dims)]
    words = _threefry(g, _halves(g, key), _halves(g, _counted(g, start, half)))
    beside = g.Concat(*(g.Unsqueeze(word, [axis + 1]) for word in words), axis=axis + 1)
    doubled = [2 * size if a == axis else size for a, size in enumerate(half)]
    bits = g.Reshape(beside, g.const(np.array(doubled, np.int64)), allowzero=1)
    if dims[axis] % 2:
        bits = g.Slice(bits, [0], [dims[axis]], [axis])
    return [key, g.Add(start, g.const(math.prod(half), U64))], bits


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(g: Graph, key: Words, block: Words) -> Words:
    """Threefry-2x32 with 20 rounds."""
    keys = [*key, g.BitwiseXor(g.BitwiseXor(*key), g.const(0x1BD11BDA, U32))]
    x, y = (g.Add(word, part) for word, part in zip(block, keys, strict=False))
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = g.Add(x, y)
            left, right = (g.BitShift(y, g.const(n, U32), direction=d)
                           for n, d in ((distance, "LEFT"), (32 - distance, "RIGHT")))  # fmt: skip
            y = g.BitwiseXor(x, g.BitwiseOr(left, right))
        x = g.Add(x, keys[(group + 1) % 3])
        y = g.Add(y, g.Add(keys[(group + 2) % 3], g.const(group + 1, U32)))
    return [x, y]


def _philox_bits(g: Graph, state: Words, dims: list[int], *, wide: bool) -> tuple[Words, ir.Value]:
    """Return four words for each counter of 128 bits, in sequence; a number of 64 bits consists of two of them.

    The upper half of the counter is the third number of the state, or the key if the state has two numbers.
    """
    key, low = state[:2]
    upper = state[2] if len(state) == 3 else key
    count = math.prod(dims)
    blocks = -(-count // (2 if wide else 4))
    counters = _counted(g, low, [blocks])

    def carried(lower: ir.Value) -> ir.Value:
        return g.Add(upper, g.Cast(g.Less(lower, low), to=U64))

    words = _philox(g, _halves(g, key), [*_halves(g, counters), *_halves(g, carried(counters))])
    if wide:
        words = [_whole_word(g, *words[:2]), _whole_word(g, *words[2:])]
    flat = g.Reshape(g.Concat(*(g.Unsqueeze(w, [1]) for w in words), axis=1), g.const(np.array([-1], np.int64)))
    if count != blocks * len(words):
        flat = g.Slice(flat, [0], [count], [0])
    after = g.Add(low, g.const(blocks, U64))
    bits = g.Reshape(flat, g.const(np.array(dims, np.int64)), allowzero=1)
    return [key, after, *([carried(after)] if len(state) == 3 else [])], bits


def _philox(g: Graph, key: Words, block: Words) -> Words:
    """Philox-4x32 with 10 rounds."""
    a, b, c, d = block
    for round_ in range(10):
        low_key, high_key = (
            g.Add(part, g.const(round_ * step % 2**32, U32))
            for part, step in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)
        )
        (low, high), (low2, high2) = (
            _halves(g, g.Mul(g.Cast(word, to=U64), g.const(factor, U64)))
            for word, factor in ((a, 0xD2511F53), (c, 0xCD9E8D57))
        )
        a, b = g.BitwiseXor(g.BitwiseXor(high2, b), low_key), low2
        c, d = g.BitwiseXor(g.BitwiseXor(high, d), high_key), low
    return [a, b, c, d]


@stablehlo_op("rng")
def rng(g, a, b, shape, *, rng_distribution, results):
    """Return random numbers of the same distribution; every runtime has its own generator."""
    type_: ResultType = results[0]
    if type_.dtype not in FLOATS:
        raise Unsupported(INTEGERS)
    zeros = g.Expand(g.const(0.0, ir.DataType.FLOAT), g.Cast(shape, to=INT64))
    if rng_distribution == "UNIFORM":
        found, scale = g.RandomUniformLike(zeros, dtype=ir.DataType.FLOAT, low=0.0, high=1.0), g.Sub(b, a)
    else:
        found, scale = g.RandomNormalLike(zeros, dtype=ir.DataType.FLOAT), b
    found = found if type_.dtype == ir.DataType.FLOAT else g.Cast(found, to=type_.dtype)
    return g.Add(g.Mul(found, scale), a)
