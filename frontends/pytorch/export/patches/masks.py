"""Keeps PyTorch's transformer layers from looking at a mask's content while a program is captured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor
from torch.nn.modules import transformer


@contextmanager
def masks_as_given() -> Iterator[None]:
    """Inside, `nn.Transformer` and its layers do not ask whether a mask happens to be causal.

    They do in order to choose a faster kernel, for the same numbers; torch.export cannot follow a question about data.
    """
    before = transformer._detect_is_causal_mask

    def declared_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
        return is_causal is True

    transformer._detect_is_causal_mask = declared_causal
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = before
