"""Lengths in attention during capture: values equal keys, and transformers accepts any number of queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ...torch_internals import DispatchKey, check, kernel_caller
from .kernels import with_kernels

_NAME = "sdpa"
_REFUSED = ("softcap", "output_attentions")
"""Arguments that transformers' own function accepts without naming them, and raises or warns about."""


def equal_lengths_of_keys_and_values() -> AbstractContextManager[None]:
    """Tell capture that there are as many values as keys, which attention multiplies with each other.

    PyTorch infers the result's shape only: 2.13 treats the two lengths as different in four dims with equal feature
    sizes, 2.14 in three dims too.
    """
    operator, key = torch.ops.aten.scaled_dot_product_attention.default, DispatchKey.CompositeImplicitAutograd
    own = operator.py_kernels.get(key)

    def kernel(query: Tensor, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> Any:
        if keys.dim() > 1 and values.dim() > 1:
            check(keys.shape[-2] == values.shape[-2])
        given = query, keys, values, *args
        return own(*given, **kwargs) if own is not None else kernel_caller(operator)(key, *given, **kwargs)

    return with_kernels({operator: {key: kernel}})


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
