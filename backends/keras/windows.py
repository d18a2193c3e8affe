"""Sliding windows: ONNX's padding modes, resolved for Keras's layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keras import layers

from convert.errors import Unsupported
from convert.semantics.windows import Window


def windows(
    x: Any,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    same: bool = True,
) -> Window:
    """Return the windows over a channels-last tensor.

    same: whether the layer computes the pads of "same" for sizes that are unknown. Raises `Unsupported` for other pads
    that depend on an unknown size.
    """
    given = Window.of(kernel, strides, dilations, pads)
    made = given.with_auto_pad(spatial_sizes(x), auto_pad)
    if made is not None:
        return made
    if auto_pad == "SAME_UPPER" and same:
        return replace(given.unpadded, same=True)
    raise Unsupported(
        f"{auto_pad} of this form over a dim of dynamic size", hint="give the size: --input NAME:DTYPE[DIMS]"
    )


def pad_zeros(x: Any, pairs: Sequence[Sequence[int]]) -> Any:
    """Zero-pad the spatial dims of a channels-last tensor; negative amounts crop."""
    cropped, padded = ([(max(s * b, 0), max(s * a, 0)) for b, a in pairs] for s in (-1, 1))
    for kind, amounts in (("Cropping", cropped), ("ZeroPadding", padded)):
        if any(map(any, amounts)):
            x = layer_by_rank(kind, len(pairs))(amounts if len(pairs) > 1 else amounts[0], dtype=x.dtype)(x)
    return x


def take_strided(x: Any, strides: Sequence[int]) -> Any:
    """Return every stride-th element along the spatial dims of a channels-last tensor."""
    if all(s == 1 for s in strides):
        return x
    return x[(slice(None), *(slice(None, None, s) for s in strides), slice(None))]


def spatial_sizes(x: Any) -> list[int | None]:
    """Return the sizes of the spatial dims of a channels-last tensor."""
    return list(x.shape[1:-1])


def layer_by_rank(name: str, rank: int) -> type[layers.Layer]:
    """Return the layer for 1, 2 or 3 spatial dims. Raises `Unsupported` for more."""
    if rank not in (1, 2, 3):
        raise Unsupported(f"{rank} spatial dims")
    return getattr(layers, f"{name}{rank}D")
