"""RNN, GRU and LSTM written out: a Scan for each direction, whose body is one step of the cell (ONNX, opset 22)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.semantics.activations import ALPHAS, Activation, activations

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

Step = Callable[[Graph, ir.Value, Sequence[ir.Value]], list[ir.Value]]
"""`step(body, x_t, states)` returns the new states; the first one is the output. `x_t` is the input's share of the
gates, [batch, gates · hidden].
"""


@dataclass(frozen=True)
class _Weights:
    """The weights of one direction.

    recurrent: [hidden, gates · hidden]; of a GRU that resets the state before the product, the two gates and the new
    value separately. new_bias: the recurrent bias of GRU's new value, if the reset gate multiplies it; all other biases
    are in the projected input. peepholes: of the input, output and forget gate, [hidden] each.
    """

    recurrent: Sequence[ir.Value]
    new_bias: ir.Value | None
    peepholes: Sequence[ir.Value | None]


def recurrent(g: Graph, node: ir.Node) -> Sequence[ir.Value | None]:
    """RNN, GRU and LSTM: layout=1 as Transposes around layout=0, which is written as a Scan for each direction."""
    if node.attributes.get_int("layout", 0):
        return _batch_first(g, node)
    x, w, r, b, lengths, *initial = [*node.inputs, *[None] * 8][:7]
    assert x is not None
    assert w is not None
    assert r is not None
    hidden, count = g.shape(r)[2], 2 if node.attributes.get_string("direction", "forward") == "bidirectional" else 1
    if not isinstance(hidden, int):
        raise Unsupported("a recurrent layer of unknown hidden size")
    functions = activations_of_node(node)
    states = initial if node.op_type == "LSTM" else initial[:1]
    outputs, last = [], []
    for d in range(count):
        weights, bias = _weights_of(g, node, r, b, d, hidden)
        rows = g.MatMul(x, g.Transpose(_direction(g, w, d), perm=[1, 0]))
        rows = g.facts(rows if bias is None else g.Add(rows, bias), g.dtype(x), (*g.shape(x)[:2], _width(node, hidden)))
        starts = [_initial_state(g, x, s, d, hidden) for s in states]
        backward = d == 1 or node.attributes.get_string("direction", "forward") == "reverse"
        y, after = _run(g, rows, lengths, starts, _STEPS[node.op_type](node, weights, functions[d]), backward)
        outputs.append(g.Unsqueeze(y, [1]))
        last.append([g.Unsqueeze(s, [0]) for s in after])
    ends = [_joined(g, parts, 0) for parts in zip(*last, strict=True)]
    return [_joined(g, outputs, 1), *ends][: len(node.outputs)]


def _batch_first(g: Graph, node: ir.Node) -> Sequence[ir.Value | None]:
    """Return the outputs with Transposes that swap batch and steps, or batch and directions."""
    attributes = {name: a for name, a in node.attributes.items() if name != "layout"}
    turned = {0, 5, 6}
    inputs = [g.Transpose(x, perm=[1, 0, 2]) if x is not None and i in turned else x for i, x in enumerate(node.inputs)]
    made = g.node(node.op_type, inputs, attributes, outputs=len(node.outputs))
    outputs = made if isinstance(made, list) else [made]
    # Y is [steps, directions, batch, hidden] with layout=0, and [batch, steps, directions, hidden] with layout=1.
    orders = [[2, 0, 1, 3], [1, 0, 2], [1, 0, 2]]
    return [
        g.Transpose(y, perm=p) if old.name else None for y, old, p in zip(outputs, node.outputs, orders, strict=False)
    ]


def _joined(g: Graph, parts: Sequence[ir.Value], axis: int) -> ir.Value:
    joined: ir.Value = parts[0] if len(parts) == 1 else g.Concat(*parts, axis=axis)
    return joined


def _width(node: ir.Node, hidden: int) -> int:
    return _GATES[node.op_type] * hidden


def _direction(g: Graph, x: ir.Value, d: int) -> ir.Value:
    """Return `x[d]`, which is a view if `x` is a weight."""
    row: ir.Value = g.Squeeze(x if g.shape(x)[0] == 1 else g.Slice(x, [d], [d + 1], [0]), [0])
    return row


def _weights_of(
    g: Graph, node: ir.Node, r: ir.Value, b: ir.Value | None, d: int, hidden: int
) -> tuple[_Weights, ir.Value | None]:
    """Return the weights of a step, and the bias of the projected input: its own, and the recurrent one if that is
    added to it in any case.
    """
    p, bias, apart = [*node.inputs, *[None] * 8][7], None, None
    if b is not None:
        own, again = g.Split(_direction(g, b, d), num_outputs=2, axis=0, outputs=2)
        if node.op_type == "GRU" and node.attributes.get_int("linear_before_reset", 0) != 0:
            gates, apart = g.Slice(again, [0], [2 * hidden], [0]), g.Slice(again, [2 * hidden], [3 * hidden], [0])
            again = g.Concat(gates, np.zeros(hidden, g.dtype(b).numpy()), axis=0)
        bias = g.Add(own, again)
    peepholes = [None] * 3 if p is None else g.Split(_direction(g, p, d), num_outputs=3, axis=0, outputs=3)
    matrix = _direction(g, r, d)
    parts = [matrix]
    if node.op_type == "GRU" and not node.attributes.get_int("linear_before_reset", 0):
        parts = [g.Slice(matrix, [a * hidden], [z * hidden], [0]) for a, z in ((0, 2), (2, 3))]
    return _Weights([g.Transpose(part, perm=[1, 0]) for part in parts], apart, peepholes), bias


def _initial_state(g: Graph, x: ir.Value, given: ir.Value | None, d: int, hidden: int) -> ir.Value:
    """Return the initial state of a direction, [batch, hidden]; zeros if none is given."""
    batch, dtype = g.shape(x)[1], g.dtype(x)
    if given is not None:
        state = _direction(g, given, d)
    elif isinstance(batch, int):
        state = g.const(np.zeros((batch, hidden), dtype.numpy()), dtype)
    else:
        sizes = g.Concat(g.Slice(g.dims(x), [1], [2], [0]), np.array([hidden]), axis=0)
        state = g.Expand(g.const(0.0, dtype), sizes)
    return g.facts(state, dtype, (batch, hidden))


def _run(
    g: Graph, rows: ir.Value, lengths: ir.Value | None, states: Sequence[ir.Value], step: Step, backward: bool
) -> tuple[ir.Value, list[ir.Value]]:
    """Return all outputs [steps, batch, hidden] and the last states.

    With `lengths`, a state stays as it is after the end of its sequence, where the output is zero. The backward
    direction then starts at the end of each sequence, else at the last step.
    """
    dtype, ends, alive = g.dtype(rows), None, None
    scanned = [rows]
    if lengths is not None:
        ends = g.Cast(lengths, to=ir.DataType.INT64)
        scanned[0] = _reversed(g, rows, ends) if backward else rows
        number = g.Range(np.int64(0), g.Gather(g.dims(rows), np.int64(0), axis=0), np.int64(1))
        alive = g.Less(g.Unsqueeze(number, [1, 2]), g.Unsqueeze(ends, [1]))
        scanned.append(g.facts(alive, ir.DataType.BOOL, (*g.shape(rows)[:2], 1)))
    body = g.body("step")
    before = [body.input("state", dtype, g.shape(s)) for s in states]
    after = step(body, body.input("x_t", dtype, g.shape(rows)[1:]), before)
    if alive is not None:
        goes_on = body.input("alive", ir.DataType.BOOL, g.shape(alive)[1:])
        after = [body.Where(goes_on, a, b) for a, b in zip(after, before, strict=True)]
    for value in (*after, after[0]):
        body.output(body.facts(value, dtype, g.shape(states[0])), body.unique("state_next"))
    turned = int(backward and alive is None)
    attributes = {
        "body": body,
        "num_scan_inputs": len(scanned),
        "scan_input_directions": [turned] * len(scanned),
        "scan_output_directions": [turned],
    }
    *last, y = g.node("Scan", [*states, *scanned], attributes, outputs=len(states) + 1)
    y = g.facts(y, dtype, (g.shape(rows)[0], *g.shape(states[0])))
    if alive is not None and ends is not None:
        y = g.Where(alive, y, g.const(0.0, dtype))
        y = _reversed(g, y, ends) if backward else y
    return y, [g.facts(v, dtype, g.shape(s)) for v, s in zip(last, states, strict=True)]


def _reversed(g: Graph, x: ir.Value, lengths: ir.Value) -> ir.Value:
    """Return `x` with the steps of each sequence reversed, up to its length."""
    return g.facts(g.ReverseSequence(x, lengths, time_axis=0, batch_axis=1), g.dtype(x), g.shape(x))


def activations_of_node(node: ir.Node) -> list[list[Activation]]:
    """Return the functions of each direction of an RNN, GRU or LSTM node. Raises `Unsupported` for an unknown name."""
    a = node.attributes
    count = 2 if a.get_string("direction", "forward") == "bidirectional" else 1
    names, alphas, betas = a.get_strings("activations"), *(a.get_floats(f"activation_{n}") for n in ("alpha", "beta"))
    return activations(node.op_type, names, alphas, betas, count)


def _apply(g: Graph, f: Activation, x: ir.Value, clip: float | None = None) -> ir.Value:
    """Return the activation of `x`, which is clipped to [-clip, clip] first."""
    if clip is not None:
        x = g.Clip(x, g.const(-clip, g.dtype(x)), g.const(clip, g.dtype(x)))
    if f.name == "Affine":
        y = g.Add(g.Mul(x, f.alpha), f.beta)
    elif f.name == "ScaledTanh":
        y = g.Mul(g.Tanh(g.Mul(x, f.beta)), f.alpha)
    elif f.name == "HardSigmoid":
        y = g.HardSigmoid(x, alpha=f.alpha, beta=f.beta)
    else:
        y = g.node(f.name, [x], {"alpha": f.alpha} if f.name in ALPHAS else {})
    return g.facts(y, g.dtype(x), g.shape(x))


def _clip(node: ir.Node) -> float | None:
    return node.attributes.get_float("clip", 0.0) if "clip" in node.attributes else None


def _rnn(node: ir.Node, weights: _Weights, functions: Sequence[Activation]) -> Step:
    def step(g: Graph, x_t: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        return [_apply(g, functions[0], g.Add(x_t, g.MatMul(states[0], weights.recurrent[0])), _clip(node))]

    return step


def _gru(node: ir.Node, weights: _Weights, functions: Sequence[Activation]) -> Step:
    f, new = functions

    def step(g: Graph, x_t: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        h = states[0]
        xz, xr, xn = g.Split(x_t, num_outputs=3, axis=1, outputs=3)
        if len(weights.recurrent) == 1:
            hz, hr, hn = g.Split(g.MatMul(h, weights.recurrent[0]), num_outputs=3, axis=1, outputs=3)
        else:
            hz, hr = g.Split(g.MatMul(h, weights.recurrent[0]), num_outputs=2, axis=1, outputs=2)
        z, reset = (_apply(g, f, g.Add(a, b), _clip(node)) for a, b in ((xz, hz), (xr, hr)))
        if len(weights.recurrent) == 1:
            hn = g.Mul(reset, hn if weights.new_bias is None else g.Add(hn, weights.new_bias))
        else:
            hn = g.MatMul(g.Mul(reset, h), weights.recurrent[1])
        n = _apply(g, new, g.Add(xn, hn), _clip(node))
        return [g.Add(g.Mul(g.Sub(g.const(1.0, g.dtype(z)), z), n), g.Mul(z, h))]

    return step


def _lstm(node: ir.Node, weights: _Weights, functions: Sequence[Activation]) -> Step:
    f, new, shown = functions

    def step(g: Graph, x_t: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        h, c = states

        def gate(x: ir.Value, peephole: ir.Value | None, cell: ir.Value) -> ir.Value:
            return _apply(g, f, x if peephole is None else g.Add(x, g.Mul(peephole, cell)), _clip(node))

        total = g.Add(x_t, g.MatMul(h, weights.recurrent[0]))
        i, o, forget, value = g.Split(total, num_outputs=4, axis=1, outputs=4)
        i = gate(i, weights.peepholes[0], c)
        if node.attributes.get_int("input_forget", 0):
            forget = g.Sub(g.const(1.0, g.dtype(i)), i)
        else:
            forget = gate(forget, weights.peepholes[2], c)
        after = g.Add(g.Mul(forget, c), g.Mul(i, _apply(g, new, value, _clip(node))))
        return [g.Mul(gate(o, weights.peepholes[1], after), _apply(g, shown, after)), after]

    return step


_STEPS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
