"""Dynamically quantized recurrent layers in float64; the arithmetic is that of PyTorch's RNN.cpp.

Importing this module fills the table of `double`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import float64_quantized  # noqa: F401  (fills the table that linear layers are looked up in)
from .float64_ops import DOUBLE

Tensors = Sequence[torch.Tensor]
Step = Callable[[torch.Tensor, torch.Tensor, Tensors], Tensors]
"""A cell: (projected input, projected state, states) -> new states, the output first."""


def _lstm(ours: torch.Tensor, theirs: torch.Tensor, states: Tensors) -> Tensors:
    i, f, g, o = (theirs + ours).chunk(4, -1)
    c = f.sigmoid() * states[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(ours: torch.Tensor, theirs: torch.Tensor, states: Tensors) -> Tensors:
    (r, z, n), (hr, hz, hn) = ours.chunk(3, -1), theirs.chunk(3, -1)
    r, z = (r + hr).sigmoid(), (z + hz).sigmoid()
    n = (n + r * hn).tanh()
    return [z * (states[0] - n) + n]


def _plain(activation: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    return lambda ours, theirs, states: [activation(theirs + ours)]


def _direction(
    step: Step, x: torch.Tensor, states: Tensors, packed: Any, reverse: bool
) -> tuple[torch.Tensor, Tensors]:
    kind, _, _, numbers, (w_ih, w_hh) = packed.__getstate__()[0]
    if kind == "quantized_fp16":
        linear, rest = DOUBLE["quantized::linear_dynamic_fp16"], []
    else:
        linear, rest = DOUBLE["quantized::linear_dynamic"], [bool(numbers[0])]
    rows, outs = list(linear(x, w_ih, *rest)), []
    for row in reversed(rows) if reverse else rows:
        states = step(row, linear(states[0], w_hh, *rest), states)
        outs.append(states[0])
    return torch.stack(outs[::-1] if reverse else outs), states


def _layers(step: Step, count: int) -> Callable[..., Any]:
    def run(
        x: torch.Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool, **rest: Any,
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        x, before = x.transpose(0, 1) if batch_first else x, hx if count > 1 else [hx]
        ends, directions = [], 1 + bidirectional
        for layer in range(num_layers):
            outs = []
            for place in range(layer * directions, (layer + 1) * directions):
                states = [state[place] for state in before]
                out, after = _direction(step, x, states, params[place], place % directions == 1)
                outs.append(out)
                ends.append(after)
            x = torch.cat(outs, -1)
        finals = (torch.stack(list(state)) for state in zip(*ends, strict=True))
        return x.transpose(0, 1) if batch_first else x, *finals

    return run


def _cell(step: Step, count: int) -> Callable[..., Any]:
    linear = DOUBLE["quantized::linear_dynamic"]

    def run(x: torch.Tensor, hx: Any, w_ih: Any, w_hh: Any, b_ih: torch.Tensor, b_hh: torch.Tensor) -> Any:
        states = hx if count > 1 else [hx]
        after = step(linear(x, w_ih, True), linear(states[0], w_hh, True), states)
        return tuple(after) if count > 1 else after[0]

    return run


DOUBLE |= {
    "aten::quantized_lstm": _layers(_lstm, 2),
    "aten::quantized_gru": _layers(_gru, 1),
    "quantized::quantized_lstm_cell_dynamic": _cell(_lstm, 2),
    "quantized::quantized_gru_cell_dynamic": _cell(_gru, 1),
    "quantized::quantized_rnn_tanh_cell_dynamic": _cell(_plain(torch.tanh), 1),
    "quantized::quantized_rnn_relu_cell_dynamic": _cell(_plain(torch.relu), 1),
}
