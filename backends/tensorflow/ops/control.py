"""Control flow; subgraphs are passed as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice
from tensorflow.python.framework.func_graph import FuncGraph

from convert.errors import Unsupported
from convert.graph.values import constant, known_dims
from convert.rules.emitter import Subgraph

from ..constants import permute
from ..emit import Dim, Emitter, Value, dtype_and_shape
from ..rules import CALIBRATED, LITE, onnx_op
from ..sequence_values import OptionalTensor, flat_tensors, is_nested, join_values, rebuild_value, to_tensor_list
from .shape import pack_dims


@onnx_op("If")
def if_(t, condition, *, then_branch, else_branch):
    known = t.static(condition)
    if known is not None:
        return tuple((then_branch if known.all() else else_branch)())
    if any(not isinstance(v.type, ir.TensorType) for v in then_branch.graph.outputs):
        return _nested_if(condition, then_branch, else_branch)
    shapes = [_common_shape(a, b) for a, b in zip(then_branch.graph.outputs, else_branch.graph.outputs, strict=True)]

    def run(branch):
        # Add an identity, because a branch may return an outer value.
        return lambda: [tf.identity(y) for y in branch()]

    results = tf.cond(tf.reshape(condition, []), run(then_branch), run(else_branch))
    for y, shape in zip(results, shapes, strict=True):
        if y.shape.rank is None:
            y.set_shape(shape)
    return tuple(results)


def _nested_if(condition: tf.Tensor, then_branch: Subgraph, else_branch: Subgraph) -> tuple[Value, ...]:
    """Emit an If with sequences or optionals. The branches are traced once before, to find the form of their
    results.
    """
    with FuncGraph("trial").as_default():
        forms = [join_values(a, b) for a, b in zip(then_branch(), else_branch(), strict=True)]

    def run(branch: Subgraph) -> Callable[[], list[tf.Tensor]]:
        return lambda: [x for y, form in zip(branch(), forms, strict=True) for x in flat_tensors(y, form)]

    flat: Sequence[tf.Tensor] = tf.cond(tf.reshape(condition, []), run(then_branch), run(else_branch))
    results = []
    for form in forms:
        value, flat = rebuild_value(form, flat)
        results.append(value)
    return tuple(results)


def _common_shape(a: ir.Value, b: ir.Value) -> tf.TensorShape:
    """Return the most specific shape that is compatible with both."""
    return dtype_and_shape(a)[1].most_specific_compatible_shape(dtype_and_shape(b)[1])


@dataclass(frozen=True)
class Collection:
    """How a loop stores one of the outputs that it collects row by row."""

    begin: Callable[[], Any]
    write: Callable[[Any, tf.Tensor, tf.Tensor], Any]
    """Function of the stored value, the iteration (int32) and its row."""
    end: Callable[[Any], tf.Tensor]
    invariant: tf.TensorShape


def in_list(value: ir.Value, steps: Dim | None) -> Collection:
    """Collect in a list of tensors; `value` is the body's output. steps: the number of iterations, if it is known."""
    return Collection(
        partial(_empty_tensor_array, value, steps),
        lambda array, i, row: array.write(i, row),
        lambda array: _stack(array, value),
        tf.TensorShape(None),
    )


