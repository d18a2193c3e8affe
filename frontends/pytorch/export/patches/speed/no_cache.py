"""Infers the shapes of every call anew during capture, because PyTorch's cache of them costs more than it saves."""

from __future__ import annotations

from typing import Any

from ....torch_internals import infer_anew


def without_cache(before: Any) -> Any:
    """Return a `FakeTensorMode._cached_dispatch_impl` that does not use the cache.

    For each new call, PyTorch builds a key and an entry, and makes the result once more from the entry to compare
    both. With symbolic sizes that takes as long as the inference. Repeated blocks, which would profit, are written from
    the first ones anyway (`repeats.py`).
    """

    def dispatch(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return infer_anew(self, func, types, args, kwargs)

    return dispatch
