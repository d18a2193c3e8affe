"""Keeps transformers' attention from asking how many queries there are while a program is captured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

_NAME = "sdpa"


@contextmanager
def attention_of_any_length() -> Iterator[None]:
    """Inside, attention with a mask is the same for one query as for many.

    transformers takes another way for a single query: to choose a faster kernel, for the same numbers. A program
    that is captured with several would then be one for several only, and no step of a generation.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    before = ALL_ATTENTION_FUNCTIONS[_NAME]
    was_local = _NAME in ALL_ATTENTION_FUNCTIONS._local_mapping

    def masked_attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        **more: Any,
    ) -> tuple[torch.Tensor, None]:
        plain = all(more.get(name) is None for name in ("softcap", "position_bias", "cache"))
        if attention_mask is None or not plain or more.get("output_attentions"):
            found: tuple[torch.Tensor, None] = before(
                module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
            )
            return found
        y = scaled_dot_product_attention(
            query, key, value, attention_mask, dropout, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
        )
        return y.transpose(1, 2).contiguous(), None

    ALL_ATTENTION_FUNCTIONS[_NAME] = masked_attention
    try:
        yield
    finally:
        if was_local:
            ALL_ATTENTION_FUNCTIONS[_NAME] = before
        else:
            del ALL_ATTENTION_FUNCTIONS[_NAME]
