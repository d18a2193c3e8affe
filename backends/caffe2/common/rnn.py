"""Parts that all recurrent layers share: directions, lengths, layouts, activation functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.semantics.activations import ALPHAS, activations

from ..blob import Blob
from ..net import Net, Op
from .dtypes import FLOAT, cast, widen
from .loops import while_loop
from .shapes import broadcast, concat, dim, reshape_fixed

_LONGEST = 64
"""Maximum fixed sequence length that is unrolled."""

Cell = Callable[[Net, Blob, Sequence[Blob]], list[Blob]]
"""`cell(net, x, states)` returns the new states. `x` is the input's contribution to the gates in this step."""
Function = Callable[[Net, Blob], Blob]


@dataclass(frozen=True)
class DirectionWeights:
    """The weights of one direction, gates in one matrix: `input` [gates·hidden, size], `recurrent` [gates·hidden,
    hidden].

    The input's bias includes the recurrent one, unless a cell adds them in different places.
    """

    hidden: int
    gates: int
    input: Blob
    input_bias: Blob
    recurrent: Blob
    recurrent_bias: Blob

    def peepholes(self, net: Net, p: Blob, direction: int) -> list[Blob]:
        """Return the peephole weights of the input, output and forget gate."""
        one = row(net, widen(net, p, FLOAT), direction)
        return [slice_rows(net, one, i * self.hidden, (i + 1) * self.hidden) for i in range(3)]

    def split(self, net: Net, first: int) -> list[tuple[Blob, Blob]]:
        """Return recurrent weights and biases, split into the `first` gates and the rest."""
        at, end = first * self.hidden, self.gates * self.hidden
        return [
            (slice_rows(net, self.recurrent, a, b), slice_rows(net, self.recurrent_bias, a, b))
            for a, b in ((0, at), (at, end))
        ]


def weights_of(net: Net, w: Blob, r: Blob, b: Blob | None, direction: int, gates: int) -> DirectionWeights:
    """Return the weights of one direction."""
    hidden = net.shape(r)[2]
    if not isinstance(hidden, int):
        raise Unsupported("a recurrent layer whose hidden size is not fixed")
    width = gates * hidden
    matrices = [row(net, widen(net, v, FLOAT), direction) for v in (w, r)]
    if b is None:
        biases = [net.const(np.zeros(width, np.float32))] * 2
    else:
        both = row(net, widen(net, b, FLOAT), direction)
        biases = [slice_rows(net, both, 0, width), slice_rows(net, both, width, 2 * width)]
    return DirectionWeights(hidden, gates, matrices[0], biases[0], matrices[1], biases[1])


def row(net: Net, x: Blob, index: int) -> Blob:
    """Return `x[index]` along the first axis, of static size."""
    if x.content is not None:
        return net.const(x.content.numpy()[index])
    sizes = [int(str(d)) for d in net.shape(x)[1:] if isinstance(d, int)]
    if len(sizes) < net.rank(x) - 1:
        raise Unsupported("a recurrent layer with weights whose sizes are not fixed")
    return reshape_fixed(net, slice_rows(net, x, index, index + 1), sizes)


def slice_rows(net: Net, x: Blob, start: int, end: int) -> Blob:
    """Return `x[start:end]` along the first axis."""
    if x.content is not None:
        return net.const(x.content.numpy()[start:end])
    if x.shape is not None and x.shape[0] == end - start:
        return x
    rank = net.rank(x)
    y = net.Slice(x, starts=[start, *[0] * (rank - 1)], ends=[end, *[-1] * (rank - 1)])
    return net.facts(y, x.dtype, (end - start, *net.shape(x)[1:]))


