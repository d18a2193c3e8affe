"""Permutations and dims of values, for the emitter and for rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import keras
import numpy as np
import onnx_ir as ir
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.graph.values import known_dims

from .constants import Constant

Tensor: TypeAlias = "KerasTensor | np.ndarray"
"""An operand of Keras's operations, as returned by `Emitter.tensor`."""


def permute_axes(x: Any, perm: Sequence[int]) -> Any:
    """Permute axes: of a constant once, of other values by a layer or an operation."""
    perm = tuple(int(p) for p in perm)
    if perm == tuple(sorted(perm)):
        return x
    if isinstance(x, Constant):
        return x.permuted(*perm)
    if perm[0] == 0 and is_floating(x):
        return layers.Permute(perm[1:], dtype=x.dtype)(x)
    return ops.transpose(x, perm)


def is_floating(x: Any) -> bool:
    """Return whether layers compute in the dtype of `x`; they cast integers to their own."""
    return keras.backend.standardize_dtype(x.dtype).startswith(("float", "bfloat"))


def halves_in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a rule so that it sums and squares a half-precision first input in float32.

    TensorFlow adds float16 in float16: a sum of ones stays at 2048.
    """

    @wraps(rule)
    def wide(k: Any, x: Any, *others: Any, **attributes: Any) -> Any:
        dtype = keras.backend.standardize_dtype(x.dtype)
        if dtype not in ("float16", "bfloat16"):
            return rule(k, x, *others, **attributes)
        return ops.cast(rule(k, ops.cast(k.tensor(x), "float32"), *others, **attributes), dtype)

    return wide


def ones_along(x: KerasTensor, axis: int, dtype: str) -> KerasTensor:
    """Return a vector of ones with the length of an axis."""
    # An axis that may be empty has no first element.
    others = [i for i, n in enumerate(x.shape) if i != axis and not n]
    place = tuple(slice(None) if i == axis or i in others else 0 for i in range(len(x.shape)))
    row, kept = x[place], sorted([axis, *others])
    if others:
        row = ops.sum(row, [kept.index(i) for i in others])
    return ops.cast(ops.ones_like(row), dtype)


def places_below(count: Tensor) -> KerasTensor:
    """Return 0, 1, 2 … below a run-time integer scalar, as int64; empty if it is not positive.

    Keras's arange takes Python numbers only. So this counts the bins of `bincount([n])`, which has n + 1 of them, and
    drops one.
    """
    most = ops.reshape(ops.cast(ops.maximum(count, 0), "int32"), (1,))
    return ops.cast(ops.cumsum(ops.ones_like(ops.bincount(most)[(slice(1, None),)])) - 1, "int64")


def with_rank(x: Any, rank: int) -> Any:
    """Return x with leading dims of 1 up to this rank. A reshape would support one dynamic dim only."""
    for _ in range(rank - len(x.shape)):
        x = ops.expand_dims(x, 0)
    return x


def dims_of_value(value: ir.Value) -> list[int | str | None]:
    """Return dims as ints, names or None. Raises `Unsupported` if the rank is unknown."""
    found = known_dims(value)
    if found is None:
        raise Unsupported("the rank of a tensor is not known")
    return list(found)


def _of_as_many_dims(x: Any, other: Any) -> Any:
    """Return a matrix with leading dims of 1 if the other operand has more dims."""
    if isinstance(x, keras.KerasTensor) and len(x.shape) == 2:
        for _ in range(len(np.shape(other)) - 2):
            x = ops.expand_dims(x, 0)
    return x


def fusion_barrier(x: Any) -> Any:
    """Return x through ExpandDims and Squeeze, because TensorFlow's optimizer does not fuse across them."""
    return ops.squeeze(ops.expand_dims(x, 0), 0)


def _no_bias(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both terms of a sum or difference in a form that TensorFlow does not mistake for a bias."""
    b = _as_scalar(b, a)
    a = _as_scalar(a, b)
    a, b = _behind_bias(a, b), _behind_bias(b, a)
    a, b = _of_as_many_dims(a, b), _of_as_many_dims(b, a)
    if _is_scaled_product(a, b):
        return fusion_barrier(a), b
    if _is_scaled_product(b, a):
        return a, fusion_barrier(b)
    return a, b


def _dims(x: Any) -> tuple[int | None, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _as_scalar(x: Any, other: Any) -> Any:
    """Return a tensor of shape [1, …] as a scalar if the other operand has at least as many dims.

    TensorFlow's optimizer swaps a constant added after a bias with that bias. A bias of one element then serves many
    channels: either the memory after it is added, or the graph does not run (TensorFlow 2.21).
    """
    dims = _dims(x)
    return ops.reshape(x, ()) if dims and len(dims) <= len(_dims(other)) and all(d == 1 for d in dims) else x


def _behind_bias(x: Any, other: Any) -> Any:
    """Isolate x from the optimizer if a layer with a bias created it and `other` resembles a constant bias.

    That is so if only one dim of `other`, not the last, is longer than 1. TensorFlow would
    swap it with the bias (see `_as_scalar`), although it is not a constant (TensorFlow 2.21).
    """
    if not isinstance(x, keras.KerasTensor) or not getattr(x._keras_history.operation, "use_bias", False):
        return x
    long = [axis for axis, n in enumerate(_dims(other)) if n != 1]
    return fusion_barrier(x) if len(long) == 1 and long[0] != len(_dims(other)) - 1 else x


def _is_scaled_product(x: Any, other: Any) -> bool:
    """Return whether x is a batched four-dimensional product times a number, and `other` may have longer dims.

    In that case, if the second dim of `other` is 1, oneDNN's fused product keeps the dims of x (TensorFlow 2.21).
    """
    dims = _dims(other)
    if not isinstance(x, keras.KerasTensor) or len(x.shape) != 4 or len(dims) != 4 or dims[1] not in (1, None):
        return False
    if all(b == 1 or (a is not None and a != 1) for a, b in zip(x.shape, dims, strict=True)):
        return False
    made = x._keras_history.operation
    if type(made).__name__ not in ("Multiply", "Divide", "TrueDivide", "Rescaling"):
        return False
    sources = made._inbound_nodes[-1].arguments.keras_tensors
    return any(type(y._keras_history.operation).__name__ == "Matmul" for y in sources)


def minus(a: Any, b: Any) -> Any:
    """Return the difference, with broadcasting.

    TensorFlow's optimizer turns the subtraction of a negated tensor into an addition, for which see `plus`.
    """
    return ops.subtract(*_no_bias(a, b))


def plus(a: Any, b: Any) -> Any:
    """Return the sum, with broadcasting.

    Keras 3.15's own addition treats a second operand with one long dim as a bias of the first one's last (or second)
    dim, whichever dim it is: [4, 4] + [4, 1] is wrong. Subtraction is not affected. oneDNN does the same for a term
    with more dims than the matrix product that it is added to, and returns a matrix; so the product gets leading dims
    of 1.
    """
    a, b = _no_bias(a, b)
    if isinstance(b, (int, float)) or all(d == 1 for d in b.shape):
        return ops.add(a, b)
    if len(b.shape) == 1 and len(a.shape) > 1 and a.shape[-1] == b.shape[0] is not None:
        return ops.add(a, b)
    return ops.subtract(a, ops.subtract(np.zeros([], keras.backend.standardize_dtype(b.dtype)), b))
