"""Limits the length of lists with one or two numbers per dim, such as pads and axes, before a rule gets them.

Rules, passes and frameworks iterate over such lists, sometimes with quadratic cost, and no tensor has that many dims.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from convert import limits
from convert.errors import Location, ResourceLimit

_NAMES = frozenset((
    "axes", "axis", "begin", "block_shape", "crops", "dilation", "dilations", "dim", "dims", "end", "ends",
    "explicit_paddings", "kernel_shape", "kernel_size", "kernels", "ksize", "multiples", "new_shape",
    "normalized_shape", "output_padding", "output_shape", "output_size", "pad", "padding", "paddings", "pads", "perm",
    "permutation", "reduction_indices", "scale_factors", "shape", "shift", "shifts", "size", "squeeze_dims",
    "stride", "strides", "tiles",
))  # fmt: skip
"""The names of such arguments in the schemas of frameworks."""


def check_lists(arguments: Iterable[tuple[str, Any]], at: Location) -> None:
    """Raise `ResourceLimit` for a list or a tensor of known length with more numbers than any tensor has dims."""
    for name, value in arguments:
        if name in _NAMES and (count := _count(value)) > 2 * limits.TENSOR_DIMS:
            refuse_dims(f"{at}: {count:,} numbers in its {name}", 2)


def refuse_dims(what: str, times: int = 1) -> None:
    """Raise `ResourceLimit`: `what` exceeds `times` the limit of dims."""
    most = f"{times * limits.TENSOR_DIMS} that are taken"
    raise ResourceLimit(f"{what} are more than the {most}", hint="a program can set convert.limits.TENSOR_DIMS")


def _count(value: Any) -> int:
    """Return how many numbers a list or a tensor holds; 0 if it is unknown."""
    if isinstance(value, (list, tuple)):
        return len(value)
    shape = getattr(value, "shape", None)
    if shape is None:
        return 0
    try:
        dims = list(shape)
    except (TypeError, ValueError):  # a framework's own shape object, of unknown rank
        return 0
    if not 0 < len(dims) <= 2 or not all(isinstance(d, int) for d in dims):
        return 0
    return int(dims[0]) * (int(dims[1]) if len(dims) == 2 else 1)