def initial_state(net: Net, x: Blob, given: Blob | None, direction: int, hidden: int) -> Blob:
    """Return the initial state of a direction, [batch, hidden]; zeros if none is given. `x` is [length, batch, …]."""
    batch = net.shape(x)[1]
    if given is None:
        if isinstance(batch, int):
            return net.const(np.zeros([batch, hidden], np.float32))
        shape = concat(net, [dim(net, x, 1), net.const(np.array([hidden], np.int64))])
        zeros = net.ConstantFill(shape, value=0.0, input_as_shape=1, dtype=1)
        return net.facts(zeros, FLOAT[0], (batch, hidden))
    wide = widen(net, given, FLOAT)
    one = wide if net.shape(wide)[0] == 1 else slice_rows(net, wide, direction, direction + 1)
    return net.facts(net.Squeeze(one, dims=[0]), FLOAT[0], (batch, hidden))


def run_direction(
    net: Net, x: Blob, weights: DirectionWeights, step: Cell, states: list[Blob], lengths: Blob | None, backward: bool
) -> tuple[Blob, list[Blob]]:
    """Run one direction over `x` [length, batch, size]; return every output [length, batch, hidden] and the last
    states.

    With `lengths` [batch], states stay unchanged after a sequence's end, and outputs there are 0. Backward, a sequence
    starts at its own end.
    """
    turned = _reverse_time(net, x, lengths) if backward else x
    gates = net.FC(turned, weights.input, weights.input_bias, axis=2)
    gates = net.facts(gates, FLOAT[0], (*net.shape(x)[:2], weights.gates * weights.hidden))
    size = net.shape(x)[0]
    if isinstance(size, int) and size <= _LONGEST:
        y, states = _unroll_steps(net, gates, size, step, states, lengths)
    else:
        y, states = _loop_steps(net, gates, weights.hidden, step, states, lengths)
    y = net.facts(y, FLOAT[0], (*net.shape(x)[:2], weights.hidden))
    return (_reverse_time(net, y, lengths) if backward else y), states


def _unroll_steps(
    net: Net, gates: Blob, size: int, step: Cell, states: list[Blob], lengths: Blob | None
) -> tuple[Blob, list[Blob]]:
    parts = [gates] if size == 1 else net.Split(gates, axis=0, split=[1] * size, outputs=size)
    shape = net.shape(gates)[1:]
    outputs = []
    for i, part in enumerate(parts):
        xt = net.facts(net.Squeeze(part, dims=[0]), FLOAT[0], shape)
        made = _with_shapes(net, step(net, xt, states), states)
        y = made[0]
        if lengths is not None:
            going = _active_mask(net, net.const(np.array(i)), lengths)
            y, made = _mask_finished(net, going, made, states)
        states = made
        outputs.append(net.facts(net.ExpandDims(y, dims=[0]), FLOAT[0], (1, *net.shape(states[0]))))
    return (outputs[0] if size == 1 else net.op("Concat", outputs, axis=0, outputs=2)[0]), states


def _loop_steps(
    net: Net, gates: Blob, hidden: int, step: Cell, states: list[Blob], lengths: Blob | None
) -> tuple[Blob, list[Blob]]:
    """Run the steps in a loop that writes the outputs in place, into zeros."""
    length, batch = net.shape(gates)[:2]
    dims = concat(net, [dim(net, gates, 0), dim(net, gates, 1), net.const(np.array([hidden], np.int64))])
    collected = net.ConstantFill(dims, value=0.0, input_as_shape=1, dtype=1)
    net.facts(collected, FLOAT[0], (length, batch, hidden))

    def one(inner: Net, i: Blob, values: Sequence[Blob]) -> tuple[None, list[Blob]]:
        xt = inner.facts(inner.Gather(gates, i, axis=0), FLOAT[0], net.shape(gates)[1:])
        made = _with_shapes(inner, step(inner, xt, values), values)
        y = made[0]
        if lengths is not None:
            y, made = _mask_finished(inner, _active_mask(inner, i, lengths), made, values)
        place = inner.Reshape(i, shape=[1], outputs=2)[0]
        inner.ops.append(Op("ScatterAssign", [collected, place, inner.ExpandDims(y, dims=[0])], [collected], {}))
        return None, made

    shapes = [(batch, hidden)] * len(states)
    ends = while_loop(net, dim(net, gates, 0), None, states, shapes, one)
    # The loop writes it too, so readers must wait for the loop.
    loop = net.ops[-1]
    loop.outputs.append(collected)
    return collected, ends


