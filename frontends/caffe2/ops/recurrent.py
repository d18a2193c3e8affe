"""Recurrent networks: a step net in the arguments, with links between its blobs and the sequences."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.values import dims

from ..body import NestedNet
from ..rules import caffe2_op


@caffe2_op("RecurrentNetwork")
def recurrent_network(
    g: Graph, *values: ir.Value, step_net: NestedNet, recurrent_states: Sequence[str] = (),
    initial_recurrent_state_ids: Sequence[int] = (), link_internal: Sequence[str] = (),
    link_external: Sequence[str] = (), link_offset: Sequence[int] = (), link_window: Sequence[int] = (),
    alias_src: Sequence[str] = (), alias_dst: Sequence[str] = (), alias_offset: Sequence[int] = (),
    timestep: str = "timestep", backward_step_net: object = None, backward_link_internal: object = None,
    backward_link_external: object = None, backward_link_offset: object = None, param: object = None,
    param_grads: object = None, outputs_with_grads: object = None, recompute_blobs_on_backward: object = None,
    enable_rnn_executor: object = None, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = (),
) -> list[ir.Value]:  # fmt: skip
    """RecurrentNetwork as a Scan over the first dim of the sequences that the step reads.

    A state is a sequence with one more step: the step net reads index t and writes t + 1 (`link_offset`). An output is
    the sequence without its beginning (`alias_offset` 1), [time, batch, size], or its last step (-1), [1, batch, size].
    Raises `Unsupported` for other links, such as windows of several steps.
    """
    around = dict(zip(inputs, values, strict=True))
    links = list(zip(link_internal, link_external, link_offset, strict=True))
    if any(n != 1 for n in link_window) or any(offset not in (0, 1) for _, _, offset in links):
        raise Unsupported("a step that reads several places of a sequence, or others than its own")
    states = list(recurrent_states)
    read = {external: internal for internal, external, offset in links if offset == 0 and external in states}
    written = {external: internal for internal, external, offset in links if offset == 1}
    sequences = {internal: external for internal, external, _ in links if external not in states}
    if set(written) != set(states) or not sequences:
        raise Unsupported("a state that no step writes, or a step that reads no sequence")
    loop = g.body()
    start = [_initial(g, around[inputs[i]], values[0]) for i in initial_recurrent_state_ids]
    clock = loop.input(timestep, ir.DataType.INT32, [1])
    before = [loop.input(s, g.dtype(v), [1, *([None] * 2)]) for s, v in zip(states, start, strict=True)]
    replaced = {timestep: clock}
    replaced |= {read[s]: v for s, v in zip(states, before, strict=True) if s in read}
    for internal, external in sequences.items():
        rest = [None] * (g.rank(around[external]) - 1)
        step = loop.input(f"{internal}_step", g.dtype(around[external]), rest)
        replaced[internal] = loop.Unsqueeze(step, [0])
    made = step_net.run(loop, replaced)
    loop.output(loop.Add(clock, loop.const(1, ir.DataType.INT32)))
    after = [loop.Identity(made[written[s]]) for s in states]
    for value in after:
        loop.output(value)
    for value in after:
        loop.output(loop.Squeeze(value, [0]))
    first = g.const([0], ir.DataType.INT32)
    scanned = [around[external] for external in sequences.values()]
    found = g.node(
        "Scan", [first, *start, *scanned], {"body": loop, "num_scan_inputs": len(scanned)}, outputs=1 + 2 * len(states)
    )
    last = dict(zip(states, found[1 : 1 + len(states)], strict=True))
    whole = dict(zip(states, found[1 + len(states) :], strict=True))
    for state, begin in zip(states, start, strict=True):
        each = dims(begin)[1:]
        g.facts(last[state], g.dtype(begin), [1, *each])
        g.facts(whole[state], g.dtype(begin), [dims(scanned[0])[0], *each])
    results = {}
    for source, target, offset in zip(alias_src, alias_dst, alias_offset, strict=True):
        if source not in states or offset not in (1, -1):
            raise Unsupported(f"{target!r}, which is neither all steps of a state nor its last")
        results[target] = (whole if offset == 1 else last)[source]
    return [results[name] for name in outputs if name in results]


def _initial(g: Graph, value: ir.Value, sequence: ir.Value) -> ir.Value:
    """Return a state's initial content as [1, batch, size]; a single row is repeated for the batch."""
    if g.rank(value) == 3:
        return value
    if g.rank(value) == 2:
        return g.Unsqueeze(value, [0])
    return g.Expand(value, g.Concat(g.const([1]), g.Shape(sequence, start=1, end=2), g.const([1]), axis=0))


@caffe2_op("LSTMUnit")
def lstm_unit(
    g: Graph, hidden: ir.Value, cell: ir.Value, gates: ir.Value, *places: ir.Value, forget_bias: float = 0.0,
    drop_states: int = 0, sequence_lengths: int = 1,
) -> list[ir.Value]:  # fmt: skip
    """Compute one step of an LSTM from gates [1, batch, 4 · size] in the order input, forget, output, new content.

    After the end of a sequence the states are kept, or 0 (`drop_states`).
    """
    i, f, o, new = g.node("Split", [gates], {"axis": 2, "num_outputs": 4}, outputs=4)
    f = f if forget_bias == 0 else g.Add(f, g.const(forget_bias, g.dtype(gates)))
    c = g.Add(g.Mul(g.Sigmoid(f), cell), g.Mul(g.Sigmoid(i), g.Tanh(new)))
    h = g.Mul(g.Sigmoid(o), g.Tanh(c))
    return [
        _while_it_lasts(g, now, before, places, drop_states, sequence_lengths)
        for now, before in ((h, hidden), (c, cell))
    ]


@caffe2_op("GRUUnit")
def gru_unit(
    g: Graph, hidden: ir.Value, gates: ir.Value, *places: ir.Value, forget_bias: float = 0.0, drop_states: int = 0,
    sequence_lengths: int = 1,
) -> ir.Value:  # fmt: skip
    """One step of a GRU with gates [1, batch, 3 · size]: the net has used the first already; then come update and new
    content.

    brew passes `forget_bias` to all cells; this operator ignores it.
    """
    _, kept, new = g.node("Split", [gates], {"axis": 2, "num_outputs": 3}, outputs=3)
    share = g.Sigmoid(kept)
    one = g.const(1.0, g.dtype(gates))
    h = g.Add(g.Mul(hidden, share), g.Mul(g.Tanh(new), g.Sub(one, share)))
    return _while_it_lasts(g, h, hidden, places, drop_states, sequence_lengths)


def _while_it_lasts(
    g: Graph, now: ir.Value, before: ir.Value, places: Sequence[ir.Value], drop_states: int, has_lengths: int
) -> ir.Value:
    """Return the new value while a sequence lasts, and the old value or 0 after its end.

    `places` are the lengths [batch], if there are any, and the index of the step [1].
    """
    if not has_lengths:
        return now
    lengths, step = places
    alive = g.Unsqueeze(g.Less(step, lengths), [0, 2])
    return g.Where(alive, now, g.const(0.0, g.dtype(now)) if drop_states else before)
