"""The minimum and maximum size of each dim of the inputs; some targets plan their memory by them."""

from __future__ import annotations

import json

import onnx_ir as ir

from convert.errors import UsageError

from .metadata import DIMS_KEY

Bounds = tuple[str, int, int]
"""A dim by its name, with its least and its greatest size."""


def bounded_shapes(model: ir.Model, target: str) -> list[list[int | Bounds]]:
    """Return the shape of each input, with a pair of bounds for each dynamic dim.

    Raises `UsageError` for a dim without a maximum size, which `target` needs.
    """
    known = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
    found: list[list[int | Bounds]] = []
    for value in model.graph.inputs:
        row: list[int | Bounds] = []
        for dim in value.shape or ():
            if isinstance(dim, int):
                row.append(dim)
                continue
            low, high = known.get(str(dim), (1, None))
            if high is None:
                raise _unbounded(value, dim, target)
            row.append((str(dim), int(low or 1), int(high)))
        found.append(row)
    return found


def _unbounded(value: ir.Value, dim: object, target: str) -> UsageError:
    dims = [str(d) for d in value.shape or ()]
    shown = ",".join(f"{d}=1..16" if d == str(dim) else d for d in dims)
    dtype = "" if value.dtype is None else str(value.dtype.numpy())
    return UsageError(
        f"{target} plans its memory ahead, and the dim {dim} of {value.name} has no greatest size",
        hint=f"give one, for instance --input '{value.name}:{dtype}[{shown}]', or fix it with a number",
    )