def in_rows(t: Emitter, body: Subgraph, value: ir.Value, place: int, axis: int, steps: Dim | None) -> Collection:
    """Collect in one tensor, for TensorFlow Lite, which has no lists: rows are replaced, or appended.

    If a dim is not known before the loop, collects in a list, which is refused later. place: the index of the node's
    output. axis: the axis of that output that counts iterations. steps: the number of iterations if it is known before
    the loop.
    """
    dtype, shape = dtype_and_shape(value)
    assert t.node is not None
    own, whole = known_dims(value), known_dims(t.node.outputs[place])
    if own is not None and whole is not None and len(whole) == len(own) + 1:
        beside = [d for i, d in enumerate(whole) if i != axis % len(whole)]
        own = tuple(b if a is None else a for a, b in zip(own, beside, strict=True))
    dims = None if own is None else [_size_of(t, body, d) for d in own]
    if dims is None or None in dims:
        return in_list(value, steps)

    def write(rows: tf.Tensor, i: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        row = tf.reshape(row, pack_dims([1, *dims]))
        if steps is None:
            return tf.concat([rows, row], 0)
        return dynamic_update_slice(rows, row, tf.stack([i, *[0] * len(dims)]))

    def end(rows: tf.Tensor) -> tf.Tensor:
        # A WHILE whose tensor starts empty does not run, so drop the dummy first row.
        rows = rows[1:] if steps is None else rows
        if shape.is_fully_defined():
            return rows
        count = tf.shape(rows)[0]
        return tf.reshape(
            rows, pack_dims([count, *(d if isinstance(d, int) else d * tf.minimum(count, 1) for d in dims)])
        )

    return Collection(
        lambda: tf.zeros(pack_dims([1 if steps is None else steps, *dims]), dtype),
        write,
        end,
        tf.TensorShape([steps if isinstance(steps, int) else None, *shape]),
    )


def _size_of(t: Emitter, body: Subgraph, dim: int | str | None) -> Dim | None:
    """Return the size of a named dim before the loop, read from any outer value used in the loop's body; None if no
    value has it.
    """
    if not isinstance(dim, str):
        return dim
    for value, tensor in body.around.items():
        found = known_dims(value) or ()
        if dim in found and isinstance(tensor, tf.Tensor) and tensor.shape.rank == len(found):
            return t.shape(tensor)[found.index(dim)]
    return None


def goes_on(t: Emitter, cond: Value, body: Subgraph) -> bool:
    """Return whether only the trip count ends a Loop."""
    first, last = None if cond is None else t.static(cond), body.graph.outputs[0]
    if cond is not None and (first is None or not first.all()):
        return False
    while (node := last.producer()) is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        last = node.inputs[0]
    content = constant(last)
    return last is body.graph.inputs[1] or (content is not None and bool(content.numpy().all()))


def collection(t: Emitter, body: Subgraph, value: ir.Value, place: int, axis: int, steps: Dim | None) -> Collection:
    """Return how loops of this target collect; arguments as for `in_rows`."""
    assert t.node is not None
    return in_rows(t, body, value, place, axis, steps) if t.node.domain == LITE else in_list(value, steps)


def _with_sizes(value: tf.Tensor, state: ir.Value) -> tf.Tensor:
    """Return a state of a loop with its known sizes, which TensorFlow Lite's converter forgets.

    Its built-in CONV_2D needs the number of channels. Only a Reshape tells the converter, if one dim is open.
    """
    dims = known_dims(state) or ()
    sizes = [d if isinstance(d, int) else -1 for d in dims]
    if sizes.count(-1) != 1 or len(sizes) < 3 or 0 in sizes:
        return value
    return tf.reshape(value, sizes)


@onnx_op("Loop", f"{LITE}::Loop")
def loop(t, M, cond, *carried, body):
    count = len(carried)
    if any(is_nested(x) for x in carried):
        return _nested_loop(t, M, cond, carried, body)
    limit = None if M is None else tf.reshape(tf.cast(M, tf.int64), [])
    start = tf.constant(True) if cond is None else tf.reshape(cond, [])
    steps = tf.cast(tf.maximum(limit, 0), tf.int32) if limit is not None and goes_on(t, cond, body) else None
    collected = enumerate(body.graph.outputs[1 + count :], count)
    kept = [collection(t, body, value, place, 0, steps) for place, value in collected]

    def more(i, going, *rest):
        return going if limit is None else going & (i < limit)

    def step(i, going, values, rows):
        inner = values
        if t.node.domain == LITE:
            inner = [_with_sizes(v, g) for v, g in zip(values, body.graph.inputs[2 : 2 + count], strict=True)]
        going, *results = body(i, going, *inner)
        values = [_restore_rank(new, old) for new, old in zip(results[:count], values, strict=True)]
        number = tf.cast(i, tf.int32) if kept else None
        rows = [k.write(a, number, y) for k, a, y in zip(kept, rows, results[count:], strict=True)]
        return i + 1, tf.reshape(going, []), values, rows

    values = [tf.convert_to_tensor(v) for v in carried]
    invariants = [_shape_invariant(v, g) for v, g in zip(values, body.graph.outputs[1 : 1 + count], strict=True)]
    _, _, values, rows = tf.while_loop(
        lambda i, going, values, rows: more(i, going),
        step,
        (tf.constant(0, tf.int64), start, values, [k.begin() for k in kept]),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([]), invariants, [k.invariant for k in kept]),
    )
    return (*values, *(k.end(a) for k, a in zip(kept, rows, strict=True)))


