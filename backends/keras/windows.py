"""Sliding windows: ONNX's padding modes, resolved for Keras's layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras import layers, ops

from convert.errors import Unsupported
from convert.semantics.windows import axis_pads, extent, open_ceil_pad


@dataclass(frozen=True)
class KerasWindows:
    """One window for each spatial dim; `same` means the pads of Keras's "same", for any size."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    same: bool = False

    @property
    def reach(self) -> tuple[int, ...]:
        """The extent of the dilated kernel."""
        return tuple(extent(k, d) for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def has_same_pads(self) -> bool:
        """Return whether the pads equal those of "same"."""
        if self.same:
            return True
        pairs = zip(self.reach, self.before, self.after, strict=True)
        return set(self.strides) == {1} and all((b, a) == ((r - 1) // 2, r // 2) for r, b, a in pairs)

    @property
    def bare(self) -> KerasWindows:
        """The same windows over an input that is already padded."""
        none = (0,) * len(self.kernel)
        return KerasWindows(self.kernel, self.strides, self.dilations, none, none)

    @property
    def unpadded(self) -> bool:
        return not self.same and not any((*self.before, *self.after))


def windows(
    sizes: Sequence[int | None],
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int = 0,
) -> KerasWindows:
    """Resolve ONNX's attributes for the `sizes` of the input. Raises `Unsupported` if that needs an unknown size."""
    rank = len(kernel)
    whole = KerasWindows(tuple(kernel), tuple(strides or [1] * rank), tuple(dilations or [1] * rank))
    if auto_pad == "SAME_UPPER":
        return KerasWindows(whole.kernel, whole.strides, whole.dilations, same=True)
    pads = list(pads or [0] * 2 * rank)
    found = []
    for i, (n, r, s) in enumerate(zip(sizes, whole.reach, whole.strides, strict=True)):
        matters = s > 1 and (auto_pad == "SAME_LOWER" or ceil_mode)
        if matters and n is None and auto_pad == "NOTSET":
            pad_after = open_ceil_pad(r, s, pads[rank + i])
            if pad_after is not None:
                found.append((pads[i], pad_after))
                continue
        found.append(axis_pads(_check_known(n) if matters else 0, r, s, (pads[i], pads[rank + i]), auto_pad, ceil_mode))
    before, after = tuple(b for b, _ in found), tuple(a for _, a in found)
    return KerasWindows(whole.kernel, whole.strides, whole.dilations, before, after)


def _check_known(n: int | None) -> int:
    if n is None:
        raise Unsupported(
            "SAME_LOWER, or ceil_mode with a stride as long as the window, over a dim of dynamic size",
            hint="give the size: --input NAME:DTYPE[DIMS]",
        )
    return n


def pad_zeros(x: Any, before: Sequence[int], after: Sequence[int]) -> Any:
    """Zero-pad the spatial dims of a channels-last tensor; negative amounts crop."""
    rank = len(before)
    cropped = [(max(-b, 0), max(-a, 0)) for b, a in zip(before, after, strict=True)]
    padded = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    if any(map(any, cropped)):
        x = layer_by_rank("Cropping", rank)(cropped if rank > 1 else cropped[0], dtype=x.dtype)(x)
    if any(map(any, padded)):
        x = layer_by_rank("ZeroPadding", rank)(padded if rank > 1 else padded[0], dtype=x.dtype)(x)
    return x


def pad_value(x: Any, before: Sequence[int], after: Sequence[int], value: float) -> Any:
    """Pad the spatial dims of a channels-last tensor with a value; negative amounts crop."""
    if not any((*before, *after)):
        return x
    widths = [[0, 0], *([b, a] for b, a in zip(before, after, strict=True)), [0, 0]]
    return ops.pad(x, widths, constant_values=value)


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
