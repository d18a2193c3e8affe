"""Infers the shapes of common layers directly during capture, which otherwise takes most of its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ....torch_internals import DispatchKey, FakeTensor, is_contiguous_or_false, kernel_caller, proxy_tensor
from ..kernels import with_kernels
from .elementwise import row_major

_KEY = DispatchKey.CompositeImplicitAutograd


@contextmanager
def infer_layer_shapes() -> Iterator[None]:
    """Infer the results of `linear`, `layer_norm` and `batch_norm` without decomposing them.

    torch.export runs each operator on fake tensors, and decomposes these into several operators only for a simple
    shape: a quarter of the time to read BERT. Other cases are decomposed as before, as is everything where PyTorch
    records the decomposition instead of the operator.
    """
    aten = torch.ops.aten
    rules: dict[Any, Callable[..., Tensor | None]] = {
        aten.linear.default: _linear,
        aten.layer_norm.default: _layer_norm,
        aten.batch_norm.default: _batch_norm,
    }
    kernels = {o: {_KEY: _kernel(o, o.py_kernels.get(_KEY), rule)} for o, rule in rules.items()}
    with with_kernels(kernels):
        yield


def no_description(*args: Any, **kwargs: Any) -> None:
    """Replaces the description of a value, next to meta["val"], that nothing here reads."""


def _kernel(operator: Any, python: Callable[..., Any] | None, rule: Callable[..., Tensor | None]) -> Callable[..., Any]:
    """Return a kernel that returns the result of `rule`; where `rule` infers nothing, it decomposes the operator."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        found = None
        if not torch.is_grad_enabled() and proxy_tensor.get_proxy_mode() is None:
            found = rule(*args, **kwargs)
        if found is not None:
            return found
        return python(*args, **kwargs) if python is not None else kernel_caller(operator)(_KEY, *args, **kwargs)

    return kernel


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if not _is_ordinary(input, weight, bias) or weight.dim() != 2 or input.dim() == 0:
        return None
    outputs, width = weight.shape
    if not _same_shape((input.shape[-1],), (width,)) or (bias is not None and not _same_shape(bias.shape, (outputs,))):
        return None
    return row_major(input, (*input.shape[:-1], outputs))


def _layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor | None:
    count = len(normalized_shape)
    if not _is_ordinary(input, weight, bias) or not 0 < count <= input.dim():
        return None
    shapes = [input.shape[-count:], *(p.shape for p in (weight, bias) if p is not None)]
    return row_major(input, input.shape) if all(_same_shape(s, normalized_shape) for s in shapes) else None


def _batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor | None:
    if training or running_mean is None or running_var is None or input.dim() < 2:
        return None
    parameters = (weight, bias, running_mean, running_var)
    if not _is_ordinary(input, *parameters):
        return None
    return (
        row_major(input, input.shape)
        if all(p is None or _same_shape(p.shape, input.shape[1:2]) for p in parameters)
        else None
    )


def _is_ordinary(input: Tensor, *others: Tensor | None) -> bool:
    """Return whether tensors are contiguous fake tensors of one floating-point dtype, without subclass or
    transformation.
    """
    tensors = [input, *(t for t in others if t is not None)]
    return (
        all(type(t) is FakeTensor and t.constant is None and t.layout == torch.strided for t in tensors)
        and input.dtype.is_floating_point
        and len({(t.dtype, t.device) for t in tensors}) == 1
        and is_contiguous_or_false(input)
    )


def _same_shape(shape: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two shapes are known to be equal; comparing dynamic dims would create a guard."""
    return (
        len(shape) == len(other)
        and all(type(d) is int for d in (*shape, *other))
        and all(a == b for a, b in zip(shape, other, strict=True))
    )
