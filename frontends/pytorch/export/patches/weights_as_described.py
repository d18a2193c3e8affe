"""Describes weights to a capture without telling the functions that watch the calls of a program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorConverter

_PLAIN = (torch.Tensor, torch.nn.Parameter)


@contextmanager
def unwatched_weights() -> Iterator[None]:
    """Inside, what PyTorch asks of a plain tensor to make one like it without content is no call of the program.

    It asks each fifty times, and every mode is told each time: a tenth of the capture of ResNet-50, with 321 tensors.
    """
    before = FakeTensorConverter.from_real_tensor

    def from_real_tensor(self: Any, mode: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if type(tensor) not in _PLAIN:  # others say what they are by functions of their own
            return before(self, mode, tensor, *args, **kwargs)
        with torch._C.DisableTorchFunction():
            return before(self, mode, tensor, *args, **kwargs)

    with patch.object(FakeTensorConverter, "from_real_tensor", from_real_tensor):
        yield
