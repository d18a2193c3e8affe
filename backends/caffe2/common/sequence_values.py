"""Sequences and optionals while a net is built: lists of blobs whose length is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ..blob import Blob


@dataclass(frozen=True)
class Listed:
    """A sequence of tensors."""

    items: tuple[Any, ...]
    dtype: ir.DataType


@dataclass(frozen=True)
class Maybe:
    """An optional; `value` is None where it is absent."""

    value: Any


def blobs_of(name: str, value: Any) -> Iterator[tuple[str, Blob]]:
    """The tensors of a graph output: elements of the sequence `y` are `y_0`, `y_1` …; an absent optional has none."""
    if isinstance(value, Maybe):
        if value.value is not None:
            yield from blobs_of(name, value.value)
    elif isinstance(value, Listed):
        for i, inner in enumerate(value.items):
            yield from blobs_of(f"{name}_{i}", inner)
    else:
        yield name, value


def leaves(value: Any) -> Iterator[Blob]:
    """The tensors that a value holds, in order."""
    yield from (blob for _, blob in blobs_of("", value))


def rebuilt(like: Any, blobs: Iterator[Blob]) -> Any:
    """A value in the form of `like` made of the next tensors of `blobs`."""
    if isinstance(like, Maybe):
        return like if like.value is None else Maybe(rebuilt(like.value, blobs))
    if isinstance(like, Listed):
        return Listed(tuple(rebuilt(x, blobs) for x in like.items), like.dtype)
    return next(blobs)
