"""Rules that change shapes and keep elements, with dims that may be dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import ARITHMETIC, NUMBERS, cast, widen
from ..common.random import apply_dropout
from ..common.shapes import Axis, dims, expand, full_like, reshape, reshape_fixed, reshape_to, transpose
from ..net import Net
from ..rules import onnx_op


@onnx_op("Identity")
def identity(net: Net, x: Blob) -> Blob:
    return x


@onnx_op("Constant")
def constant(
    net: Net,
    *,
    sparse_value: ir.TensorProtocol | None,
    value: ir.TensorProtocol | None,
    value_float: float | None,
    value_floats: Sequence[float] | None,
    value_int: int | None,
    value_ints: Sequence[int] | None,
    value_string: str | None,
    value_strings: Sequence[str] | None,
) -> Blob:
    """Constants inside subgraphs; constants of the main graph are already weights."""
    if value is not None:
        return net.const(value)
    for number, dtype in ((value_float, np.float32), (value_floats, np.float32), (value_int, np.int64),
                          (value_ints, np.int64)):  # fmt: skip
        if number is not None:
            return net.const(np.array(number, dtype))
    raise Unsupported("a sparse constant or one of strings")


@onnx_op("Dropout")
def dropout(net: Net, x: Blob, ratio: Blob | None, training_mode: Blob | None, *, seed: int | None) -> list[Blob]:
    """The identity, with a mask that keeps everything; dropout in training, with `seed`, is in `random.py`."""
    if training_mode is None or not net.need(training_mode, "training_mode"):
        return [x, full_like(net, x, 1, ir.DataType.BOOL)]
    share = 0.5 if ratio is None else float(net.need(ratio, "the ratio of Dropout"))
    return apply_dropout(net, x, share)


@onnx_op("Reshape")
def reshape_rule(net: Net, x: Blob, shape: Blob, *, allowzero: int) -> Blob:
    """A constant shape means the same in Caffe2; others are taken from known dims, or computed at run time."""
    target = net.static(shape)
    if target is not None:
        made = [int(d) for d in target]
        if not allowzero or 0 not in made:
            return net.Reshape(x, shape=made, outputs=2)[0]
        if -1 not in made:  # a tensor without elements can have any dims
            return reshape_fixed(net, x, made)
        raise Unsupported("allowzero=1 and dims of 0 and −1: Caffe2 copies a dim for 0")
    expected = net.results[0].shape
    known = None if expected is None else [d if isinstance(d, int) else d.value for d in expected]
    y = None if allowzero else reshape_to(net, x, known)
    return net.Reshape(x, widen(net, shape, (ir.DataType.INT64,)), outputs=2)[0] if y is None else y


@onnx_op("Flatten")
def flatten(net: Net, x: Blob, *, axis: int) -> Blob:
    return net.Flatten(x, axis=net.axis(x, axis))


@onnx_op("Squeeze")
def squeeze(net: Net, x: Blob, axes: Blob | None) -> Blob:
    if axes is not None:
        gone = [net.axis(x, int(a)) for a in net.need(axes, "the axes of Squeeze").ravel()]
    elif None in net.shape(x) or any(isinstance(d, str) for d in net.shape(x)):
        raise Unsupported("Squeeze without axes, of dims that are not fixed")
    else:
        gone = [i for i, d in enumerate(net.shape(x)) if d == 1]
    return net.Squeeze(x, dims=sorted(gone)) if gone else x


@onnx_op("Unsqueeze")
def unsqueeze(net: Net, x: Blob, axes: Blob) -> Blob:
    new = [int(a) for a in net.need(axes, "the axes of Unsqueeze").ravel()]
    if any(a < 0 for a in new):
        new = [a % (net.rank(x) + len(new)) for a in new]
    return net.ExpandDims(x, dims=sorted(new)) if new else x


@onnx_op("Transpose")
def transpose_rule(net: Net, x: Blob, *, perm: Sequence[int] | None) -> Blob:
    return transpose(net, x, list(perm) if perm is not None else list(range(net.rank(x)))[::-1])


@onnx_op("Concat")
def concat(net: Net, *xs: Blob, axis: int) -> Blob:
    if len(xs) == 1:
        return xs[0]
    return net.op("Concat", xs, axis=net.axis(xs[0], axis), outputs=2)[0]


@onnx_op("Split")
def split(net: Net, x: Blob, sizes: Blob | None, *, axis: int, num_outputs: int | None) -> list[Blob]:
    along = net.axis(x, axis)
    count = len(net.results)
    if count == 1:
        return [x]
    size = net.shape(x)[along]
    given: dict[str, Any] = {}
    if sizes is not None:
        given["split"] = [int(s) for s in net.need(sizes, "the sizes of Split")]
    elif isinstance(size, int):
        chunk = -(-size // count)
        given["split"] = [min(chunk, size - i * chunk) for i in range(count)]
    # Without sizes Caffe2 splits evenly, and fails if ONNX would make the last part smaller.
    return net.Split(x, axis=along, **given, outputs=count)


@onnx_op("Shape")
def shape_of(net: Net, x: Blob, *, start: int, end: int | None) -> Blob:
    if x.shape is None:
        if start == 0 and end is None:
            return net.Shape(x)
        raise Unsupported("a slice of the shape of a tensor of unknown rank")
    part = list(range(net.rank(x)))[start:end]
    if all(isinstance(x.shape[i], int) for i in part):
        return net.const(np.array([x.shape[i] for i in part], dtype=np.int64))
    return net.Shape(x) if len(part) == net.rank(x) else net.Shape(x, axes=part)


@onnx_op("Size")
def size_of(net: Net, x: Blob) -> Blob:
    if x.shape is not None and all(isinstance(d, int) for d in x.shape):
        return net.const(np.array(np.prod([int(str(d)) for d in x.shape]), dtype=np.int64))
    return net.Size(x)


@onnx_op("Expand")
def expand_rule(net: Net, x: Blob, shape: Blob) -> Blob:
    expected = net.results[0].shape
    known = None if expected is None else tuple(d if isinstance(d, int) else d.value for d in expected)
    if known is not None and None not in known and known == x.shape:
        return x
    if known is not None and all(isinstance(d, int) for d in known):
        shape = net.const(np.array(known, dtype=np.int64))
    return expand(net, x, shape, known)


@onnx_op("Tile")
def tile(net: Net, x: Blob, repeats: Blob) -> Blob:
    wide = widen(net, x, ARITHMETIC)
    return cast(net, net.NumpyTile(wide, repeats), x.dtype)


@onnx_op("ConstantOfShape")
def constant_of_shape(net: Net, shape: Blob, *, value: ir.TensorProtocol | None) -> Blob:
    """ConstantOfShape-23. A number that an argument cannot hold exactly is expanded from a constant."""
    number = np.zeros(1, np.float32) if value is None else value.numpy()
    dtype = ir.DataType.FLOAT if value is None else ir.DataType(value.dtype)
    target = net.static(shape)
    content = number.ravel()[0]
    if target is not None and target.size == 0:
        return net.const(number.reshape(()))
    rounded = dtype == ir.DataType.DOUBLE and float(np.float32(content)) != float(content)
    if rounded or dtype == ir.DataType.FLOAT16:
        return expand(net, net.const(number.reshape(())), shape, None)
    filled = float(content) if dtype.is_floating_point() else int(content)
    if target is not None:
        sizes = [int(d) for d in target]
        return net.facts(net.ConstantFill(shape=sizes, value=filled, dtype=NUMBERS[dtype]), dtype, sizes)
    return net.facts(net.ConstantFill(shape, value=filled, dtype=NUMBERS[dtype], input_as_shape=1), dtype)


@onnx_op("Range")
def arange(net: Net, start: Blob, limit: Blob, delta: Blob) -> Blob:
    """Range-11. Caffe2's Range of integers with a negative step loses its last element, so it counts the steps instead.

    For floats, the number of elements is that of onnxruntime, which counts in float64.
    """
    if start.dtype.is_floating_point():
        return cast(net, net.Range(*(widen(net, v, (ir.DataType.DOUBLE,)) for v in (start, limit, delta))), start.dtype)
    if net.static(delta) is not None and int(net.need(delta, "")) > 0:
        return cast(net, net.Range(*(widen(net, v) for v in (start, limit, delta))), start.dtype)
    first, end, step = (cast(net, v, ir.DataType.INT64) for v in (start, limit, delta))
    # The number of steps is the quotient, rounded up.
    span = net.Sub(end, first)
    whole = net.Div(span, step)
    rest = net.Mul(net.Sub(span, net.Mul(whole, step)), net.Sign(step))
    count = net.Add(whole, cast(net, net.GT(rest, net.const(np.array(0))), ir.DataType.INT64))
    count = net.Mul(count, cast(net, net.GT(count, net.const(np.array(0))), ir.DataType.INT64))
    steps = net.facts(net.Range(count), ir.DataType.INT64, (None,))
    return cast(net, net.Add(net.Mul(steps, step), first), start.dtype)


@onnx_op("DepthToSpace")
def depth_to_space(net: Net, x: Blob, *, blocksize: int, mode: str) -> Blob:
    """[N, C·b², H, W] to [N, C, H·b, W·b]: split the channels, interleave, merge; N, H and W may be dynamic."""
    b = blocksize
    depth = Axis(1, divided=b * b)
    order = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    channels: list[int | Axis] = [b, b, depth] if mode == "DCR" else [depth, b, b]
    mixed = transpose(net, reshape(net, x, [Axis(0), *channels, Axis(2), Axis(3)]), order)
    return _reshape_mixed(net, mixed, x, [Axis(0), depth, Axis(2, times=b), Axis(3, times=b)])


@onnx_op("SpaceToDepth")
def space_to_depth(net: Net, x: Blob, *, blocksize: int) -> Blob:
    """[N, C, H, W] to [N, b²·C, H/b, W/b]."""
    b = blocksize
    height, width = Axis(2, divided=b), Axis(3, divided=b)
    mixed = transpose(net, reshape(net, x, [Axis(0), Axis(1), height, b, width, b]), [0, 3, 5, 1, 2, 4])
    return _reshape_mixed(net, mixed, x, [Axis(0), Axis(1, times=b * b), height, width])


def _reshape_mixed(net: Net, mixed: Blob, x: Blob, target: Sequence[Axis]) -> Blob:
    """Return `mixed` with dims computed from those of `x`."""
    made: list[int] = []
    for i, t in enumerate(target):
        size = net.shape(x)[t.index]
        if isinstance(size, int):
            made.append(size * t.times // t.divided)
        else:
            made.append(0 if i == t.index == 0 and t.times == t.divided else -1)
    if made.count(-1) <= 1:
        return net.Reshape(mixed, shape=made, outputs=2)[0]
    factors = net.const(np.array([t.times for t in target], dtype=np.int64))
    shape = net.Mul(dims(net, x), factors)
    if any(t.divided != 1 for t in target):
        shape = net.Div(shape, net.const(np.array([t.divided for t in target], dtype=np.int64)))
    return net.Reshape(mixed, shape, outputs=2)[0]
