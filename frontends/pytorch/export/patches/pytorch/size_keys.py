"""Reports sizes that Python uses as keys, which torch.jit.trace does not warn of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch

from ...decisions.branches import asking_frame


@contextmanager
def keys_reported(ask: Callable[[str], None]) -> Iterator[None]:
    """Call `ask` with a description whenever code outside PyTorch hashes a single integer in a tensor."""

    def hash_of(tensor: torch.Tensor) -> int:
        if not tensor.dim() and not tensor.is_floating_point() and asking_frame() is not None:
            ask("a size as a key of Python")
        return id(tensor)  # as PyTorch does

    with mock.patch.object(torch.Tensor, "__hash__", hash_of):
        yield