def _nested_loop(t: Emitter, M: Value, cond: Value, carried: Sequence[Value], body: Subgraph) -> tuple[Value, ...]:
    """Emit a Loop that carries sequences: unrolled if the trip count is known, else with tensor lists."""
    known, going = t.ints(M), np.array(True) if cond is None else t.static(cond)
    if known is None or going is None:
        return _tensor_list_loop(M, cond, carried, body)
    count, values, rows = len(carried), list(carried), []
    for i in range(known[0] if going.all() else 0):
        first, *results = body(t.store.known(np.array(i, np.int64)), t.store.known(np.array(True)), *values)
        alive = t.static(first)
        if alive is None:
            return _tensor_list_loop(M, cond, carried, body)
        values = results[:count]
        rows.append(results[count:])
        if not alive.all():
            break
    if not rows:
        collected = (dtype_and_shape(v) for v in body.graph.outputs[1 + count :])
        return (*values, *(tf.zeros([0, *(d or 0 for d in shape or ())], dtype) for dtype, shape in collected))
    return (*values, *(tf.stack([tf.convert_to_tensor(x) for x in column]) for column in zip(*rows, strict=True)))


def _tensor_list_loop(M: Value, cond: Value, carried: Sequence[Value], body: Subgraph) -> tuple[Value, ...]:
    count = len(carried)
    if len(body.graph.outputs) > 1 + count or any(isinstance(x, OptionalTensor) for x in carried):
        raise Unsupported("a Loop of unknown length that carries an optional, or a sequence beside collected outputs")
    limit = None if M is None else tf.reshape(tf.cast(M, tf.int64), [])
    start = tf.constant(True) if cond is None else tf.reshape(cond, [])
    forms = [
        replace(to_tensor_list(x), shape=tf.TensorShape(None), length=None) if is_nested(x) else x for x in carried
    ]

    def step(i: tf.Tensor, going: tf.Tensor, *flat: tf.Tensor) -> tuple[tf.Tensor, ...]:
        left: Sequence[tf.Tensor] = flat
        values = []
        for form in forms:
            value, left = rebuild_value(form, left)
            values.append(value)
        going, *results = body(i, going, *values)
        return (
            i + 1,
            tf.reshape(going, []),
            *(x for y, form in zip(results, forms, strict=True) for x in flat_tensors(y, form)),
        )

    first = [x for y, form in zip(carried, forms, strict=True) for x in flat_tensors(y, form)]
    free = [x.shape if x.dtype == tf.variant else tf.TensorShape(None) for x in first]
    flat: Sequence[tf.Tensor] = tf.while_loop(
        lambda i, going, *rest: going if limit is None else going & (i < limit),
        step,
        (tf.constant(0, tf.int64), start, *first),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([]), *free),
    )[2:]
    results = []
    for form in forms:
        value, flat = rebuild_value(form, flat)
        results.append(value)
    return tuple(results)


@onnx_op("Scan", f"{LITE}::Scan")
def scan(
    t, *inputs, body, num_scan_inputs, scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions
):
    if None in inputs:
        raise Unsupported("Scan of opset 8, with sequence lengths")
    count = len(inputs) - num_scan_inputs
    axes = scan_input_axes or [0] * num_scan_inputs
    backwards = scan_input_directions or [0] * num_scan_inputs
    scanned = []
    for x, axis, reverse in zip(inputs[count:], axes, backwards, strict=True):
        x = move_axis(x, axis, 0)
        scanned.append(tf.reverse(x, [0]) if reverse else x)
    steps = t.shape(scanned[0])[0]
    kept = [
        collection(t, body, value, count + i, scan_output_axes[i] if scan_output_axes else 0, steps)
        for i, value in enumerate(body.graph.outputs[count:])
    ]

    def step(i, values, rows):
        results = body(*values, *(x[i] for x in scanned))
        values = [_restore_rank(new, old) for new, old in zip(results[:count], values, strict=True)]
        return i + 1, values, [k.write(a, i, y) for k, a, y in zip(kept, rows, results[count:], strict=True)]

    values = [tf.convert_to_tensor(v) for v in inputs[:count]]
    if _is_unrolled(t, body, [*values, *scanned], steps):
        values, columns = _unrolled_scan(t, body, values, scanned)
    else:
        invariants = [_shape_invariant(v, g) for v, g in zip(values, body.graph.outputs[:count], strict=True)]
        _, values, rows = tf.while_loop(
            lambda i, values, rows: i < steps,
            step,
            (tf.constant(0), values, [k.begin() for k in kept]),
            shape_invariants=(tf.TensorShape([]), invariants, [k.invariant for k in kept]),
        )
        columns = [k.end(collected) for k, collected in zip(kept, rows, strict=True)]
    stacked = []
    for i, y in enumerate(columns):
        y = tf.reverse(y, [0]) if scan_output_directions and scan_output_directions[i] else y
        stacked.append(move_axis(y, 0, scan_output_axes[i]) if scan_output_axes else y)
    return (*values, *stacked)


