"""Infers the shapes of common layers from their inputs alone while a program is captured, which is most of its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import DispatchKey, FakeTensor, is_contiguous_or_false, kernel_caller, proxy_tensor
from .kernels import with_kernels

_KEY = DispatchKey.CompositeImplicitAutograd


@contextmanager
def infer_layer_shapes() -> Iterator[None]:
    """Inside, what `linear`, `layer_norm` and `batch_norm` give is not found by decomposing them.

    torch.export runs each operator on tensors without content, and decomposes these into several operators only for a
    shape that is plain to see: a quarter of reading BERT. What is not the ordinary case is decomposed as before, and
    so is everything where PyTorch records the decomposition instead of the operator.
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
    """In the place of a description of a value, beside meta["val"], that nothing here reads."""


def _kernel(operator: Any, python: Callable[..., Any] | None, rule: Callable[..., Tensor | None]) -> Callable[..., Any]:
    """A kernel that gives what `rule` infers, and decomposes where that is None."""

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
    return input.new_empty((*input.shape[:-1], outputs))


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
    return torch.empty_like(input) if all(_same_shape(s, normalized_shape) for s in shapes) else None


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
        torch.empty_like(input)
        if all(p is None or _same_shape(p.shape, input.shape[1:2]) for p in parameters)
        else None
    )


def _is_ordinary(input: Tensor, *others: Tensor | None) -> bool:
    """Contiguous tensors without content of one floating dtype: no subclass, no transformation, no constant."""
    tensors = [input, *(t for t in others if t is not None)]
    return (
        all(type(t) is FakeTensor and t.constant is None and t.layout == torch.strided for t in tensors)
        and input.dtype.is_floating_point
        and len({(t.dtype, t.device) for t in tensors}) == 1
        and is_contiguous_or_false(input)
    )


def _same_shape(shape: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes are known to be equal; comparing dynamic dims would make a guard of it."""
    return (
        len(shape) == len(other)
        and all(type(d) is int for d in (*shape, *other))
        and all(a == b for a, b in zip(shape, other, strict=True))
    )
