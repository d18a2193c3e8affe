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
"""What Keras's operations take: what `Emitter.tensor` gives."""


def permute_axes(x: Any, perm: Sequence[int]) -> Any:
    """Axes permuted: of a constant once, of anything else by a layer or an operation."""
    perm = tuple(int(p) for p in perm)
    if perm == tuple(sorted(perm)):
        return x
    if isinstance(x, Constant):
        return x.permuted(*perm)
    if perm[0] == 0 and is_floating(x):
        return layers.Permute(perm[1:], dtype=x.dtype)(x)
    return ops.transpose(x, perm)


def is_floating(x: Any) -> bool:
    """Whether layers compute in the dtype of `x`, a tensor, constant or array; they take integers for their own."""
    return keras.backend.standardize_dtype(x.dtype).startswith(("float", "bfloat"))


def halves_in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule whose first input, where it is of half precision, is summed and squared in float32.

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
    """A vector of ones, as many as there are elements along an axis."""
    # An axis that may be empty has no first element.
    others = [i for i, n in enumerate(x.shape) if i != axis and not n]
    place = tuple(slice(None) if i == axis or i in others else 0 for i in range(len(x.shape)))
    row, kept = x[place], sorted([axis, *others])
    if others:
        row = ops.sum(row, [kept.index(i) for i in others])
    return ops.cast(ops.ones_like(row), dtype)


def places_below(count: Tensor) -> KerasTensor:
    """0, 1, 2 … below a number that only the run tells, a scalar of any integers: int64, none where it is not positive.

    Keras counts to numbers of Python only; but its histogram of a number has as many places and one.
    """
    most = ops.reshape(ops.cast(ops.maximum(count, 0), "int32"), (1,))
    return ops.cast(ops.cumsum(ops.ones_like(ops.bincount(most)[(slice(1, None),)])) - 1, "int64")


def with_rank(x: Any, rank: int) -> Any:
    """With dims of 1 in front, up to this rank. A reshape would do for one dim of dynamic size only."""
    for _ in range(rank - len(x.shape)):
        x = ops.expand_dims(x, 0)
    return x


def dims_of_value(value: ir.Value) -> list[int | str | None]:
    """Ints, names, or None. Raises `Unsupported` if the rank is unknown."""
    found = known_dims(value)
    if found is None:
        raise Unsupported("the rank of a tensor is not known")
    return list(found)


def _of_as_many_dims(x: Any, other: Any) -> Any:
    """A matrix with dims of 1 in front, where it is added to what has more dims."""
    if isinstance(x, keras.KerasTensor) and len(x.shape) == 2:
        for _ in range(len(np.shape(other)) - 2):
            x = ops.expand_dims(x, 0)
    return x


def kept_apart(x: Any) -> Any:
    """x with a dim of 1 put in front and taken away, over which TensorFlow's optimizer does not fuse."""
    return ops.squeeze(ops.expand_dims(x, 0), 0)


def _no_bias(a: Any, b: Any) -> tuple[Any, Any]:
    """Both terms of a sum or a difference, so that neither is taken for a bias that it is not."""
    b = _as_scalar(b, a)
    a = _as_scalar(a, b)
    a, b = _behind_bias(a, b), _behind_bias(b, a)
    a, b = _of_as_many_dims(a, b), _of_as_many_dims(b, a)
    if _is_scaled_product_of_less(a, b):
        return kept_apart(a), b
    if _is_scaled_product_of_less(b, a):
        return a, kept_apart(b)
    return a, b


def _dims(x: Any) -> tuple[int | None, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _as_scalar(x: Any, other: Any) -> Any:
    """One number of shape [1, …] as a scalar, where it is added to what has as many dims.

    A constant that is added behind a bias changes places with it in TensorFlow's optimizer, and is a bias of one
    element for many channels then: what is behind it in memory is added, or the graph does not run (TensorFlow 2.21).
    """
    dims = _dims(x)
    return ops.reshape(x, ()) if dims and len(dims) <= len(_dims(other)) and all(d == 1 for d in dims) else x


def _behind_bias(x: Any, other: Any) -> Any:
    """x kept apart where a layer with a bias made it, and `other` has one long dim, which is not the last.

    A constant changes places with the bias, see `_as_scalar`, and is none (TensorFlow 2.21).
    """
    if not isinstance(x, keras.KerasTensor) or not getattr(x._keras_history.operation, "use_bias", False):
        return x
    long = [axis for axis, n in enumerate(_dims(other)) if n != 1]
    return kept_apart(x) if len(long) == 1 and long[0] != len(_dims(other)) - 1 else x


def _is_scaled_product_of_less(x: Any, other: Any) -> bool:
    """Whether x is a product of four-dimensional batches times a number, of which `other` may repeat what is one.

    oneDNN's fused product keeps its own dims then, if the second dim of `other` is 1 (TensorFlow 2.21).
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
    """The difference, with broadcasting: of a negative TensorFlow's optimizer makes a sum (see `plus`)."""
    return ops.subtract(*_no_bias(a, b))


def plus(a: Any, b: Any) -> Any:
    """The sum, with broadcasting.

    Keras's own addition takes a second operand with one long dim for a bias of the last (or second) dim of the first,
    wherever that dim is: [4, 4] + [4, 1] is wrong in 3.15. A difference is not touched. oneDNN does so with what has
    more dims than the matrix product that it is added to, and its result has two: that gets dims of 1 in front.
    """
    a, b = _no_bias(a, b)
    if isinstance(b, (int, float)) or all(d == 1 for d in b.shape):
        return ops.add(a, b)
    if len(b.shape) == 1 and len(a.shape) > 1 and a.shape[-1] == b.shape[0] is not None:
        return ops.add(a, b)
    return ops.subtract(a, ops.subtract(np.zeros([], keras.backend.standardize_dtype(b.dtype)), b))
