"""Control flow: subgraphs come as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from convert.errors import Unsupported

from ..constants import permute
from ..emit import Emitter, SubgraphFunction, Value, dtype_and_shape
from ..rules import onnx_op
from ..sequence_values import OptionalTensor, flat_tensors, is_nested, join_values, rebuild_value, to_tensor_list


@onnx_op("If")
def if_(t, condition, *, then_branch, else_branch):
    known = t.static(condition)
    if known is not None:
        return tuple((then_branch if known.all() else else_branch)())
    if any(not isinstance(v.type, ir.TensorType) for v in then_branch.graph.outputs):
        return _nested_if(condition, then_branch, else_branch)
    shapes = [_common_shape(a, b) for a, b in zip(then_branch.graph.outputs, else_branch.graph.outputs, strict=True)]

    def run(branch):
        # An identity of its own: a branch may return what surrounds it.
        return lambda: [tf.identity(y) for y in branch()]

    results = tf.cond(tf.reshape(condition, []), run(then_branch), run(else_branch))
    for y, shape in zip(results, shapes, strict=True):
        if y.shape.rank is None:
            y.set_shape(shape)
    return tuple(results)


def _nested_if(condition: tf.Tensor, then_branch: SubgraphFunction, else_branch: SubgraphFunction) -> tuple[Value, ...]:
    """If with sequences or optionals: the branches are traced once more before, to see what their results hold."""
    with FuncGraph("trial").as_default():
        forms = [join_values(a, b) for a, b in zip(then_branch(), else_branch(), strict=True)]

    def run(branch: SubgraphFunction) -> Callable[[], list[tf.Tensor]]:
        return lambda: [x for y, form in zip(branch(), forms, strict=True) for x in flat_tensors(y, form)]

    flat: Sequence[tf.Tensor] = tf.cond(tf.reshape(condition, []), run(then_branch), run(else_branch))
    results = []
    for form in forms:
        value, flat = rebuild_value(form, flat)
        results.append(value)
    return tuple(results)


def _common_shape(a: ir.Value, b: ir.Value) -> tf.TensorShape:
    """What two shapes have in common."""
    return dtype_and_shape(a)[1].most_specific_compatible_shape(dtype_and_shape(b)[1])


@onnx_op("Loop")
def loop(t, M, cond, *carried, body):
    count = len(carried)
    if any(is_nested(x) for x in carried):
        return _nested_loop(t, M, cond, carried, body)
    limit = None if M is None else tf.reshape(tf.cast(M, tf.int64), [])
    start = tf.constant(True) if cond is None else tf.reshape(cond, [])
    outputs = body.graph.outputs[1 + count :]
    arrays = [_empty_tensor_array(value) for value in outputs]

    def more(i, going, *rest):
        return going if limit is None else going & (i < limit)

    def step(i, going, values, arrays):
        going, *results = body(i, going, *values)
        values = [_restore_rank(new, old) for new, old in zip(results[:count], values, strict=True)]
        arrays = [a.write(tf.cast(i, tf.int32), y) for a, y in zip(arrays, results[count:], strict=True)]
        return i + 1, tf.reshape(going, []), values, arrays

    values = [tf.convert_to_tensor(v) for v in carried]
    invariants = [_shape_invariant(v, g) for v, g in zip(values, body.graph.outputs[1 : 1 + count], strict=True)]
    _, _, values, arrays = tf.while_loop(
        lambda i, going, values, arrays: more(i, going),
        step,
        (tf.constant(0, tf.int64), start, values, arrays),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([]), invariants, [tf.TensorShape(None)] * len(arrays)),
    )
    return (*values, *(_stack(a, y) for a, y in zip(arrays, outputs, strict=True)))


def _nested_loop(
    t: Emitter, M: Value, cond: Value, carried: Sequence[Value], body: SubgraphFunction
) -> tuple[Value, ...]:
    """A Loop that carries sequences: unrolled where the number of trips is known, else with tensor lists."""
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


def _tensor_list_loop(M: Value, cond: Value, carried: Sequence[Value], body: SubgraphFunction) -> tuple[Value, ...]:
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


@onnx_op("Scan")
def scan(
    t, *inputs, body, num_scan_inputs, scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions
):
    if None in inputs:
        raise Unsupported("Scan of opset 8, with sequence lengths")
    count = len(inputs) - num_scan_inputs
    axes = scan_input_axes or [0] * num_scan_inputs
    backwards = scan_input_directions or [0] * num_scan_inputs
    rows = []
    for x, axis, reverse in zip(inputs[count:], axes, backwards, strict=True):
        x = move_axis(x, axis, 0)
        rows.append(tf.reverse(x, [0]) if reverse else x)
    steps = t.shape(rows[0])[0]
    outputs = body.graph.outputs[count:]

    def step(i, values, arrays):
        results = body(*values, *(x[i] for x in rows))
        values = [_restore_rank(new, old) for new, old in zip(results[:count], values, strict=True)]
        return i + 1, values, [a.write(i, y) for a, y in zip(arrays, results[count:], strict=True)]

    values = [tf.convert_to_tensor(v) for v in inputs[:count]]
    invariants = [_shape_invariant(v, g) for v, g in zip(values, body.graph.outputs[:count], strict=True)]
    arrays = [_empty_tensor_array(value) for value in outputs]
    _, values, arrays = tf.while_loop(
        lambda i, values, arrays: i < steps,
        step,
        (tf.constant(0), values, arrays),
        shape_invariants=(tf.TensorShape([]), invariants, [tf.TensorShape(None)] * len(arrays)),
    )
    stacked = []
    for i, array in enumerate(arrays):
        y = _stack(array, outputs[i])
        y = tf.reverse(y, [0]) if scan_output_directions and scan_output_directions[i] else y
        stacked.append(move_axis(y, 0, scan_output_axes[i]) if scan_output_axes else y)
    return (*values, *stacked)


def move_axis(x: Value, source: int, target: int) -> tf.Tensor:
    """One axis moved to another place."""
    rank = x.shape.rank
    order = [i for i in range(rank) if i != source % rank]
    order.insert(target % rank, source % rank)
    return permute(x, order)


def _empty_tensor_array(value: ir.Value) -> tf.TensorArray:
    dtype, shape = dtype_and_shape(value)
    return tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=shape, clear_after_read=False)


def _stack(array: tf.TensorArray, value: ir.Value) -> tf.Tensor:
    """What an output collects; of no rounds, each dim that is not known is 0, as onnxruntime has it."""
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
    """The dims that an iteration is known to keep."""
    shape = dtype_and_shape(result)[1] if result.dtype is not None else tf.TensorShape(None)
    return value.shape.most_specific_compatible_shape(shape)


def _restore_rank(new: Value, old: tf.Tensor) -> tf.Tensor:
    new = tf.convert_to_tensor(new)
    if old.shape.rank is not None and new.shape.rank is None:
        new = tf.ensure_shape(new, old.shape)
    return new
