"""Lets the attention of transformers accept any number of queries during capture, and no mask where it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

_NAME = "sdpa"
_REFUSED = ("softcap", "output_attentions")
"""Arguments that transformers' own function accepts without naming them, and raises or warns about."""


@contextmanager
def attention_of_any_length() -> Iterator[None]:
    """Make the capture of masked attention the same for one query as for many.

    transformers has a special case for a single query, to choose a faster kernel with the same result. A program
    captured with several queries would then reject one, and no step of a generation could use it.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    before = ALL_ATTENTION_FUNCTIONS[_NAME]
    known = set(signature(before).parameters) - {"is_causal"}
    was_local = _NAME in ALL_ATTENTION_FUNCTIONS._local_mapping

    def is_given(argument: tuple[str, Any]) -> bool:
        """Return whether an argument changes the result; transformers' own function ignores arguments that it does not
        name.
        """
        name, value = argument
        return name in known and value is not None

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
        if attention_mask is None or any(more.get(name) for name in _REFUSED) or any(map(is_given, more.items())):
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


def no_mask_without_padding(ignores: Callable[..., bool]) -> Callable[..., bool]:
    """Return what decides whether a bidirectional mask is left out: without padding, it is, as outside of a capture.

    A capture makes a mask that masks nothing. Autoformer adds it to scores that have another shape than its own.
    """

    def ignores_during_capture(
        padding_mask: torch.Tensor | None, kv_length: int, local_attention_size: int | None = None
    ) -> bool:
        if padding_mask is None and local_attention_size is None:
            return True
        return ignores(padding_mask, kv_length, local_attention_size)

    return ignores_during_capture