def _with_shapes(net: Net, made: list[Blob], states: Sequence[Blob]) -> list[Blob]:
    return [net.facts(m, FLOAT[0], s.shape) for m, s in zip(made, states, strict=True)]


def _active_mask(net: Net, i: Blob, lengths: Blob) -> Blob:
    """Return a mask of the sequences that have not ended before step `i`: [batch, 1]."""
    wide = cast(net, lengths, ir.DataType.INT64)
    column = net.facts(net.ExpandDims(wide, dims=[1]), ir.DataType.INT64, (*net.shape(lengths), 1))
    return net.GT(column, i)


def _mask_finished(net: Net, going: Blob, made: list[Blob], states: Sequence[Blob]) -> tuple[Blob, list[Blob]]:
    """Return the output (0 after a sequence's end) and the states (unchanged after it)."""
    zeros = net.facts(net.ConstantFill(made[0], value=0.0, dtype=1), FLOAT[0], made[0].shape)
    chosen = [net.facts(net.Where(*broadcast(net, going, m, s)), FLOAT[0], s.shape)
              for m, s in zip(made, states, strict=True)]  # fmt: skip
    y = net.facts(net.Where(*broadcast(net, going, made[0], zeros)), FLOAT[0], made[0].shape)
    return y, chosen


def _reverse_time(net: Net, x: Blob, lengths: Blob | None) -> Blob:
    """Return `x` [length, batch, …] reversed in time; with `lengths`, only each sequence's own steps."""
    if lengths is None:
        batch, size = dim(net, x, 1), dim(net, x, 0)
        if size.content is not None and batch.content is not None:
            lengths = net.const(np.full(int(batch.content.numpy()[0]), int(size.content.numpy()[0]), np.int32))
        else:
            ones = net.ConstantFill(batch, value=1, input_as_shape=1, dtype=2)
            net.facts(ones, ir.DataType.INT32, (net.shape(x)[1],))
            lengths = net.Mul(ones, cast(net, size, ir.DataType.INT32))
    return net.facts(net.ReversePackedSegs(x, cast(net, lengths, ir.DataType.INT32)), x.dtype, net.shape(x))


def clip_symmetric(net: Net, x: Blob, clip: float | None) -> Blob:
    """Return `x` clipped to [−clip, clip]."""
    return x if clip is None else net.Clip(x, min=-clip, max=clip)


def activation_functions(
    operator: str,
    names: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    directions: int,
) -> list[list[Function]]:
    """Return the activation functions of each direction of an RNN, GRU or LSTM."""
    found = activations(operator, names, alphas, betas, directions)
    return [[_activation_function(f.name, f.alpha, f.beta) for f in of_direction] for of_direction in found]


def _activation_function(name: str, alpha: float, beta: float) -> Function:
    def function(net: Net, x: Blob) -> Blob:
        if name == "Affine":
            return net.Add(net.Mul(x, net.const(alpha)), net.const(beta))
        if name == "ScaledTanh":
            return net.Mul(net.Tanh(net.Mul(x, net.const(beta))), net.const(alpha))
        if name == "HardSigmoid":
            return net.HardSigmoid(x, alpha=alpha, beta=beta)
        if name in ALPHAS:
            return net.op(name, [x], alpha=alpha)
        if name == "Softplus":  # Caffe2's overflows
            smooth = net.Log(net.Add(net.Exp(net.Negative(net.Abs(x))), net.const(1.0)))
            return net.Add(net.Relu(x), smooth)
        return net.op(name, [x])

    return function
