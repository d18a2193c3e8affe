"""Recurrent cells under lax.scan become one operator of ONNX: cells of Flax and Equinox, and those of Haiku."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from jax import lax

from tests.frontends.jax.networks import weights
from tests.frontends.jax.support import check, exported, params, read, row
from tests.support.cases import f32

pytestmark = pytest.mark.not_core

Step = Callable[[Any, Any], Any]
IN, UNITS = 6, 8
X, H, C = f32(5, 2, IN), f32(2, UNITS), f32(2, UNITS) / 2


def scanned(step: Step, states: int = 2, last: bool = False, reverse: bool = False) -> Callable[..., Any]:
    """Return a function that scans a sequence, time first; the initial states are zeros, or further inputs."""

    def forward(x: Any, *initial: Any) -> Any:
        start = initial or (jnp.zeros((x.shape[1], UNITS), x.dtype),) * states
        found = lax.scan(step, start if states > 1 else start[0], x, reverse=reverse)
        return found[0] if last else found

    return forward


def nnx_cell(kind: Any) -> Step:
    """Return a cell of NNX with biases other than zeros."""
    cell = kind(IN, UNITS, rngs=nnx.Rngs(0))
    graph, state = nnx.split(cell)
    moved = jax.tree_util.tree_map(lambda v: v + 0.1 if v.ndim == 1 and v.dtype == np.float32 else v, state)
    return nnx.merge(graph, moved)


def linen_cell() -> Step:
    cell = linen.OptimizedLSTMCell(UNITS)
    variables = cell.init(jax.random.key(1), (jnp.ones((2, UNITS)),) * 2, jnp.ones((2, IN)))
    return lambda state, x: cell.apply(variables, state, x)


def equinox_cell(kind: Any) -> Step:
    cell = kind(IN, UNITS, key=jax.random.key(0))

    def step(state: Any, x: Any) -> Any:
        found = jax.vmap(cell)(x, state)
        return found, found[0] if isinstance(found, tuple) else found

    return step


W, U, B, V, A = weights((IN + UNITS, 4 * UNITS), (UNITS, 2 * UNITS), (4 * UNITS,), (IN, 3 * UNITS), (UNITS, UNITS))


def haiku_lstm(state: Any, x: Any) -> Any:
    h, c = state
    i, g, f, o = jnp.split(jnp.concatenate([x, h], -1) @ W + B, 4, -1)
    c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def haiku_gru(h: Any, x: Any) -> Any:
    gates, inner = jnp.split(x @ V, [2 * UNITS], -1)
    z, r = jnp.split(jax.nn.sigmoid(gates + h @ U + B[: 2 * UNITS]), 2, -1)
    h = (1 - z) * h + z * jnp.tanh(inner + (r * h) @ A + B[2 * UNITS : 3 * UNITS])
    return h, h


def stacked(state: Any, x: Any) -> Any:
    """Two layers in one scan."""
    low, h = haiku_lstm(state[:2], x)
    return (*low, _second(state[2], h)), _second(state[2], h)


_upper = eqx.nn.GRUCell(UNITS, UNITS, key=jax.random.key(1))


def _second(state: Any, x: Any) -> Any:
    return jax.vmap(_upper)(x, state)


DYNAMIC = ("n,b,6", "b,8", "b,8")
ROWS = [
    row("LSTM of nnx", scanned(nnx_cell(nnx.LSTMCell)), X, H, C, dims=DYNAMIC),
    row("LSTM of nnx in one product", scanned(nnx_cell(nnx.OptimizedLSTMCell)), X, H, C, dims=DYNAMIC),
    row("GRU of nnx", scanned(nnx_cell(nnx.GRUCell), 1), X, H, dims=DYNAMIC[:2]),
    row("RNN of nnx", scanned(nnx_cell(nnx.SimpleCell), 1), X, H, dims=DYNAMIC[:2]),
    row("LSTM of linen, whose weights are concatenated in the loop", scanned(linen_cell()), X, H, C, dims=DYNAMIC),
    row("LSTM of equinox", scanned(equinox_cell(eqx.nn.LSTMCell)), X, H, C, dims=DYNAMIC),
    row("GRU of equinox", scanned(equinox_cell(eqx.nn.GRUCell), 1), X, H, dims=DYNAMIC[:2]),
    row("LSTM of haiku", scanned(haiku_lstm), X, H, C, dims=DYNAMIC),
    row("LSTM of known sizes", scanned(haiku_lstm), X, H, C),
    row("LSTM of equinox, of known sizes", scanned(equinox_cell(eqx.nn.LSTMCell)), X),
    row("LSTM without initial states", scanned(haiku_lstm), X, dims=DYNAMIC[:1]),
    row("LSTM, last states only", scanned(haiku_lstm, last=True), X, H, C, dims=DYNAMIC),
    row("LSTM, reversed", scanned(haiku_lstm, reverse=True), X, H, C, dims=DYNAMIC),
    row("LSTM, reversed, of known sizes", scanned(haiku_lstm, reverse=True), X, H, C),
    row("GRU of haiku", scanned(haiku_gru, 1), X, H, dims=DYNAMIC[:2]),
    row("GRU of haiku, reversed", scanned(haiku_gru, 1, reverse=True), X, dims=DYNAMIC[:1]),
]


@pytest.mark.parametrize("one", params(ROWS, quick=("LSTM of haiku",)))
def test_a_cell_becomes_one_operator(one: Any, tmp_path: Path) -> None:
    operators = [node.op_type for node in read(exported(one)).graph.all_nodes()]
    assert operators.count(one.name[:4].split()[0].rstrip(",")) == 1, operators
    assert "Loop" not in operators
    check(one, tmp_path)


def both_ways(x: Any) -> Any:
    """One LSTM forwards, and one on the flipped sequence, whose outputs are flipped back; batch first."""
    x = x.transpose(1, 0, 2)
    start = (jnp.zeros((x.shape[1], UNITS), x.dtype),) * 2
    forwards, backwards = lax.scan(haiku_lstm, start, x)[1], lax.scan(haiku_lstm, start, x[::-1])[1][::-1]
    return jnp.concatenate([forwards, backwards], -1).transpose(1, 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("dims", [["b,n,6"], ["b,5,6"], []])
def test_both_directions_become_operators(dims: list[str], tmp_path: Path) -> None:
    one = row("both directions", both_ways, X.transpose(1, 0, 2), dims=dims)
    operators = [node.op_type for node in read(exported(one)).graph.all_nodes()]
    assert operators.count("LSTM") == 2
    assert "Loop" not in operators
    check(one, tmp_path)


LOOPS = [
    row("a sequence of one step, which is not indexed", scanned(haiku_lstm), X[:1], H, C),
    row("two layers in one loop", scanned(stacked, 3), X, dims=DYNAMIC[:1]),
    row("a gate of another function", scanned(lambda h, x: ((v := jnp.cos(x @ W[:IN, :UNITS] + h @ A)), v), 1), X),
    row("a state that also counts", lambda x: lax.scan(
        lambda s, v: ((haiku_gru(s[0], v)[0], s[1] + 1), s[0] * s[1]), (jnp.zeros((2, 8), x.dtype), 0), x), X),
    row("a sequence read at every second step", lambda x: lax.fori_loop(
        0, 2, lambda i, h: haiku_gru(h, x[2 * i])[0], jnp.zeros((2, 8), x.dtype)), X),
    row("a loop that starts at 1", lambda x: lax.fori_loop(
        1, 4, lambda i, h: haiku_gru(h, x[i])[0], jnp.zeros((2, 8), x.dtype)), X),
    row("rows beyond the end of the sequence", lambda x: lax.fori_loop(
        0, 7, lambda i, h: haiku_gru(h, lax.dynamic_index_in_dim(x, i, keepdims=False))[0],
        jnp.zeros((2, 8), x.dtype)), X),
    row("sums from the end", lambda x: lax.scan(lambda h, v: (h + v, h * v), x[0], x, reverse=True), X,
        dims=DYNAMIC[:1]),
    row("a changing array that is read from its end", lambda x: lax.fori_loop(
        0, 5, lambda i, s: s + lax.dynamic_index_in_dim(s, 4 - i, keepdims=False), x), X),
    row("a counter that is returned", lambda x: lax.fori_loop(
        2, 5, lambda i, s: (s[0] + x[i] * i, i), (x[0], 0)), X),
]  # fmt: skip


@pytest.mark.parametrize("one", params(LOOPS))
def test_other_loops_compute_the_same(one: Any, tmp_path: Path) -> None:
    check(one, tmp_path)
