"""Sequences and optionals during construction of a net: lists of blobs of known length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ..blob import Blob


@dataclass(frozen=True)
class BlobSequence:
    """A sequence of tensors."""

    items: tuple[Any, ...]
    dtype: ir.DataType


@dataclass(frozen=True)
class OptionalBlob:
    """An optional; `value` is None if it is absent."""

    value: Any


def output_blobs(name: str, value: Any) -> Iterator[tuple[str, Blob]]:
    """Yield the tensors of a graph output: the elements of a sequence `y` are `y_0`, `y_1` …; an absent optional has
    none.
    """
    if isinstance(value, OptionalBlob):
        if value.value is not None:
            yield from output_blobs(name, value.value)
    elif isinstance(value, BlobSequence):
        for i, inner in enumerate(value.items):
            yield from output_blobs(f"{name}_{i}", inner)
    else:
        yield name, value


def leaf_blobs(value: Any) -> Iterator[Blob]:
    """Yield the tensors of a value, in order."""
    yield from (blob for _, blob in output_blobs("", value))


def rebuild_value(like: Any, blobs: Iterator[Blob]) -> Any:
    """Rebuild a value in the form of `like` from the next tensors of `blobs`."""
    if isinstance(like, OptionalBlob):
        return like if like.value is None else OptionalBlob(rebuild_value(like.value, blobs))
    if isinstance(like, BlobSequence):
        return BlobSequence(tuple(rebuild_value(x, blobs) for x in like.items), like.dtype)
    return next(blobs)
