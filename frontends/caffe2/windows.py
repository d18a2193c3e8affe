"""Translates Caffe2's many spellings of kernel, strides, pads and dilations into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from convert.errors import BadInput, Unsupported
from convert.semantics.windows import Window, split_pads, window_count

Sizes: TypeAlias = "int | Sequence[int] | None"
"""One number for all dims (and sides), one number per dim, or None."""

WINDOWED = frozenset(
    {"ConvFusion", "ConvTranspose", "PadImage"}
    | {operator + dims for operator in ("Conv", "MaxPool", "AveragePool") for dims in ("", "1D", "2D", "3D")}
)
"""The operators that have windows."""

_SIDES = {"kernel": ("h", "w"), "stride": ("h", "w"), "dilation": ("h", "w"), "pad": ("t", "l", "b", "r")}


def normalize_window_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with `kernels`, `strides`, `pads` and `dilations` (as `Sizes`) for all other spellings.

    Raises `BadInput` for a value that is not an integer.
    """
    made = dict(args)
    for name, sides in _SIDES.items():
        single = [made.pop(f"{name}_{side}", None) for side in sides]
        one = made.pop(name, None)
        if made.get(f"{name}s"):
            continue
        if one is not None:
            made[f"{name}s"] = _whole(name, one)
        elif any(v is not None for v in single):
            made[f"{name}s"] = [_whole(name, v or 0) for v in single]
    return made


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int | float) or value != value // 1:
        raise BadInput(f"the argument {name} of an operator with windows is {value!r:.60}, not a whole number")
    return int(value)


def make_window(n: int, kernels: Sizes, strides: Sizes, pads: Sizes, dilations: Sizes = None) -> Window:
    """Return the window over `n` spatial dims. Raises `BadInput` if the numbers do not match."""
    kernel, steps, gaps = (_per_dim(n, given, 1) for given in (kernels, strides, dilations))
    return Window.of(kernel, steps, gaps, _per_dim(2 * n, pads, 0))


def _per_dim(n: int, given: Sizes, otherwise: int) -> list[int]:
    if given is None or isinstance(given, int):
        return [otherwise if given is None else given] * n
    if len(given) != n:
        raise BadInput(f"{list(given)} where a window needs {n} numbers")
    return [int(v) for v in given]


NOT_SET, VALID, SAME, CAFFE_POOLING = range(4)
"""caffe2.LegacyPadding: the padding mode of nets that were translated from Caffe."""


def with_legacy_pads(made: Window, sizes: Sequence[Any], legacy_pad: int) -> Window:
    """Return the window with the pads that `legacy_pad` means for these sizes (ComputeSizeAndPad of
    conv_pool_op_base.h).

    Caffe's pooling rounds the number of windows up. The last window may reach over the end, but with pads it may not
    begin after it. Raises `Unsupported` if that depends on an unknown size.
    """
    if legacy_pad == NOT_SET:
        return made
    if legacy_pad == VALID:
        return made.unpadded
    if legacy_pad not in (SAME, CAFFE_POOLING):
        raise Unsupported(f"legacy_pad={legacy_pad}")
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported(f"legacy_pad={legacy_pad} with dynamic sizes, on which the pads depend")
    pairs = []
    for size, kernel, stride, head in zip(sizes, made.kernel, made.strides, made.before, strict=True):
        if legacy_pad == SAME:
            needed = (-(-size // stride) - 1) * stride + kernel - size
            pairs.append(split_pads(needed, "SAME_UPPER"))
            continue
        count = -(-(size + 2 * head - kernel) // stride) + 1
        if head > 0 and (count - 1) * stride >= size + head:
            count -= 1
        usual = window_count(size, kernel, stride, head, head)
        # The pads that the last window needs. The runtime's own number may be larger, without effect on the result.
        pairs.append((head, head if count == usual else (count - 1) * stride + kernel - size - head))
    if min(map(min, pairs)) < 0:
        raise Unsupported("legacy_pad=2 where strides are longer than the kernel")
    return made.with_pads(pairs)
