"""Inputs of a graph under construction: what the model says of them, joined with what the user says."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.errors import UsageError
from convert.graph import Dim, Graph
from convert.graph.tensors import SHORT_NAMES, dtype_name
from convert.nearest import names_hint
from convert.options import DimSpec, InputSpec

Bounds = dict[str, list[int | None]]
"""Smallest and largest size of each named dim, as `model.metadata_props["convert.dims"]` holds them."""


def match_specs(names: Sequence[str], specs: Sequence[InputSpec]) -> dict[str, InputSpec]:
    """The user's specs by input: those with a name by it, the others in order. Raises `UsageError` for a wrong name."""
    left = [n for n in names if not {n, f"{n}:0"} & {s.name for s in specs}]
    found = {}
    for spec in specs:
        if spec.name is None and left:
            found[left.pop(0)] = spec
        elif spec.name in names:
            found[str(spec.name)] = spec
        elif spec.name is not None and spec.name.removesuffix(":0") in names:
            found[spec.name.removesuffix(":0")] = spec
        else:
            raise UsageError(f"the model has no input for {str(spec)!r}", hint=names_hint(spec.name or "", names))
    return found


def add_input(
    g: Graph, name: str, dtype: ir.DataType, shape: Sequence[Dim] | None, spec: InputSpec | None, bounds: Bounds
) -> ir.Value:
    """A graph input as the model or, where it leaves something open, the user describes it; `bounds` grows.

    `shape` holds sizes, names of dynamic dims or None for unknown ones. Raises `UsageError` where the user contradicts
    the model.
    """
    if spec is not None and spec.dtype is not None and SHORT_NAMES[spec.dtype] != dtype:
        raise UsageError(f"the input {name!r} is {dtype_name(dtype)}, not {spec.dtype}")
    wanted = spec.shape if spec is not None else None
    dims: list[Dim] | None = None
    if shape is not None:
        if wanted is not None and len(wanted) != len(shape):
            raise UsageError(f"the input {name!r} has {len(shape)} dims, not {len(wanted)}")
        dims = [_input_dim(name, i, d, wanted[i] if wanted is not None else DimSpec()) for i, d in enumerate(shape)]
    elif wanted is not None:
        dims = [_input_dim(name, i, None, d) for i, d in enumerate(wanted)]
    for i, dim in enumerate(dims or ()):
        if isinstance(dim, str):
            given = wanted[i] if wanted is not None else DimSpec()
            bounds[dim] = [1 if given.low is None else given.low, given.high]
    return g.input(name, dtype, dims)


def _input_dim(name: str, i: int, size: Dim, given: DimSpec) -> Dim:
    """One dim of an input: the model's size, or the user's word where the model leaves it open."""
    if isinstance(size, int):
        if given.size not in (None, size):
            raise UsageError(f"dim {i} of the input {name!r} is {size} in the model, not {given.size}")
        return size
    return given.size if given.size is not None else given.name or size or ("batch" if i == 0 else f"{name}_d{i}")
