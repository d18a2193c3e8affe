"""Caffe2's While: a net that runs repeatedly in the same workspace and overwrites the loop-carried blobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob, Dim
from ..net import Net, Op
from .dtypes import NUMBERS, cast

_LARGEST = 4000
"""Maximum number of graph operators to which a loop with a known trip count is unrolled, which runs faster."""

Step = Callable[[Net, Blob, Sequence[Blob]], "tuple[Blob | None, list[Blob]]"]


@dataclass(frozen=True)
class SubgraphEmitter:
    """A subgraph: `body(net, *inputs)` emits its nodes to `net` and returns its outputs."""

    graph: ir.Graph
    emit: Callable[..., list[Any]]

    def __call__(self, net: Net, *inputs: Any) -> list[Any]:
        return self.emit(net, *inputs)


def should_unroll(graph: ir.Graph, count: int) -> bool:
    """Return whether to unroll a body this many times."""
    return count * max(len(graph), 1) <= _LARGEST


def while_loop(
    net: Net,
    M: Blob | None,
    cond: Blob | None,
    carried: Sequence[Blob],
    shapes: Sequence[tuple[Dim, ...] | None],
    step: Step,
) -> list[Blob]:
    """Return the carried values after a loop. `step(net, i, values)` returns a condition (None: always true) and new
    values.

    `shapes` are the known dims of the carried values, which are the same in every iteration.
    """
    states = [_copy_state(net, x, shape) for x, shape in zip(carried, shapes, strict=True)]
    zero, one = net.const(np.array([0], np.int64)), net.const(np.array([1], np.int64))
    i = _copy_state(net, zero, (1,))
    limit = None if M is None else _scalar_to_vector(net, cast(net, M, ir.DataType.INT64))
    start = net.const(np.array([True])) if cond is None else _scalar_to_vector(net, cond)
    going = _copy_state(net, start if limit is None else net.And(start, net.LT(zero, limit)), (1,))
    body = net.body()
    index = body.facts(body.Reshape(i, shape=[], outputs=2)[0], ir.DataType.INT64, ())
    more, made = step(body, index, states)
    # A new value may be the old value of another variable: compute all of them before any is overwritten.
    made = [body.facts(body.Copy(x), x.dtype, x.shape) if x in states else x for x in made]
    following = body.Add(i, one)
    goes_on = body.const(np.array([True])) if more is None else _scalar_to_vector(body, more)
    goes_on = goes_on if limit is None else body.And(goes_on, body.LT(following, limit))
    for source, target in zip([*made, following, goes_on], [*states, i, going], strict=True):
        body.ops.append(Op("Copy", [source], [target], {}))
    body.outputs.extend([*states, i, going])
    net.ops.append(Op("While", [going], [*states, i, going], {"loop_net": body}))
    return states


def empty_rows(net: Net, value: ir.Value) -> Blob:
    """Return zero rows of the body output `value`."""
    dims = None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]
    if dims is None or None in dims or value.dtype is None:
        raise Unsupported("a loop that collects tensors whose size is not fixed")
    shape = [0, *(int(str(d)) for d in dims)]
    return net.facts(net.ConstantFill(shape=shape, value=_zero(value.dtype), dtype=NUMBERS[value.dtype]),
                     value.dtype, shape)  # fmt: skip


def append_row(net: Net, rows: Blob, row: Blob) -> Blob:
    """Return `rows` with one more row."""
    single = net.ExpandDims(row, dims=[0])
    return net.facts(net.op("Concat", [rows, single], axis=0, outputs=2)[0], row.dtype, (None, *net.shape(row)))


def _zero(dtype: ir.DataType) -> float | int:
    return 0.0 if dtype.is_floating_point() else 0


def _scalar_to_vector(net: Net, x: Blob) -> Blob:
    """Return a scalar as a vector of one element; all numbers of a loop have this form."""
    if x.shape == (1,):
        return x
    content = x.content
    if content is not None:
        return net.const(content.numpy().reshape(1))
    return net.facts(net.Reshape(x, shape=[1], outputs=2)[0], x.dtype, (1,))


def _copy_state(net: Net, x: Blob, shape: tuple[Dim, ...] | None) -> Blob:
    """Return a copy of a value's initial content, which the loop overwrites."""
    copy: Blob = net.Copy(x)
    copy.dtype, copy.shape = x.dtype, shape
    return copy
