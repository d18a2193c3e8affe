"""Writes torch.nn.attention.flex_attention with the operators that it stands for while a program is captured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

_MODULE = "torch.nn.attention.flex_attention"


@contextmanager
def attention_of_scores() -> Iterator[None]:
    """Inside, flex_attention computes its scores, what its score_mod makes of them, and its mask, one after the other.

    It is PyTorch's own formula for where nothing is compiled (`math_attention`), under which both functions are mapped
    over the places of the scores; of the captured operator they are programs of single numbers.
    """
    module = sys.modules.get(_MODULE)  # who has not imported it calls nothing of it
    if module is None:
        yield
        return
    from torch._higher_order_ops.flex_attention import math_attention

    with (
        mock.patch.object(module, "flex_attention_hop", math_attention),
        mock.patch.object(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True),
    ):
        yield
