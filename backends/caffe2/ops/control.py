"""Rules for control flow: branches and bodies become nets in an operator's arguments, or are inlined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.values import known_dims

from ..blob import Blob, Dim
from ..common.dtypes import FLOAT, NUMBERS
from ..common.loops import SubgraphEmitter, append_row, empty_rows, should_unroll, while_loop
from ..common.sequence_values import BlobSequence, OptionalBlob, leaf_blobs, rebuild_value
from ..common.shapes import concat, dim
from ..net import Net, Op
from ..rules import onnx_op


@onnx_op("If")
def if_rule(net: Net, condition: Blob, *, then_branch: SubgraphEmitter, else_branch: SubgraphEmitter) -> list[Any]:
    """If-21. Both branches write the same blobs, and read blobs of the outer net from the workspace."""
    known = net.static(condition)
    if known is not None:
        return (then_branch if known.all() else else_branch)(net)
    nets = net.body(), net.body()
    results = [branch(body) for branch, body in zip((then_branch, else_branch), nets, strict=True)]
    flat = [[leaf for value in made for leaf in leaf_blobs(value)] for made in results]
    if [_value_structure(v) for v in results[0]] != [_value_structure(v) for v in results[1]]:
        raise Unsupported("branches that give sequences of different lengths, or an optional in one of them only")
    made = net.op("If", [condition], then_net=nets[0], else_net=nets[1], outputs=len(flat[0]))
    outputs = [made] if isinstance(made, Blob) else list(made)
    for output, a, b in zip(outputs, *flat, strict=True):
        output.dtype, output.shape = a.dtype, _common_dims(a.shape, b.shape)
    for body, sources in zip(nets, flat, strict=True):
        for source, output in zip(sources, outputs, strict=True):
            body.ops.append(Op("Copy", [source], [output], {}))
            body.outputs.append(output)
    rest = iter(outputs)
    return [rebuild_value(value, rest) for value in results[0]]


@onnx_op("Loop")
def loop(net: Net, M: Blob | None, cond: Blob | None, *carried: Any, body: SubgraphEmitter) -> list[Any]:
    """Loop-23, unrolled if the trip count is known, else Caffe2's While."""
    given = net.static(M)
    count = None if given is None else int(given.ravel()[0])
    nested = any(isinstance(v, (BlobSequence, OptionalBlob)) for v in carried)
    start = True if cond is None else net.static(cond)
    if start is not None and not np.all(start):
        count = 0
    if count is not None and (start is not None or count == 0) and (nested or should_unroll(body.graph, count)):
        found = _unroll_body(net, count, carried, body)
        if found is not None:
            return found
    if nested:
        raise Unsupported("a Loop over sequences whose number of steps is known only when the model runs")
    return _emit_loop(net, M, cond, carried, body)


def _unroll_body(net: Net, count: int, carried: Sequence[Any], body: SubgraphEmitter) -> list[Any] | None:
    """Return the results of the unrolled body; None if a computed condition may end the loop early."""
    begin, n = len(net.ops), len(carried)
    values: list[Any] = list(carried)
    collected: list[list[Blob]] = []
    for i in range(count):
        going, *made = body(net, net.const(np.array(i, np.int64)), net.const(np.array(True)), *values)
        goes_on = net.static(going)
        if goes_on is None and i < count - 1:
            del net.ops[begin:]
            return None
        values = made[:n]
        collected.append(made[n:])
        if goes_on is not None and not goes_on.all():
            break
    scanned = body.graph.outputs[1 + n :]
    return [*values, *(_stack_parts(net, [row[k] for row in collected], v) for k, v in enumerate(scanned))]


def _stack_parts(net: Net, parts: list[Blob], value: ir.Value, axis: int = 0) -> Blob:
    """Stack the parts along a new axis; a loop without iterations has no parts."""
    if not parts:
        return empty_rows(net, value)
    if axis < 0:
        axis += net.rank(parts[0]) + 1
    apart = [net.ExpandDims(p, dims=[axis]) for p in parts]
    joined = apart[0] if len(apart) == 1 else net.op("Concat", apart, axis=axis, outputs=2)[0]
    shape = None if parts[0].shape is None else [*parts[0].shape[:axis], len(parts), *parts[0].shape[axis:]]
    return net.facts(joined, parts[0].dtype, shape)


def _emit_loop(
    net: Net, M: Blob | None, cond: Blob | None, carried: Sequence[Blob], body: SubgraphEmitter
) -> list[Blob]:
    n = len(carried)
    scanned = [empty_rows(net, value) for value in body.graph.outputs[1 + n :]]

    def step(inner: Net, i: Blob, values: Sequence[Blob]) -> tuple[Blob | None, list[Blob]]:
        going, *made = body(inner, i, inner.const(np.array(True)), *values[:n])
        rows = [append_row(inner, old, new) for old, new in zip(values[n:], made[n:], strict=True)]
        return going, [*made[:n], *rows]

    shapes = [_dims(v) for v in body.graph.inputs[2:]] + [None if s.shape is None else (None, *s.shape[1:])
                                                          for s in scanned]  # fmt: skip
    return while_loop(net, M, cond, [*carried, *scanned], shapes, step)


