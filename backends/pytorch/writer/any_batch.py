"""Keeps layers from asking for the size of the batch while the module is captured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from ..kernels import with_kernels
from ..torch_internals import (
    CONVOLUTION_CHOICES,
    EXAMPLE_QUESTIONS,
    DispatchKey,
    OpOverload,
    check,
    convolution_without_content,
    kernel_caller,
    log_softmax,
    matmul,
    shape_functions,
    softmax,
    statically_known_true,
)

_CONVOLUTIONS = (torch.ops.aten.convolution.default, torch.ops.aten._convolution.default)


@contextmanager
def any_batch() -> Iterator[None]:
    """Inside, layers of tensors without content choose no kernel, and no layout.

    PyTorch chooses a kernel for a convolution to tell the layout of the result, by the size of the batch among others,
    and first puts an input of three dims in one piece, which a slice of channels is for a batch of one alone; for a
    linear layer, a reshape, a group norm and a softmax it asks whether the input lies in one piece, for products of
    matrices and einsums which dims are 1, to fold others. The program would have that for a condition, and take no
    batch of one. What is computed does not depend on it.
    """

    def nothing(*arguments: Any, **named: Any) -> None:
        return None

    with ExitStack() as stack:
        for holder, name in CONVOLUTION_CHOICES:
            stack.enter_context(patch.object(holder, name, nothing))
        stack.enter_context(patch.dict(shape_functions, dict.fromkeys(_CONVOLUTIONS, _convolution)))
        stack.enter_context(with_kernels(_KERNELS))
        yield


def _convolution(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's own, which leaves the layout open where a size has no example."""
    with patch.object(*EXAMPLE_QUESTIONS, lambda size: False):
        return convolution_without_content(fake_mode, func, *args, **kwargs)


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


def _matmul(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if _is_known(self, other):
        return matmul(self, other)
    check(self.shape[-1] == other.shape[max(other.dim() - 2, 0)])
    rows, columns = self.shape[-2:-1], other.shape[-1:] if other.dim() > 1 else ()
    return self.new_empty([*_broadcast(self.shape[:-2], other.shape[:-2]), *rows, *columns])


def _einsum(equation: str, tensors: Sequence[torch.Tensor], *, path: Sequence[int] | None = None) -> torch.Tensor:
    if _is_known(*tensors):
        own = kernel_caller(torch.ops.aten.einsum.default)
        return own(DispatchKey.CompositeImplicitAutograd, equation, tensors, path=path)
    terms, _, result = equation.partition("->")
    sizes: dict[str, Any] = {}
    ahead: list[Any] = []
    for term, tensor in zip(terms.split(","), tensors, strict=True):
        front, dots, back = term.partition("...")
        many = tensor.dim() - len(front) - len(back)
        if dots:
            ahead = _broadcast(ahead, tensor.shape[len(front) : len(front) + many])
        for label, size in zip(
            front + back, [*tensor.shape[: len(front)], *tensor.shape[len(front) + many :]], strict=True
        ):
            sizes[label] = _broadcast([sizes.get(label, 1)], [size])[0]
    if not equation.count("->"):
        result = ("..." if "..." in terms else "") + "".join(sorted(c for c in sizes if terms.count(c) == 1))
    front, dots, back = result.partition("...")
    return tensors[0].new_empty([*(sizes[c] for c in front), *(ahead if dots else []), *(sizes[c] for c in back)])


def _group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> torch.Tensor:
    if _is_known(input):
        given = (input, num_groups, weight, bias, eps, cudnn_enabled)
        return kernel_caller(torch.ops.aten.group_norm.default)(DispatchKey.CompositeImplicitAutograd, *given)
    return input.new_empty(input.shape)


def _broadcast(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """The dims of both, of which one that is known to be 1 gives way; others are asked to be equal."""
    rank = max(len(first), len(second))
    pairs = zip([1] * (rank - len(first)) + [*first], [1] * (rank - len(second)) + [*second], strict=True)
    found = []
    for a, b in pairs:
        one = statically_known_true(a == 1)
        if not one and not statically_known_true(b == 1):
            check(a == b)
        found.append(b if one else a)
    return found


def _is_known(*tensors: torch.Tensor) -> bool:
    """Whether all sizes are numbers, so that nothing is asked that a program would have for a condition."""
    return all(isinstance(n, int) for x in tensors for n in x.shape)


def _softmax_by(compute: Callable[[torch.Tensor, int, bool], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def without_question(self: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        if type(self) is torch.Tensor:
            return compute(self if dtype is None else self.to(dtype), dim, False)
        return self.new_empty(self.shape, dtype=dtype or self.dtype)

    return without_question


_KERNELS: dict[OpOverload, Callable[..., Any]] = {
    torch.ops.aten.linear.default: _linear,
    torch.ops.aten.matmul.default: _matmul,
    torch.ops.aten.einsum.default: _einsum,
    torch.ops.aten.group_norm.default: _group_norm,
    torch.ops.aten.reshape.default: _reshape,
    torch.ops.aten.softmax.int: _softmax_by(softmax),
    torch.ops.aten.log_softmax.int: _softmax_by(log_softmax),
}


def _is_open(n: int) -> bool:
    return isinstance(n, int) and n == -1
