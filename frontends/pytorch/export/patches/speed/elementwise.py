"""Infers the results of elementwise operators directly during capture, where their form is plain to see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from ....torch_internals import FakeTensor, OpOverload, schema_of, unset_fake_temporarily

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.layout)
_AS_STORED = (None, torch.preserve_format, torch.contiguous_format)


def infer_elementwise(before: Any) -> Any:
    """Return a `FakeTensorMode._cached_dispatch_impl` that infers elementwise operators on row-major tensors directly.

    With symbolic sizes, PyTorch decomposes most of them, or compares all sizes and strides as expressions. Here, one
    tensor has the shape of the result, so no comparison is needed: all others have the same sizes or 1. Any other call
    is inferred by `before`.
    """

    def dispatch(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = _infer(self, func, args, kwargs) if _is_elementwise(func) else None
        return before(self, func, types, args, kwargs) if found is None else found

    return dispatch


def row_major(like: Tensor, shape: Sequence[Any], dtype: torch.dtype | None = None) -> FakeTensor:
    """Return a row-major tensor without content, with the mode and the device of `like`, and with its dtype unless
    `dtype` is given.
    """
    assert isinstance(like, FakeTensor)
    with unset_fake_temporarily():
        content = torch.empty(tuple(shape), dtype=dtype or like.dtype, device="meta")
    return FakeTensor(like.fake_mode, content, like.device)


@cache
def _is_elementwise(func: Any) -> bool:
    if not isinstance(func, OpOverload) or torch.Tag.pointwise not in func.tags:
        return False
    schema = schema_of(func)
    returns = schema.returns
    return not schema.is_mutable and len(returns) == 1 and returns[0].alias_info is None


def _infer(mode: Any, func: Any, args: Any, kwargs: Any) -> FakeTensor | None:
    """Return the result of a call; None if it is not plain to see."""
    values = (*args, *kwargs.values())
    tensors = [x for x in values if isinstance(x, Tensor)]
    if not all(_is_plain(x, mode) if isinstance(x, Tensor) else _is_plain_value(x) for x in values):
        return None
    rank = max((t.dim() for t in tensors), default=-1)
    for whole in (t for t in tensors if t.dim() == rank):
        if all(t is whole or (t.device == whole.device and _fits(t.shape, whole.shape)) for t in tensors):
            sizes = tuple(1 if _is_one(size) else 2 + place for place, size in enumerate(whole.shape))
            given = (_described(x, sizes) for x in values)
            default = torch.get_default_dtype()
            dtype = _dtype_of_result(func, default, sizes, len(args), tuple(kwargs), *given)
            return None if dtype is None else row_major(whole, whole.shape, dtype)
    return None


def _described(value: Any, sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return a tensor's dtype and its shape, with the numbers `sizes` for the sizes from the end; type and value of
    another argument.
    """
    if not isinstance(value, Tensor):
        return type(value), value
    own = sizes[len(sizes) - value.dim() :]
    return value.dtype, tuple(1 if _is_one(size) else number for size, number in zip(value.shape, own, strict=True))


@lru_cache(1 << 12)
def _dtype_of_result(
    func: Any,
    default: torch.dtype,
    sizes: tuple[int, ...],
    count: int,
    names: tuple[str, ...],
    *described: tuple[Any, Any],
) -> torch.dtype | None:
    """Return the dtype of the result of a call on tensors without content, whose sizes are numbers.

    Returns None if it raises an exception, or returns another shape than `sizes`. `count` is the number of positional
    arguments, `names` are those of the others. `default` is PyTorch's default dtype, which integers may become.
    """
    with unset_fake_temporarily():
        values = [torch.empty(x, dtype=k, device="meta") if isinstance(k, torch.dtype) else x for k, x in described]
        try:
            found = func(*values[:count], **dict(zip(names, values[count:], strict=True)))
        except (NotImplementedError, RuntimeError, TypeError):  # PyTorch's own inference says what is wrong
            return None
    is_whole = tuple(found.shape) == sizes and found.is_contiguous() and found.layout == torch.strided
    return found.dtype if is_whole else None


def _is_plain(tensor: Tensor, mode: Any) -> bool:
    """Return whether a tensor belongs to the mode, and has no known content and row-major strides."""
    return (
        type(tensor) is FakeTensor
        and tensor.fake_mode is mode
        and tensor.constant is None
        and tensor.layout == torch.strided
        and _is_row_major(tensor)
    )


def _is_plain_value(value: Any) -> bool:
    return value in _AS_STORED if isinstance(value, torch.memory_format) else type(value) in _PLAIN


def _is_row_major(tensor: Tensor) -> bool:
    """Return whether the strides are the products of the later sizes, by comparing expressions; this makes no guard."""
    product: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if _expression(stride) != product:
            return False
        product = product * _expression(size)
    return True


def _fits(shape: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Return whether each size is known to be that of `whole` at the same place from the end, or 1."""
    pairs = zip(shape, whole[len(whole) - len(shape) :], strict=True)
    return all(_is_one(a) or (type(a) is type(b) and _expression(a) == _expression(b)) for a, b in pairs)


def _is_one(size: Any) -> bool:
    return type(size) is int and size == 1


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size