@onnx_op("Scan")
def scan(
    net: Net,
    *inputs: Blob,
    body: SubgraphEmitter,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None,
    scan_input_directions: Sequence[int] | None,
    scan_output_axes: Sequence[int] | None,
    scan_output_directions: Sequence[int] | None,
) -> list[Blob]:
    """Scan-23, unrolled over a short axis of static size, else Caffe2's While."""
    n = len(inputs) - num_scan_inputs
    carried, given = list(inputs[:n]), list(inputs[n:])
    axes = [net.axis(x, a) for x, a in zip(given, scan_input_axes or [0] * num_scan_inputs, strict=True)]
    turned = scan_input_directions or [0] * num_scan_inputs
    size = next((s for s in (net.shape(x)[a] for x, a in zip(given, axes, strict=True)) if isinstance(s, int)), None)
    scanned = body.graph.outputs[n:]
    out_axes = scan_output_axes or [0] * len(scanned)
    out_turned = scan_output_directions or [0] * len(scanned)
    if size is not None and should_unroll(body.graph, size):
        rows: list[list[Blob]] = []
        for i in range(size):
            places = [net.const(np.array(size - 1 - i if t else i, np.int64)) for t in turned]
            made = body(net, *carried, *map(partial(_element_at, net), given, axes, places))
            carried, row = made[:n], made[n:]
            rows.append(row)
        outputs = [
            _stack_parts(net, [row[k] for row in (rows[::-1] if t else rows)], v, a)
            for k, (v, a, t) in enumerate(zip(scanned, out_axes, out_turned, strict=True))
        ]
        return [*carried, *outputs]
    if any(out_axes):
        raise Unsupported("scan_output_axes over an axis that is long or not fixed")
    return _emit_scan(net, carried, given, axes, turned, body, out_turned)


def _emit_scan(
    net: Net,
    carried: list[Blob],
    given: list[Blob],
    axes: list[int],
    turned: Sequence[int],
    body: SubgraphEmitter,
    out_turned: Sequence[int],
) -> list[Blob]:
    """Emit a While that writes each output in place, into zeros; an output of another dtype or of unknown size grows
    row by row.
    """
    n = len(carried)
    steps = dim(net, given[0], axes[0])
    collected = [_zero_rows(net, steps, v, [*carried, *given]) for v in body.graph.outputs[n:]]
    starts = [empty_rows(net, v) for v, c in zip(body.graph.outputs[n:], collected, strict=True) if c is None]
    if any(t and c is None for t, c in zip(out_turned, collected, strict=True)):
        raise Unsupported("scan_output_directions of tensors whose size is not fixed")

    def step(inner: Net, i: Blob, values: Sequence[Blob]) -> tuple[None, list[Blob]]:
        back = i
        if any((*turned, *out_turned)):
            back = inner.Sub(inner.Sub(inner.Reshape(steps, shape=[], outputs=2)[0], i), inner.const(np.array(1)))
            back = inner.facts(back, ir.DataType.INT64, ())
        places = [back if t else i for t in turned]
        made = body(inner, *values[:n], *map(partial(_element_at, inner), given, axes, places))
        grown = iter(values[n:])
        rows = []
        for whole, row, t in zip(collected, made[n:], out_turned, strict=True):
            if whole is None:
                rows.append(append_row(inner, next(grown), row))
                continue
            place = inner.Reshape(back if t else i, shape=[1], outputs=2)[0]
            inner.ops.append(Op("ScatterAssign", [whole, place, inner.ExpandDims(row, dims=[0])], [whole], {}))
        return None, [*made[:n], *rows]

    shapes = [_dims(v) for v in body.graph.inputs[:n]] + [None if s.shape is None else (None, *s.shape[1:])
                                                          for s in starts]  # fmt: skip
    last = while_loop(net, steps, None, [*carried, *starts], shapes, step)
    # The loop also writes these, so readers must wait for the loop.
    net.ops[-1].outputs.extend(c for c in collected if c is not None)
    grown = iter(last[n:])
    return [*last[:n], *(next(grown) if c is None else c for c in collected)]


def _zero_rows(net: Net, steps: Blob, value: ir.Value, around: Sequence[Blob]) -> Blob | None:
    """Return zeros for a row of each step, of the body's output `value`; None if they cannot be written in place.

    A dim of unknown size is that of one of the blobs `around` with the same name.
    """
    sizes: list[Blob] = [steps]
    for d in known_dims(value) or (None,):
        shapes = [(x, x.shape or ()) for x in around]
        found = next(((x, dims.index(d)) for x, dims in shapes if d is not None and d in dims), None)
        if isinstance(d, int):
            sizes.append(net.const(np.array([d], np.int64)))
        elif found is not None:
            sizes.append(dim(net, *found))
        else:
            return None
    if value.dtype not in FLOAT:
        return None
    rows = net.ConstantFill(concat(net, sizes), value=0.0, input_as_shape=1, dtype=NUMBERS[value.dtype])
    return net.facts(rows, value.dtype, (None, *(known_dims(value) or ())))


def _element_at(net: Net, x: Blob, axis: int, index: Blob) -> Blob:
    """Return the element of `x` at an index along an axis, without that axis."""
    shape = [d for i, d in enumerate(net.shape(x)) if i != axis]
    return net.facts(net.Gather(x, index, axis=axis), x.dtype, shape)


def _dims(value: ir.Value) -> tuple[Dim, ...] | None:
    return None if value.shape is None else tuple(d if isinstance(d, int) else None for d in value.shape)


def _common_dims(a: tuple[Dim, ...] | None, b: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def _value_structure(value: Any) -> Any:
    """Return the structure of a value without its tensors."""
    if isinstance(value, BlobSequence):
        return [_value_structure(v) for v in value.items]
    if isinstance(value, OptionalBlob):
        return ("optional", None if value.value is None else _value_structure(value.value))
    return "tensor"
