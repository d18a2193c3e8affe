"""Keeps PyTorch's transformer layers from reading a mask's content during capture."""

from __future__ import annotations

from torch import Tensor


def declared_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether the caller declares a mask causal, without checking its content."""
    return is_causal is True
