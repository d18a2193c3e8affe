"""Keeps PyTorch's transformer layers from looking at a mask's content while a program is captured."""

from __future__ import annotations

from torch import Tensor


def declared_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether the caller says that a mask is causal: it is not asked whether it happens to be."""
    return is_causal is True
