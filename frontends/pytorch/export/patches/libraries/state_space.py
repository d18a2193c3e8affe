"""Lets transformers' state space models and linear attention take sequences of any length during capture.

transformers computes these recurrences by a Python loop over tokens, or by chunks whose number depends on the length.
During a capture of a dynamic length, they are a torch.scan over tokens. They start from the states that transformers
starts from: Mamba's ignores the state of earlier tokens unless there is a single new one, all others continue from it.
"""

from __future__ import annotations

from collections.abc import Callable
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
        # A slice from the end would compare both lengths.
        places = torch.arange(attention_mask.shape[1] - steps, attention_mask.shape[1], device=attention_mask.device)
        given = attention_mask.index_select(1, places)
        # Counted from the tensor, because PyTorch assumes that a dynamic size is never 1.
        several = torch.ones_like(inputs_embeds[0, :, 0], dtype=torch.int64).sum() > 1
        return torch.where(several, given, torch.ones_like(given))

    return mask


def scan_of_any_length(recurrence: Callable[..., Any], place: int, argument: str | None = None) -> Callable[[Any], Any]:
    """Return what makes a replacement of a function: `recurrence` if the number of tokens is dynamic.

    place: the dim that counts the tokens, of the keyword argument with this name, else of the first argument.
    """

    def wrap(function: Any) -> Any:
        def any_length(*args: Any, **kwargs: Any) -> Any:
            counted = args[0] if argument is None else kwargs[argument]
            several = isinstance(counted.shape[place], torch.SymInt)  # for forward, sizes are instances of int
            return (recurrence if several else function)(*args, **kwargs)

        return any_length

    return wrap


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


def chunk_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **ways: Any,
) -> Any:
    """Equation 1 of "Transformers are SSMs" (Dao and Gu, 2024), Mamba-2's recurrence, token by token.

    `hidden_states` are [batch, length, heads, size], `dt` [batch, length, heads], `A`, `D` and `dt_bias` [heads], `B`
    and `C` [batch, length, groups, state]. Returns the shape of `hidden_states`, and the last state [batch, heads,
    size, state] if requested. `chunk_size` and `ways` do not change the result.
    """
    dt = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    dt = F.softplus(dt) if dt_softplus else dt
    dt = torch.clamp(dt, *dt_limit).float()
    x = hidden_states.float()
    heads = hidden_states.shape[2]
    B, C = (each.float().repeat_interleave(heads // each.shape[2], dim=2) for each in (B, C))
    decays = torch.exp(A.float() * dt)
    first = x.new_zeros(x.shape[0], *x.shape[2:], B.shape[3]) if initial_states is None else initial_states.float()

    def step(state: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        decay, new, writing, reading = now
        after = decay[..., None, None] * state + new[..., None] * writing[..., None, :]
        return after, (after * reading[..., None, :]).sum(-1)

    last, y = _over_tokens(step, first, (decays, x * dt[..., None], B, C))
    y = y if D is None else y + D[..., None] * x
    return (y, last) if return_final_states else y


def gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **ways: Any,
) -> tuple[Tensor, Tensor | None]:
    """Equation 10 of "Gated Delta Networks" (Yang, Kautz and Hatamizadeh, 2024), token by token.

    - `query`, `key`: [batch, length, key heads, key size]
    - `value`: [batch, length, heads, size]
    - `beta`: [batch, length, heads]
    - `g`: the logarithm of decays, [batch, length, heads], or with one for each channel, as in Kimi Linear

    Returns the shape of `value`, and the last state [batch, heads, key size, size] if requested. `chunk_size` and
    `ways` do not change the result.
    """
    dtype, repeats = query.dtype, value.shape[2] // key.shape[2]
    query, key, value, g, beta = (x.float() for x in (query, key, value, g, beta))
    if repeats > 1:
        query, key = (x.repeat_interleave(repeats, dim=2) for x in (query, key))
    if use_qk_l2norm_in_kernel:
        query, key = (x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (query, key))
    query = query * query.shape[-1] ** -0.5
    decays = torch.exp(g if g.dim() == 4 else g[..., None])
    empty = (value.shape[0], *key.shape[2:], value.shape[3])
    first = value.new_zeros(empty) if initial_state is None else initial_state.float()

    def step(state: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        asked, place, new, decay, rate = now
        state = state * decay[..., None]
        known = (state * place[..., None]).sum(-2)
        after = state + place[..., None] * ((new - known) * rate[..., None])[..., None, :]
        return after, (after * asked[..., None]).sum(-2)

    last, y = _over_tokens(step, first, (query, key, value, decays, beta))
    return y.to(dtype), last if output_final_state else None


def _over_tokens(step: Callable[..., Any], first: Tensor, tokens: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Return the last state and the results of `step` for each token, [batch, length, …]."""
    # The state has to keep its memory layout from token to token.
    last, results = scan(step, first.contiguous(), tuple(each.transpose(0, 1) for each in tokens), dim=0)
    return last, results.transpose(0, 1)


def lightning_attention(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None,
    cache: Any = None,
    **ways: Any,
) -> tuple[Tensor, Tensor]:
    """Equation 5 of "MiniMax-01: Scaling Foundation Models with Lightning Attention" (2025), token by token.

    `hidden_states` are [batch, length, size]. The layer's state is [batch, heads, head size, head size]. transformers
    computes a first call in blocks, with the same result.
    """
    qkv = self.act_fn(self.qkv_proj(hidden_states))
    qkv = qkv if attention_mask is None else qkv * attention_mask[:, :, None].to(qkv.dtype)
    shape = (*qkv.shape[:2], self.num_attention_heads, 3 * self.head_dim)
    query, key, value = torch.split(qkv.reshape(shape), self.head_dim, dim=3)
    state = None if cache is None else cache.get_linear_cache(self.layer_idx)
    if state is None:
        state = value.new_zeros(shape[0], self.num_attention_heads, self.head_dim, self.head_dim)
    decay = torch.exp(-self.slope_rate)

    def step(state: Tensor, now: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        asked, place, new = now
        after = decay * state + place[..., None] * new[..., None, :]
        return after, torch.matmul(asked[..., None, :], after).squeeze(-2)

    state, y = _over_tokens(step, state, (query, key, value))
    y = self.norm(y.reshape(*shape[:2], -1))
    y = self.out_proj(torch.sigmoid(self.output_gate(hidden_states)) * y)
    if cache is not None:
        cache.set_linear_cache(self.layer_idx, state)
    return y, state
