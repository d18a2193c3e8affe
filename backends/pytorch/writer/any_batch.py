"""Keeps layers from asking for the size of the batch while the module is captured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.fx.experimental.symbolic_shapes as symbolic_shapes
from torch._ops import OpOverload
from torch._subclasses.fake_impls import conv, op_implementations_dict

from ..kernels import with_kernels

_ASKED = ("_select_conv_backend", "_conv_determine_backend_memory_format")
_CONVOLUTIONS = (torch.ops.aten.convolution.default, torch.ops.aten._convolution.default)


@contextmanager
def any_batch() -> Iterator[None]:
    """Inside, layers of tensors without content choose no kernel, and no layout.

    PyTorch chooses a kernel for a convolution to tell the layout of the result, by the size of the batch among others,
    and first puts an input of three dims in one piece, which a slice of channels is for a batch of one alone; for a
    linear layer, a reshape and a softmax it asks whether the input lies in one piece. The program would have that for a
    condition, and take no batch of one. What is computed does not depend on it.
    """

    def nothing(*arguments: Any, **named: Any) -> None:
        return None

    with ExitStack() as stack:
        for name in _ASKED:
            stack.enter_context(patch.object(torch._C, name, nothing))
        stack.enter_context(patch.dict(op_implementations_dict, dict.fromkeys(_CONVOLUTIONS, _convolution)))
        stack.enter_context(with_kernels(_KERNELS))
        yield


def _convolution(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's own, which leaves the layout open where a size has no example."""
    with patch.object(symbolic_shapes, "has_guarding_hint", lambda size: False):
        return conv(fake_mode, func, *args, **kwargs)


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    if type(input) is torch.Tensor:  # a constant that PyTorch computes with
        return torch.matmul(input, weight.t()) + (0 if bias is None else bias)
    return input.new_empty((*input.shape[:-1], weight.shape[0]))


def _reshape(self: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    if type(self) is torch.Tensor:
        return self.contiguous().view(shape)
    # The length that is left to tell: what does not divide is refused by the reshape when it runs.
    known = math.prod(n for n in shape if not _is_open(n))
    return self.new_empty([self.numel() // known if _is_open(n) else n for n in shape])


def _softmax_by(compute: Callable[[torch.Tensor, int, bool], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def softmax(self: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        if type(self) is torch.Tensor:
            return compute(self if dtype is None else self.to(dtype), dim, False)
        return self.new_empty(self.shape, dtype=dtype or self.dtype)

    return softmax


_KERNELS: dict[OpOverload, Callable[..., Any]] = {
    torch.ops.aten.linear.default: _linear,
    torch.ops.aten.reshape.default: _reshape,
    torch.ops.aten.softmax.int: _softmax_by(torch._softmax),
    torch.ops.aten.log_softmax.int: _softmax_by(torch._log_softmax),
}


def _is_open(n: int) -> bool:
    return isinstance(n, int) and n == -1
