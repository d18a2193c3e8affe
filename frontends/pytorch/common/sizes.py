"""Helpers for sizes: axes, lengths known now or at run time, shapes as tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.metadata import DIM_KEY

from .values import cast, mark_scalar

Size: TypeAlias = "Sequence[int | ir.Value]"


def axis_of(g: Graph, x: ir.Value, dim: int) -> int:
    """Return `dim` counted from the front; in PyTorch, tensors of rank 0 have a dim 0 (and -1)."""
    rank = g.rank(x)
    return dim + rank if dim < 0 and rank else max(dim, 0)


def axes_of(g: Graph, x: ir.Value, dims: int | Sequence[int] | None) -> list[int]:
    """Return `dims` counted from the front and sorted; None or an empty list means all."""
    rank = g.rank(x)
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(rank))
    return sorted(axis_of(g, x, d) for d in ([dims] if isinstance(dims, int) else dims)) if rank else []


def static_sizes(sizes: Sequence[Dim], message: str) -> list[int]:
    """Return dims as numbers. Raises `Unsupported` with this message if one of them is unknown."""
    known = [n for n in sizes if isinstance(n, int)]
    if len(known) < len(sizes):
        raise Unsupported(message)
    return known


def size(g: Graph, x: ir.Value, dim: int) -> int | ir.Value:
    """Return the length of a dim: an int if it is static, else a value of rank 0."""
    dim = axis_of(g, x, dim)
    known = g.shape(x)[dim] if x.shape is not None else None
    if isinstance(known, int):
        return known
    return mark_scalar(g.Squeeze(g.Shape(x, start=dim, end=dim + 1), [0]))


def vector(g: Graph, numbers: Size | int | ir.Value) -> ir.Value:
    """Return ints, some of them run-time values, as one int64 tensor of rank 1."""
    items = [numbers] if isinstance(numbers, (int, ir.Value)) else list(numbers)
    if all(isinstance(n, int) for n in items):
        return g.const(np.array(items, dtype=np.int64))
    if len(items) == 1:
        return _as_vector(g, items[0])
    parts: list[ir.Value] = []
    run: list[int] = []
    for n in items:
        if isinstance(n, int):
            run.append(n)
            continue
        if run:
            parts.append(g.const(np.array(run, dtype=np.int64)))
            run = []
        parts.append(_as_vector(g, n))
    if run:
        parts.append(g.const(np.array(run, dtype=np.int64)))
    return g.Concat(*parts, axis=0)


def reshape(g: Graph, x: ir.Value, shape: Size) -> ir.Value:
    """Return `x` with a new shape of ints (one may be -1) and run-time ints, as static as ONNX allows.

    A dim that `x` has at the same position becomes 0 (keep). If one other dim is unknown, it becomes -1.
    """
    dims: list[int | ir.Value] = list(shape)
    before = g.shape(x) if x.shape is not None else ()
    written: list[int | ir.Value] = []
    for i, d in enumerate(dims):
        keeps = isinstance(d, ir.Value) and i < len(before) and before[i] is not None and before[i] == dim_name_of(g, d)
        written.append(0 if keeps else d)
    unknown = [i for i, d in enumerate(written) if isinstance(d, ir.Value)]
    if (
        len(unknown) == 1
        and -1 not in [d for d in written if isinstance(d, int)]
        and 0 not in [d for d in dims if isinstance(d, int)]
    ):
        written[unknown[0]] = -1
    # A literal zero excludes "keep" zeros in the same shape, and vice versa.
    if any(isinstance(d, int) and d == 0 for d in dims):
        return g.Reshape(x, vector(g, dims), allowzero=1)
    return g.Reshape(x, vector(g, written))


def dim_name_of(g: Graph, value: ir.Value) -> str | None:
    """Return the name of the dim that a run-time int is the length of, if `size` created the int; else None."""
    named = value.meta.get(DIM_KEY)
    if named is not None:
        return str(named)
    node = value.producer()
    if node is None or node.op_type != "Squeeze" or node.inputs[0] is None:
        return None
    shape = node.inputs[0].producer()
    if shape is None or shape.op_type != "Shape" or shape.inputs[0] is None or "start" not in shape.attributes:
        return None
    dim = g.shape(shape.inputs[0])[shape.attributes["start"].as_int()]
    return dim if isinstance(dim, str) else None


def broadcast_to_rank(g: Graph, x: ir.Value, rank: int) -> ir.Value:
    """Return `x` with leading dims of length 1 up to `rank` dims."""
    missing = rank - g.rank(x)
    return g.Unsqueeze(x, list(range(missing))) if missing > 0 else x


def arange(g: Graph, length: int | ir.Value) -> ir.Value:
    """Return 0 … length - 1 as int64."""
    if isinstance(length, int):
        return g.const(np.arange(length, dtype=np.int64))
    return g.Range(g.const(0), length, g.const(1))


def plus(g: Graph, a: int | ir.Value, b: int | ir.Value) -> int | ir.Value:
    """Return the sum of two lengths, an int if both are known."""
    return a + b if isinstance(a, int) and isinstance(b, int) else mark_scalar(g.Add(*_numbers(g, a, b)))


def times(g: Graph, *lengths: int | ir.Value) -> int | ir.Value:
    """Return the product of lengths, an int if all are known."""
    known = math.prod(n for n in lengths if isinstance(n, int))
    values = [n for n in lengths if isinstance(n, ir.Value)]
    if not values:
        return known
    return mark_scalar(functools.reduce(g.Mul, values if known == 1 else [*values, g.const(known)]))


def quotient(g: Graph, a: int | ir.Value, b: int | ir.Value) -> int | ir.Value:
    """Return the floor of a / b of two lengths, an int if both are known."""
    return a // b if isinstance(a, int) and isinstance(b, int) else mark_scalar(g.Div(*_numbers(g, a, b)))


def _numbers(g: Graph, *lengths: int | ir.Value) -> list[ir.Value]:
    return [g.const(n) if isinstance(n, int) else n for n in lengths]


def constant_of(g: Graph, x: Any, what: str) -> np.ndarray:
    """Return the content of a value that must be constant. Raises `Unsupported` naming `what` if it is not."""
    found = g.static(x)
    if found is None:
        raise Unsupported(f"{what} is computed at run time; it has to be constant")
    return found


def _as_vector(g: Graph, n: int | ir.Value) -> ir.Value:
    if isinstance(n, int):
        return g.const(np.array([n], dtype=np.int64))
    node = n.producer()
    if (
        node is not None
        and node.op_type == "Squeeze"
        and node.inputs[0] is not None
        and node.inputs[0].shape is not None
        and len(node.inputs[0].shape) == 1
    ):
        return cast(g, node.inputs[0], torch.int64)
    return g.Reshape(cast(g, n, torch.int64), [1])
