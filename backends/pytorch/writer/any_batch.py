"""Keeps layers from asking about the batch size during capture."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from ..kernels import with_kernels
from ..torch_internals import (
    CONVOLUTION_CHOICES,
    EXAMPLE_QUESTIONS,
    LEAVES_SLICES_OPEN,
    POOL_DIVISION,
    DispatchKey,
    OpOverload,
    check,
    convolution_without_content,
    guard_or_false,
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
    """Let layers of tensors without content choose no kernel and no layout inside the context.

    PyTorch's questions would become conditions of the program, which would then reject a batch of one. The results do
    not depend on them:

    - A convolution chooses a kernel, by the batch size among others, to determine the layout of its result. It also
      makes an input of three dims contiguous, and a slice of channels is contiguous for a batch of one only.
    - A linear layer, a reshape, a group norm and a softmax ask whether the input is contiguous.
    - Matrix products and einsums ask which dims are 1, to fold the others.
    """

    def nothing(*arguments: Any, **named: Any) -> None:
        return None

    with ExitStack() as stack:
        for holder, name in CONVOLUTION_CHOICES:
            stack.enter_context(patch.object(holder, name, nothing))
        stack.enter_context(
            patch.object(*POOL_DIVISION, operator.floordiv)
        )  # which rounds down as well, and asks nothing
        stack.enter_context(patch.dict(shape_functions, dict.fromkeys(_CONVOLUTIONS, _convolution)))
        if LEAVES_SLICES_OPEN:
            own = shape_functions[torch.ops.aten.slice.Tensor]
            stack.enter_context(patch.dict(shape_functions, {torch.ops.aten.slice.Tensor: _slice_by(own)}))
        stack.enter_context(with_kernels(_KERNELS))
        yield


def _convolution(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Call PyTorch's own shape function, which leaves the layout open for a size without an example."""
    with patch.object(*EXAMPLE_QUESTIONS, lambda size: False):
        return convolution_without_content(fake_mode, func, *args, **kwargs)


def _slice_by(own: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a shape function for aten.slice that expresses the length with `sym_max`, as PyTorch 2.12 and later do.

    `own` is PyTorch's function. It is called for known sizes, and for indices whose sign is known only at run time.
    """

    def slice_of(
        fake_mode: Any, func: Any, self: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
    ) -> torch.Tensor:
        size, ahead = self.shape[dim], self.stride(dim)
        first = _index(0 if start is None else start, size)
        last = size if end is None or statically_known_true(end == sys.maxsize) else _index(end, size)
        if isinstance(size, int) or first is None or last is None:
            return own(fake_mode, func, self, dim, start, end, step)
        count = last - first if guard_or_false(last >= first) else torch.sym_max(last - first, 0)
        sizes, strides = [*self.shape], [*self.stride()]
        sizes[dim], strides[dim] = (count + step - 1) // step, ahead * step
        return self.as_strided(sizes, strides, self.storage_offset() + first * ahead)

    return slice_of


def _index(index: Any, size: Any) -> Any:
    """Return an index of a slice counted from the front; None if its sign is known at run time only."""
    if guard_or_false(index < 0):
        place = index + size
        if guard_or_false(place >= 0):
            return place
        return 0 if guard_or_false(place < 0) else torch.sym_max(place, 0)
    if guard_or_false(index >= 0):
        if guard_or_false(index <= size):
            return index
        return size if guard_or_false(index > size) else torch.sym_min(index, size)
    return None


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    if type(input) is torch.Tensor:  # a constant that PyTorch computes with
        return torch.matmul(input, weight.t()) + (0 if bias is None else bias)
    return input.new_empty((*input.shape[:-1], weight.shape[0]))


def _reshape(self: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    if type(self) is torch.Tensor:
        return self.contiguous().view(shape)
    # The inferred size; if it does not divide, the reshape fails at run time.
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
    """Return the broadcast dims. A dim that is known to be 1 yields to the other; others are required to be equal."""
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
    """Return whether all sizes are numbers, so that no question becomes a condition of the program."""
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
