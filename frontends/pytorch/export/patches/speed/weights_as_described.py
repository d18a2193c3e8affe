"""Describes weights to a capture without notifying the modes that watch calls of a program."""

from __future__ import annotations

from typing import Any

import torch

from ....torch_internals import DisableTorchFunction

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def without_watchers(before: Any) -> Any:
    """Return a `FakeTensorConverter.from_real_tensor` whose queries of a plain tensor do not notify modes.

    It queries each tensor fifty times, and every mode is notified each time: a tenth of the capture of ResNet-50, with
    321 tensors.
    """

    def from_real_tensor(self: Any, mode: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if type(tensor) not in _PLAIN:  # other tensors describe themselves by their own functions
            return before(self, mode, tensor, *args, **kwargs)
        with DisableTorchFunction():
            return before(self, mode, tensor, *args, **kwargs)

    return from_real_tensor
