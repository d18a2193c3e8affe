"""RNN, GRU and LSTM: one loop over time per direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

from convert.errors import Unsupported
from convert.semantics.activations import activations as activations_of

from ..emit import Emitter, Value
from ..rules import CALIBRATED, LITE, onnx_op
from . import activation

_PLAIN: dict[str, Callable] = {
    "Relu": tf.nn.relu,
    "Tanh": tf.tanh,
    "Sigmoid": tf.sigmoid,
    "Softsign": tf.nn.softsign,
    "Softplus": tf.nn.softplus,
}
_WITH_NUMBERS: dict[str, Callable] = {
    "Affine": lambda x, alpha, beta: alpha * x + beta,
    "LeakyRelu": lambda x, alpha, beta: tf.nn.leaky_relu(x, alpha),
    "ThresholdedRelu": lambda x, alpha, beta: tf.where(x > alpha, x, 0),
    "ScaledTanh": lambda x, alpha, beta: alpha * tf.tanh(beta * x),
    "HardSigmoid": lambda x, alpha, beta: activation.hard_sigmoid(None, x, alpha=alpha, beta=beta),
    "Elu": lambda x, alpha, beta: activation.elu(None, x, alpha=alpha),
}

_MOST_STEPS = 256
"""A calibrated loop of fixed sizes is unrolled up to this many steps."""


def activation_functions(
    operator: str,
    names: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    directions: int,
) -> list[list[Callable]]:
    """Return the activation functions of each direction of an RNN, GRU or LSTM."""
    return [
        [_PLAIN.get(f.name) or partial(_WITH_NUMBERS[f.name], alpha=f.alpha, beta=f.beta) for f in found]
        for found in activations_of(operator, names, alphas, betas, directions)
    ]


def run_directions(
    t: Emitter,
    x: Value,
    direction: str,
    layout: int,
    lengths: tf.Tensor | None,
    states: Sequence[Any],
    make_cell: Callable,
) -> tuple[tf.Tensor, ...]:
    """Run a cell over time in each direction.

    x is [time, batch, input] (`layout` 1: batch first). `states` are initial states [directions, batch, hidden], or
    functions that create zeros. `make_cell(d)` returns for direction d a projection that is applied to all of x before
    the loop, and the step `(x_t, *states) -> states` on a row of the projected input. Returns all hidden states [time,
    directions, batch, hidden] and the last of each state [directions, batch, hidden].
    """
    if layout:
        x = tf.transpose(x, [1, 0, 2])
        states = [tf.transpose(s, [1, 0, 2]) for s in states]
    assert t.node is not None
    run, turned = (_loop_in_lite, _reverse_steps_lite) if t.node.domain == LITE else (_loop, _reverse_steps)
    every, last = [], []
    for d in range(2 if direction == "bidirectional" else 1):
        backwards = direction == "reverse" or d == 1
        project, step = make_cell(d)
        # With lengths, the reverse direction starts at the end of each sequence; without lengths, at the last step.
        own = backwards and lengths is not None
        rows = project(turned(x, lengths) if own else x)
        outputs, final = run(t, rows, lengths, [s[d] for s in states], step, backwards and not own)
        every.append(turned(outputs, lengths) if own else outputs)
        last.append(final)
    y = tf.stack(every, 1)
    finals = [tf.stack(parts, 0) for parts in zip(*last, strict=True)]
    if layout:
        return tf.transpose(y, [2, 0, 1, 3]), *(tf.transpose(f, [1, 0, 2]) for f in finals)
    return y, *finals


def _loop(
    t: Emitter,
    x: tf.Tensor,
    lengths: tf.Tensor | None,
    states: Sequence[tf.Tensor],
    cell: Callable[..., Sequence[tf.Tensor]],
    backwards: bool,
) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
    """Return all outputs of the cell, collected in a list and stacked, and its last states."""
    time = t.shape(x)[0]
    array = tf.TensorArray(x.dtype, time, element_shape=states[0].shape)

    def step(i: tf.Tensor, array: tf.TensorArray, *before: tf.Tensor) -> tuple[Any, ...]:
        at = time - 1 - i if backwards else i
        shown, after = _mask_finished(i, lengths, cell(x[at], *before), before)
        return (i + 1, array.write(at, shown), *after)

    loop = tf.while_loop(lambda i, *rest: i < time, step, (0, array, *states), maximum_iterations=time)
    return loop[1].stack(), loop[2:]


def _loop_in_lite(
    t: Emitter,
    x: tf.Tensor,
    lengths: tf.Tensor | None,
    states: Sequence[tf.Tensor],
    cell: Callable[..., Sequence[tf.Tensor]],
    backwards: bool,
) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
    """`_loop` for TensorFlow Lite: unrolled if the node is to be calibrated and all its sizes are known.

    TensorFlow's calibrator ends the process at a loop of fixed sizes that reads a row by its counter (2.21).
    """
    assert t.node is not None
    time = t.shape(x)[0]
    known = isinstance(time, int) and x.shape.is_fully_defined()
    if not (known and CALIBRATED in t.node.metadata_props):
        return _loop_without_list(t, x, lengths, states, cell, backwards)
    if time > _MOST_STEPS:
        raise Unsupported(
            f"TensorFlow's converter cannot calibrate a loop of fixed sizes, and {time} steps are too many to write "
            "out: leave the batch size open (--input), or store weights alone (--quantize int8-weights)"
        )
    rows = []
    for i in range(time):
        after = cell(x[time - 1 - i if backwards else i], *states)
        shown, states = _mask_finished(tf.constant(i), lengths, after, states)
        rows.append(shown)
    return tf.stack(rows[::-1] if backwards else rows), states


def _loop_without_list(
    t: Emitter,
    x: tf.Tensor,
    lengths: tf.Tensor | None,
    states: Sequence[tf.Tensor],
    cell: Callable[..., Sequence[tf.Tensor]],
    backwards: bool,
) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
    """`_loop` without a list of tensors of dynamic size, which TensorFlow Lite lacks: rows are replaced."""
    time = t.shape(x)[0]
    outputs = tf.zeros([time, *t.shape(states[0])], x.dtype)

    def step(i: tf.Tensor, outputs: tf.Tensor, *before: tf.Tensor) -> tuple[Any, ...]:
        at = time - 1 - i if backwards else i
        shown, after = _mask_finished(i, lengths, cell(x[at], *before), before)
        return (i + 1, dynamic_update_slice(outputs, shown[None], tf.stack([at, 0, 0])), *after)

    _, outputs, *states = tf.while_loop(lambda i, *rest: i < time, step, (0, outputs, *states))
    return outputs, states


def _mask_finished(
    i: tf.Tensor, lengths: tf.Tensor | None, after: Sequence[tf.Tensor], before: Sequence[tf.Tensor]
) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
    """Return output and states of step i: after a sequence's end its state is kept and its output is zero."""
    for a, b in zip(after, before, strict=True):
        a.set_shape(b.shape)
    if lengths is None:
        return after[0], after
    alive = (i < tf.cast(lengths, tf.int32))[:, None]
    shown = tf.where(alive, after[0], tf.zeros([], after[0].dtype))
    return shown, [tf.where(alive, a, b) for a, b in zip(after, before, strict=True)]