_MOST_STEPS = 256
"""A calibrated loop of fixed sizes is unrolled up to this many steps."""
_MOST_OPERATORS = 1000
"""A loop on real numbers is unrolled up to this many operators."""


def _is_unrolled(t: Emitter, body: Subgraph, inputs: Sequence[tf.Tensor], steps: Dim) -> bool:
    """Return whether to unroll a Scan of known length for TensorFlow Lite, whose WHILE costs more than a small step.

    If its ranges are going to be measured, it has to be unrolled: TensorFlow's calibrator ends the process at a loop of
    fixed sizes that reads a row by its counter (2.21). Raises `Unsupported` for such a loop that is too long.
    """
    assert t.node is not None
    if t.node.domain != LITE or not isinstance(steps, int):
        return False
    if CALIBRATED not in t.node.metadata_props or not all(x.shape.is_fully_defined() for x in inputs):
        return 0 < steps * len(body.graph) <= _MOST_OPERATORS
    if steps > _MOST_STEPS:
        raise Unsupported(
            f"TensorFlow's converter cannot calibrate a loop of fixed sizes, and {steps} steps are too many to write "
            "out: leave the batch size open (--input), or store weights alone (--quantize int8-weights)"
        )
    return True


def _unrolled_scan(
    t: Emitter, body: Subgraph, values: list[tf.Tensor], scanned: Sequence[tf.Tensor]
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Return the last values and the stacked rows of a Scan with a known number of steps."""
    count, rows = len(values), []
    for elements in zip(*(tf.unstack(x) for x in scanned), strict=True):
        results = [tf.convert_to_tensor(y) for y in body(*values, *elements)]
        values = results[:count]
        rows.append(results[count:])
    return values, [tf.stack(column) for column in zip(*rows, strict=True)]


def move_axis(x: Value, source: int, target: int) -> tf.Tensor:
    """Return x with one axis moved."""
    rank = x.shape.rank
    order = [i for i in range(rank) if i != source % rank]
    order.insert(target % rank, source % rank)
    return permute(x, order)


def _empty_tensor_array(value: ir.Value, steps: Dim | None) -> tf.TensorArray:
    dtype, shape = dtype_and_shape(value)
    grows = steps is None
    return tf.TensorArray(dtype, 0 if grows else steps, grows, clear_after_read=False, element_shape=shape)


def _stack(array: tf.TensorArray, value: ir.Value) -> tf.Tensor:
    """Return the collected rows. After no iterations each unknown dim is 0, as in onnxruntime."""
    dtype, shape = dtype_and_shape(value)
    if shape.is_fully_defined():
        return array.stack()
    some = array.size() > 0
    if shape.rank is None:
        return tf.cond(some, array.stack, lambda: tf.zeros([0], dtype))
    dims = tf.where(some, [-1 if d is None else d for d in shape], [d or 0 for d in shape])
    y = tf.raw_ops.TensorListStack(input_handle=array.flow, element_shape=dims, element_dtype=dtype)
    y.set_shape([None, *shape])
    return y


def _shape_invariant(value: tf.Tensor, result: ir.Value) -> tf.TensorShape:
    """Return the dims that each iteration is known to keep."""
    shape = dtype_and_shape(result)[1] if result.dtype is not None else tf.TensorShape(None)
    return value.shape.most_specific_compatible_shape(shape)


def _restore_rank(new: Value, old: tf.Tensor) -> tf.Tensor:
    new = tf.convert_to_tensor(new)
    if old.shape.rank is not None and new.shape.rank is None:
        new = tf.ensure_shape(new, old.shape)
    return new
