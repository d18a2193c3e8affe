"""Rules for RNN, GRU and LSTM: unrolled over a short sequence of fixed length, else in a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.rnn import (
    Cell,
    DirectionWeights,
    activation_functions,
    clip_symmetric,
    initial_state,
    run_direction,
    weights_of,
)
from ..common.shapes import transpose
from ..net import Net
from ..rules import onnx_op


@onnx_op("RNN")
def rnn(
    net: Net,
    x: Blob,
    w: Blob,
    r: Blob,
    b: Blob | None,
    lengths: Blob | None,
    initial_h: Blob | None,
    *,
    activation_alpha: Sequence[float] | None,
    activation_beta: Sequence[float] | None,
    activations: Sequence[str] | None,
    clip: float | None,
    direction: str,
    hidden_size: int | None,
    layout: int,
) -> list[Blob]:
    """RNN-22. `hidden_size` is not read: the weights have it."""
    count = 2 if direction == "bidirectional" else 1
    functions = activation_functions("RNN", activations, activation_alpha, activation_beta, count)

    def cell(d: int) -> tuple[DirectionWeights, Cell]:
        weights = weights_of(net, w, r, b, d, 1)

        def step(inner: Net, xt: Blob, states: Sequence[Blob]) -> list[Blob]:
            total = inner.Add(xt, inner.FC(states[0], weights.recurrent, weights.recurrent_bias, axis=1))
            return [functions[d][0](inner, clip_symmetric(inner, total, clip))]

        return weights, step

    return _run_directions(net, x, [initial_h], count, direction, layout, lengths, r, cell)


@onnx_op("GRU")
def gru(
    net: Net,
    x: Blob,
    w: Blob,
    r: Blob,
    b: Blob | None,
    lengths: Blob | None,
    initial_h: Blob | None,
    *,
    activation_alpha: Sequence[float] | None,
    activation_beta: Sequence[float] | None,
    activations: Sequence[str] | None,
    clip: float | None,
    direction: str,
    hidden_size: int | None,
    layout: int,
    linear_before_reset: int,
) -> list[Blob]:
    """GRU-22. `hidden_size` is not read: the weights have it."""
    count = 2 if direction == "bidirectional" else 1
    functions = activation_functions("GRU", activations, activation_alpha, activation_beta, count)

    def cell(d: int) -> tuple[DirectionWeights, Cell]:
        weights = weights_of(net, w, r, b, d, 3)
        f, g = functions[d]
        gates, new = weights.split(net, 2)

        def step(inner: Net, xt: Blob, states: Sequence[Blob]) -> list[Blob]:
            (h,) = states
            xz, xr, xn = inner.Split(xt, axis=1, outputs=3)
            hz, hr = inner.Split(inner.FC(h, *gates, axis=1), axis=1, outputs=2)
            z = f(inner, clip_symmetric(inner, inner.Add(xz, hz), clip))
            reset = f(inner, clip_symmetric(inner, inner.Add(xr, hr), clip))
            if linear_before_reset:
                hn = inner.Mul(reset, inner.FC(h, *new, axis=1))
            else:
                hn = inner.FC(inner.Mul(reset, h), *new, axis=1)
            n = g(inner, clip_symmetric(inner, inner.Add(xn, hn), clip))
            return [inner.Add(n, inner.Mul(z, inner.Sub(h, n)))]

        return weights, step

    return _run_directions(net, x, [initial_h], count, direction, layout, lengths, r, cell)


@onnx_op("LSTM")
def lstm(
    net: Net,
    x: Blob,
    w: Blob,
    r: Blob,
    b: Blob | None,
    lengths: Blob | None,
    initial_h: Blob | None,
    initial_c: Blob | None,
    peepholes: Blob | None,
    *,
    activation_alpha: Sequence[float] | None,
    activation_beta: Sequence[float] | None,
    activations: Sequence[str] | None,
    clip: float | None,
    direction: str,
    hidden_size: int | None,
    input_forget: int,
    layout: int,
) -> list[Blob]:
    """LSTM-22. `hidden_size` is not read: the weights have it."""
    count = 2 if direction == "bidirectional" else 1
    functions = activation_functions("LSTM", activations, activation_alpha, activation_beta, count)

    def cell(d: int) -> tuple[DirectionWeights, Cell]:
        weights = weights_of(net, w, r, b, d, 4)
        f, g, h_of = functions[d]
        peeps = None if peepholes is None else weights.peepholes(net, peepholes, d)

        def step(inner: Net, xt: Blob, states: Sequence[Blob]) -> list[Blob]:
            h, c = states
            total = inner.Add(xt, inner.FC(h, weights.recurrent, weights.recurrent_bias, axis=1))
            i, o, forget, new = inner.Split(total, axis=1, outputs=4)
            if peeps is not None:
                i, forget = inner.Add(i, inner.Mul(c, peeps[0])), inner.Add(forget, inner.Mul(c, peeps[2]))
            i = f(inner, clip_symmetric(inner, i, clip))
            kept = inner.Sub(inner.const(1.0), i) if input_forget else f(inner, clip_symmetric(inner, forget, clip))
            after = inner.Add(inner.Mul(kept, c), inner.Mul(i, g(inner, clip_symmetric(inner, new, clip))))
            if peeps is not None:
                o = inner.Add(o, inner.Mul(after, peeps[1]))
            return [inner.Mul(f(inner, clip_symmetric(inner, o, clip)), h_of(inner, after)), after]

        return weights, step

    return _run_directions(net, x, [initial_h, initial_c], count, direction, layout, lengths, r, cell)


def _run_directions(
    net: Net,
    x: Blob,
    initial: Sequence[Blob | None],
    count: int,
    direction: str,
    layout: int,
    lengths: Blob | None,
    r: Blob,
    cell: Callable[[int], tuple[DirectionWeights, Cell]],
) -> list[Blob]:
    """Run all directions; return Y and the last states, with the batch at the position that `layout` selects."""
    wide = widen(net, x, FLOAT)
    wide = transpose(net, wide, [1, 0, 2]) if layout else wide
    given = [transpose(net, s, [1, 0, 2]) if layout and s is not None else s for s in initial]
    outputs: list[Blob] = []
    ends: list[list[Blob]] = [[] for _ in initial]
    for d in range(count):
        weights, step = cell(d)
        states = [initial_state(net, wide, s, d, weights.hidden) for s in given]
        backward = direction == "reverse" or d == 1
        y, last = run_direction(net, wide, weights, step, states, lengths, backward)
        outputs.append(y)
        for kept, state in zip(ends, last, strict=True):
            kept.append(state)
    made = [_stack_parts(net, outputs, 1), *(_stack_parts(net, s, 0) for s in ends)]
    if layout:
        made = [transpose(net, made[0], [2, 0, 1, 3]), *(transpose(net, s, [1, 0, 2]) for s in made[1:])]
    return [cast(net, y, x.dtype) for y in made]


def _stack_parts(net: Net, parts: Sequence[Blob], axis: int) -> Blob:
    apart = [net.ExpandDims(p, dims=[axis]) for p in parts]
    shape = [*net.shape(parts[0])[:axis], len(parts), *net.shape(parts[0])[axis:]]
    joined = apart[0] if len(apart) == 1 else net.op("Concat", apart, axis=axis, outputs=2)[0]
    return net.facts(joined, FLOAT[0], shape)