def _reverse_steps(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Reverse the steps of each sequence [time, batch, …] up to its length."""
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


def _reverse_steps_lite(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Return what `_reverse_steps` returns, by a gather: the converter gives input and output of a reversal different
    8-bit scales.
    """
    steps, ends = tf.range(tf.shape(x)[0])[None], tf.cast(lengths, tf.int32)[:, None]
    places = tf.where(steps < ends, ends - 1 - steps, steps)
    return tf.transpose(tf.gather(tf.transpose(x, [1, 0, 2]), places, axis=1, batch_dims=1), [1, 0, 2])


def hidden_size_of(r: Value, hidden_size: int | None) -> int:
    """Return the number of hidden units. Raises `Unsupported` if neither the attributes nor the weights have it."""
    hidden = hidden_size or r.shape.as_list()[-1]
    if hidden is None:
        raise Unsupported("the number of hidden units is not known")
    return int(hidden)


def weights_of(
    t: Emitter, w: Value, r: Value, b: Value, d: int, gates: int, hidden: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return input weights [input, gates·hidden], recurrent weights, and both biases of direction d."""
    w, r = t.permuted(w, (0, 2, 1))[d], t.permuted(r, (0, 2, 1))[d]
    bias = tf.zeros([2 * gates * hidden], w.dtype) if b is None else tf.convert_to_tensor(b)[d]
    return w, r, bias[: gates * hidden], bias[gates * hidden :]


def input_projection(weights: tf.Tensor, bias: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function that projects all steps of the input [time, batch, input] in one product."""
    return lambda x: tf.tensordot(x, weights, 1) + bias


def initial_state(t: Emitter, x: Value, given: Value, directions: int, hidden: int, layout: int) -> tf.Tensor:
    """Return the given initial state, or zeros."""
    if given is not None:
        return t.of_rank(given, 3)
    batch = t.shape(x)[0 if layout else 1]
    return tf.zeros([batch, directions, hidden] if layout else [directions, batch, hidden], x.dtype)


def direction_count(direction: str) -> int:
    """Return the number of directions."""
    return 2 if direction == "bidirectional" else 1


def clip_symmetric(value: tf.Tensor, clip: float | None) -> tf.Tensor:
    """Return the value clipped to [-clip, clip]."""
    return value if clip is None else tf.clip_by_value(value, -clip, clip)


@onnx_op("RNN", f"{LITE}::RNN")
def rnn(
    t,
    x,
    w,
    r,
    b,
    lengths,
    initial_h,
    *,
    activation_alpha,
    activation_beta,
    activations,
    clip,
    direction,
    hidden_size,
    layout,
):
    count, hidden = direction_count(direction), hidden_size_of(r, hidden_size)
    functions = activation_functions("RNN", activations, activation_alpha, activation_beta, count)

    x = t.of_rank(x, 3)

    def cell(d):
        wx, rh, bx, bh = weights_of(t, w, r, b, d, 1, hidden)
        return input_projection(wx, bx + bh), lambda xt, h: [functions[d][0](clip_symmetric(xt + h @ rh, clip))]

    return run_directions(
        t, x, direction, layout, lengths, [initial_state(t, x, initial_h, count, hidden, layout)], cell
    )


@onnx_op("GRU", f"{LITE}::GRU")
def gru(
    t,
    x,
    w,
    r,
    b,
    lengths,
    initial_h,
    *,
    activation_alpha,
    activation_beta,
    activations,
    clip,
    direction,
    hidden_size,
    layout,
    linear_before_reset,
):
    count, hidden = direction_count(direction), hidden_size_of(r, hidden_size)
    functions = activation_functions("GRU", activations, activation_alpha, activation_beta, count)

    x = t.of_rank(x, 3)

    def cell(d):
        wx, rh, bx, bh = weights_of(t, w, r, b, d, 3, hidden)
        f, g = functions[d]

        def step(xt, h):
            xz, xr, xn = tf.split(xt, 3, -1)
            hz, hr = tf.split(h @ rh[:, : 2 * hidden] + bh[: 2 * hidden], 2, -1)
            z, reset = f(clip_symmetric(xz + hz, clip)), f(clip_symmetric(xr + hr, clip))
            if linear_before_reset:
                hn = reset * (h @ rh[:, 2 * hidden :] + bh[2 * hidden :])
            else:
                hn = (reset * h) @ rh[:, 2 * hidden :] + bh[2 * hidden :]
            return [(1 - z) * g(clip_symmetric(xn + hn, clip)) + z * h]

        return input_projection(wx, bx), step

    return run_directions(
        t, x, direction, layout, lengths, [initial_state(t, x, initial_h, count, hidden, layout)], cell
    )


@onnx_op("LSTM", f"{LITE}::LSTM")
def lstm(
    t,
    x,
    w,
    r,
    b,
    lengths,
    initial_h,
    initial_c,
    peepholes,
    *,
    activation_alpha,
    activation_beta,
    activations,
    clip,
    direction,
    hidden_size,
    input_forget,
    layout,
):
    count, hidden = direction_count(direction), hidden_size_of(r, hidden_size)
    functions = activation_functions("LSTM", activations, activation_alpha, activation_beta, count)

    x = t.of_rank(x, 3)

    def cell(d):
        wx, rh, bx, bh = weights_of(t, w, r, b, d, 4, hidden)
        bias = bx + bh
        f, g, h_of = functions[d]
        pi, po, pf = tf.split(tf.convert_to_tensor(peepholes)[d], 3) if peepholes is not None else (None, None, None)

        def gate(x, peephole, c):
            return f(clip_symmetric(x if peephole is None else x + peephole * c, clip))

        def step(xt, h, c):
            i, o, forget, new = tf.split(xt + h @ rh, 4, -1)
            i = gate(i, pi, c)
            forget = 1 - i if input_forget else gate(forget, pf, c)
            after = forget * c + i * g(clip_symmetric(new, clip))
            return [gate(o, po, after) * h_of(after), after]

        return input_projection(wx, bias), step

    states = [initial_state(t, x, s, count, hidden, layout) for s in (initial_h, initial_c)]
    return run_directions(t, x, direction, layout, lengths, states, cell)
