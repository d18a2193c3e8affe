"""Lets transformers' state space models (Mamba, Falcon Mamba) take sequences of any length during capture."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ....torch_internals import scan


def mask_of_any_length(function: Any) -> Any:
    """Return the mask function of a recurrence for any number of tokens; transformers masks nothing for a single
    token.
    """

    def mask(config: Any, inputs_embeds: Tensor, attention_mask: Tensor | None, *args: Any, **kwargs: Any) -> Any:
        steps = inputs_embeds.shape[1]
        if attention_mask is None or attention_mask.dim() != 2 or not isinstance(steps, torch.SymInt):
            return function(config, inputs_embeds, attention_mask, *args, **kwargs)
        given = attention_mask[:, -steps:]
        # Counted from the tensor, because PyTorch assumes that a dynamic size is never 1.
        several = torch.ones_like(inputs_embeds[0, :, 0], dtype=torch.int64).sum() > 1
        return torch.where(several, given, torch.ones_like(given))

    return mask


def scan_of_any_length(function: Any) -> Any:
    """Return the recurrence, as torch.scan if the number of tokens is dynamic.

    transformers uses a Python loop, which torch.export would unroll for one length.
    """

    def selective(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(hidden_states.shape[2], torch.SymInt):  # for forward, sizes are instances of int
            return function(hidden_states, *args, **kwargs)
        return selective_scan(hidden_states, *args, **kwargs)

    return selective


def selective_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **ways: Any,
) -> Any:
    """Algorithm 2 of "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (Gu and Dao, 2023).

    `hidden_states`, `dt` and `z` are [batch, channels, length], `A` [channels, state], `B` and `C` [batch, state,
    length], `D` and `delta_bias` [channels]. Returns [batch, channels, length], and the last state [batch, channels,
    state] if requested. `ways` are faster implementations that transformers may select.
    """
    dt = dt if delta_bias is None else dt + delta_bias.to(dt.dtype)[:, None]
    dt = F.softplus(dt) if delta_softplus else dt
    steps = dt.permute(2, 0, 1)[..., None]
    decays = torch.exp(A * steps)
    added = steps * B.permute(2, 0, 1)[:, :, None, :].float() * hidden_states.permute(2, 0, 1)[..., None].float()

    def step(state: Tensor, now: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        decay, new, reading = now
        after = decay * state + new
        return after, torch.matmul(after.to(reading.dtype), reading.unsqueeze(-1)).squeeze(-1)

    first = added.new_zeros(hidden_states.shape[0], A.shape[0], A.shape[1])
    last, outputs = scan(step, first, (decays, added, C.permute(2, 0, 1)), dim=0)
    y = outputs.permute(1, 2, 0)
    y = y if D is None else y + hidden_states * D[:, None]
    y = y if z is None else y * F.silu(z)
    return (y, last) if return_last_state else y
