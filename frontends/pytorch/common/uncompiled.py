"""Runs functions that PyTorch would compile as they are, where a dispatch mode has to see their operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def uncompiled() -> Iterator[None]:
    """Within the context, `torch.compile` returns the function as it is.

    PyTorch's eager mode compiles `torch.cond` and flex_attention, and gives up after a few shapes. Where a dispatch
    mode is active, Dynamo skips such a function, and does so for the rest of the process: a later torch.export of
    flex_attention fails.
    """
    compile_function = torch.compile

    def same(function: Any = None, **options: Any) -> Any:
        return same if function is None else function

    torch.__dict__["compile"] = same
    try:
        yield
    finally:
        torch.__dict__["compile"] = compile_function
