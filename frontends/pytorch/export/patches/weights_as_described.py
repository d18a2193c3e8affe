"""Describes weights to a capture without telling the functions that watch the calls of a program."""

from __future__ import annotations

from typing import Any

import torch

from ...torch_internals import DisableTorchFunction

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def without_watchers(before: Any) -> Any:
    """Return `FakeTensorConverter.from_real_tensor` whose questions to a plain tensor are no calls of the program.

    It asks each fifty times, and every mode is told each time: a tenth of the capture of ResNet-50, with 321 tensors.
    """

    def from_real_tensor(self: Any, mode: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if type(tensor) not in _PLAIN:  # others say what they are by functions of their own
            return before(self, mode, tensor, *args, **kwargs)
        with DisableTorchFunction():
            return before(self, mode, tensor, *args, **kwargs)

    return from_real_tensor
