"""Fourier transforms as products with their matrices.

If the length is known, the matrices are constants, each element correctly rounded. A length too long for one matrix is
split into two factors (Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965).
If the length is known at run time only, the graph computes the matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor
from convert.semantics.turns import cos_sin

LARGEST = 2048
"""The longest transform that is a single product; longer ones are products of factors up to this length."""

_END = np.array([np.iinfo(np.int64).max], np.int64)


@dataclass(frozen=True)
class _Pair:
    """The real and the imaginary part, which is None for zero."""

    real: ir.Value
    imag: ir.Value | None


def dft(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """DFT-17 and DFT-20: `axis` is an attribute in the former, and an input in the latter."""
    x, length, axis = [*node.inputs, None, None][:3]
    assert x is not None
    place = node.attributes.get_int("axis", 1 if g.opset < 20 else -2)
    if axis is not None:
        given = g.static(axis)
        if given is None:
            raise Unsupported("an axis that is computed")
        place = int(given.ravel()[0])
    last = g.rank(x) - 1
    place %= last + 1
    inverse, onesided = (node.attributes.get_int(name, 0) != 0 for name in ("inverse", "onesided"))
    perm = [i for i in range(last) if i != place] + [place]
    pair = _split_parts(g, x)
    if place != last - 1:
        pair = _each(pair, lambda p: g.Transpose(p, perm=perm))
    size = _length(g, g.shape(x)[place], length, halved=inverse and onesided)
    made = _transform(g, pair, size, inverse=inverse, onesided=onesided)
    back = [perm.index(i) for i in range(last)]
    if place != last - 1:
        made = _each(made, lambda p: g.Transpose(p, perm=back))
    return [_joined(g, g.dtype(x), made)]


def stft(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """STFT: frames of the signal, multiplied by the window, each transformed."""
    signal, step, window, length = [*node.inputs, None, None][:4]
    assert signal is not None
    assert step is not None
    whole, axis = (signal, 1) if window is None else (window, 0)
    size = _length(g, g.shape(whole)[axis], length, halved=False)
    if size is None:
        size = _size_of(g, whole, axis)
    steps = g.static(step)
    hop = int(steps.ravel()[0]) if steps is not None else _scalar(g, step)
    places = _frame_places(g, g.shape(signal)[1], signal, size, hop)
    frames = _each(_split_parts(g, signal), lambda p: g.Gather(p, places, axis=1))
    if window is not None:
        weights = g.Cast(window, to=g.dtype(frames.real))
        frames = _each(frames, lambda p: g.Mul(p, weights))
    real = node.attributes.get_int("onesided", 1) != 0 and frames.imag is None
    return [_joined(g, g.dtype(signal), _transform(g, frames, size, inverse=False, onesided=real))]


def mel_weight_matrix(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """MelWeightMatrix: triangles over the bins of a spectrum, evenly spaced on the mel scale, computed in float64."""
    double = ir.DataType.DOUBLE
    bins, points, rate, *edges = (g.Reshape(g.Cast(x, to=double), np.zeros(0, np.int64)) for x in node.inputs)

    def numbers(count: ir.Value) -> ir.Value:
        return g.Range(0.0, count, g.const(1.0, double))

    low, high = (g.Mul(g.Log(g.Add(g.Div(edge, 700.0), 1.0)), 2595 / math.log(10)) for edge in edges)
    steps = g.Add(bins, 2.0)
    mels = g.Add(g.Mul(numbers(steps), g.Div(g.Sub(high, low), steps)), low)
    hertz = g.Mul(g.Sub(g.Exp(g.Mul(mels, math.log(10) / 2595)), 1.0), 700.0)
    borders = g.Floor(g.Div(g.Mul(g.Add(points, 1.0), hertz), rate))
    left, centre, right = (g.Slice(borders, np.array([i]), np.array([i - 2 or _END[0]])) for i in range(3))
    place = g.Unsqueeze(numbers(g.Add(g.Floor(g.Div(points, 2.0)), 1.0)), np.array([1]))

    def within(start: ir.Value, end: ir.Value) -> ir.Value:
        return g.And(g.Not(g.Less(place, start)), g.Less(place, end))

    def slope(x: ir.Value, y: ir.Value, width: ir.Value) -> ir.Value:
        return g.Div(g.Sub(x, y), g.Max(width, 1.0))

    rising = g.Where(within(left, centre), slope(place, left, g.Sub(centre, left)), g.const(0.0, double))
    y = g.Where(within(centre, right), slope(right, place, g.Sub(right, centre)), rising)
    top = g.Equal(place, centre)  # also where two borders are the same bin
    return [g.Cast(g.Where(top, g.const(1.0, double), y), to=node.attributes.get_int("output_datatype", 1))]


def _scalar(g: Graph, x: ir.Value) -> ir.Value:
    return g.Reshape(g.Cast(x, to=ir.DataType.INT64), np.zeros(0, np.int64))


def _each(pair: _Pair, change: Callable[[ir.Value], ir.Value]) -> _Pair:
    """Return the existing parts, each changed by `change`."""
    return _Pair(change(pair.real), None if pair.imag is None else change(pair.imag))


def _split_parts(g: Graph, x: ir.Value) -> _Pair:
    """Return the parts of [..., 1] or [..., 2], in a dtype that has kernels for products."""
    parts = g.shape(x)[-1]
    if parts not in (1, 2):
        raise Unsupported("an input that may be real or complex")
    wide = x if g.dtype(x) in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else g.Cast(x, to=ir.DataType.FLOAT)
    if parts == 1:
        return _Pair(g.Squeeze(wide, [-1]), None)
    return _Pair(g.Gather(wide, np.int64(0), axis=-1), g.Gather(wide, np.int64(1), axis=-1))


def _joined(g: Graph, dtype: ir.DataType, pair: _Pair) -> ir.Value:
    """Return the parts as [..., 2], or as [..., 1] if there is only a real part."""
    columns = [g.Unsqueeze(p, [-1]) for p in (pair.real, pair.imag) if p is not None]
    y = columns[0] if len(columns) == 1 else g.Concat(*columns, axis=-1)
    return y if g.dtype(y) == dtype else g.Cast(y, to=dtype)


def _length(g: Graph, dim: int | str | None, length: ir.Value | None, *, halved: bool) -> int | ir.Value | None:
    """Return the length of a transform as a number or a scalar; None if it is a dim known at run time only."""
    if length is not None:
        known = g.static(length)
        if known is not None:
            return int(known.ravel()[0])
        return _scalar(g, length)
    if isinstance(dim, int):
        return 2 * (dim - 1) if halved else dim
    return None


def _size_of(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    return g.Gather(g.Shape(x), np.int64(axis), axis=0)


def _frame_places(
    g: Graph, dim: int | str | None, signal: ir.Value, size: int | ir.Value, hop: int | ir.Value
) -> np.ndarray | ir.Value:
    """Return the indices of the elements of each frame in the signal, [frames, size]."""
    if isinstance(dim, int) and isinstance(size, int) and isinstance(hop, int):
        count = (dim - size) // hop + 1
        return np.arange(count, dtype=np.int64)[:, None] * hop + np.arange(size, dtype=np.int64)
    one = np.int64(1)
    count = g.Add(g.Div(g.Sub(_size_of(g, signal, 1), _number(size)), _number(hop)), one)
    first = g.Mul(g.Range(np.int64(0), count, one), _number(hop))
    return g.Add(g.Unsqueeze(first, [1]), g.Unsqueeze(g.Range(np.int64(0), _number(size), one), [0]))


def _number(size: int | ir.Value) -> np.int64 | ir.Value:
    return np.int64(size) if isinstance(size, int) else size


# -- along the last axis ----------------------------------------------------------------------------------------------


def _transform(g: Graph, x: _Pair, size: int | ir.Value | None, *, inverse: bool, onesided: bool) -> _Pair:
    """Return the transform to `size` numbers along the last axis; inputs are cut or padded with zeros."""
    rows = g.shape(x.real)[-1]
    if isinstance(size, int) and size > LARGEST and rows == size and not (inverse and onesided):
        made, half, share = _transform_by_factors(g, x, size, inverse), size // 2 + 1, 1 / size
        made = _each(made, lambda p: g.Slice(p, [0], [half], [-1])) if onesided else made
        return _each(made, lambda p: g.Mul(p, share)) if inverse else made
    taken: int | ir.Value
    if isinstance(size, int):
        if size > 2 * LARGEST:
            raise Unsupported(f"a transform of {size} numbers has a matrix too large for a file")
        matrices = _constant_matrices(g, g.dtype(x.real), rows, size, inverse, onesided)
        taken = size // 2 + 1 if inverse and onesided else size
    else:
        if size is None:
            size = _size_of(g, x.real, -1)
            if inverse and onesided:
                size = g.Mul(g.Sub(size, np.int64(1)), np.int64(2))
        taken = g.Add(g.Div(size, np.int64(2)), np.int64(1)) if inverse and onesided else size
        matrices = _computed_matrices(g, x.real, size, inverse, onesided)
        rows = None
    if not (isinstance(rows, int) and isinstance(taken, int) and rows <= taken):
        x = _each(x, lambda p: _first(g, p, taken, -1))
    if not (isinstance(rows, int) and isinstance(taken, int)):
        matrices = [_first(g, m, _size_of(g, x.real, -1), 0) for m in matrices]
    elif rows < taken:
        matrices = [_first(g, m, rows, 0) for m in matrices]
    return _product(g, x, matrices[0], matrices[1], real=inverse and onesided)


def _first(g: Graph, x: ir.Value, count: int | ir.Value, axis: int) -> ir.Value:
    """Return the first elements along an axis."""
    end = np.array([count], np.int64) if isinstance(count, int) else g.Reshape(count, np.array([1], np.int64))
    return g.Slice(x, np.array([0], np.int64), end, np.array([axis], np.int64))


def _product(g: Graph, x: _Pair, cos: ir.Value, sin: ir.Value, *, real: bool = False) -> _Pair:
    """Return x times cos + i sin along the last axis; with `real`, only the real part."""
    a = g.MatMul(x.real, cos)
    if x.imag is None:
        return _Pair(a, None if real else g.MatMul(x.real, sin))
    a = g.Sub(a, g.MatMul(x.imag, sin))
    return _Pair(a, None if real else g.Add(g.MatMul(x.real, sin), g.MatMul(x.imag, cos)))


def _constant_matrices(
    g: Graph, dtype: ir.DataType, rows: int | str | None, n: int, inverse: bool, onesided: bool
) -> list[ir.Value]:
    """Return cos and the signed sin for length n, including the division and the weights of an inverse transform."""
    first = n // 2 + 1 if inverse and onesided else n
    columns = n // 2 + 1 if onesided and not inverse else n
    cos, sin = cos_sin(np.outer(np.arange(first), np.arange(columns)), n)
    factor = np.full((first, 1), 1.0 / n if inverse else 1.0)
    if inverse and onesided:
        # Each number counts twice, for itself and its mirror image, except the first and the middle one.
        ks = np.arange(first)
        factor[(ks != 0) & (2 * ks != n)] *= 2
    if isinstance(rows, int):
        cos, sin, factor = cos[:rows], sin[:rows], factor[:rows]
    sign = 1.0 if inverse else -1.0
    return [g.const(rounded_tensor(m, dtype)) for m in (factor * cos, factor * (sign * sin))]


def _computed_matrices(g: Graph, x: ir.Value, n: ir.Value | int, inverse: bool, onesided: bool) -> list[ir.Value]:
    """Return the matrices of `_constant_matrices` for a length known at run time; angles are computed in float64."""
    zero, one, two = np.int64(0), np.int64(1), np.int64(2)
    half = g.Add(g.Div(n, two), one)
    js = g.Unsqueeze(g.Range(zero, half if inverse and onesided else n, one), [1])
    ks = g.Unsqueeze(g.Range(zero, half if onesided and not inverse else n, one), [0])
    jk = g.Mul(js, ks)
    # Opset 10 added the integer remainder; every opset has the quotient.
    rest = g.Sub(jk, g.Mul(g.Div(jk, n), n))
    wide = ir.DataType.DOUBLE
    count = g.Cast(n, to=wide)
    angles = g.Div(g.Mul(g.Cast(rest, to=wide), g.const(2 * math.pi, wide)), count)
    cos, sin = g.Cos(angles), g.Sin(angles)
    if not inverse:
        return [g.Cast(m, to=g.dtype(x)) for m in (cos, g.Neg(sin))]
    factor = g.Reciprocal(count)
    if onesided:
        alone = g.Or(g.Equal(js, zero), g.Equal(g.Mul(js, two), n))
        factor = g.Mul(factor, g.Where(alone, g.const(1.0, wide), g.const(2.0, wide)))
    return [g.Cast(g.Mul(m, factor), to=g.dtype(x)) for m in (cos, sin)]


def _transform_by_factors(g: Graph, x: _Pair, n: int, inverse: bool) -> _Pair:
    """Return a transform of length n = a b, without the division of the inverse.

    Inputs are indexed by b i + j, outputs by p + a q. For each j, the numbers are transformed from i to p, and rotated
    by 2 pi j p / n. Then, for each p, they are transformed from j to q.
    """
    found = [a for a in range(2, math.isqrt(n) + 1) if n % a == 0 and n // a <= LARGEST]
    if not found:
        raise Unsupported(f"a transform of {n} numbers, which has no factors up to {LARGEST}")
    a = found[-1]
    b, sign, dtype = n // a, 1.0 if inverse else -1.0, g.dtype(x.real)
    rank = g.rank(x.real)
    dims = [0] * (rank - 1)
    swap = [*range(rank - 1), rank, rank - 1]

    def turned_by(rows: int, columns: int, size: int) -> tuple[ir.Value, ir.Value]:
        cos, sin = cos_sin(np.outer(np.arange(rows), np.arange(columns)), size)
        return g.const(rounded_tensor(cos, dtype)), g.const(rounded_tensor(sign * sin, dtype))

    def factor(x: _Pair, size: int) -> _Pair:
        cos, sin = turned_by(size, size, size)
        return _product(g, _each(x, lambda p: g.Transpose(p, perm=swap)), cos, sin)

    apart = np.array([*dims, a, b], np.int64)
    x = factor(_each(x, lambda p: g.Reshape(p, apart)), a)
    cos, sin = turned_by(b, a, n)
    imag = x.imag
    assert imag is not None
    turned = g.Sub(g.Mul(x.real, cos), g.Mul(imag, sin)), g.Add(g.Mul(x.real, sin), g.Mul(imag, cos))
    x = factor(_Pair(*turned), b)
    whole = np.array([*dims, n], np.int64)
    return _each(x, lambda p: g.Reshape(g.Transpose(p, perm=swap), whole))
