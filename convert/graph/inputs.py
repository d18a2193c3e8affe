"""Inputs of a graph under construction: merges the model's declarations with the user's `--input` specs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.errors import UsageError
from convert.graph import Dim, Graph
from convert.graph.tensors import SHORT_NAMES, dtype_name
from convert.request.nearest import names_hint
from convert.request.options import DimSpec, InputSpec

Bounds = dict[str, list[int | None]]
"""Smallest and largest size of each named dim, in the form of `model.metadata_props["convert.dims"]`."""


def match_specs(names: Sequence[str], specs: Sequence[InputSpec]) -> dict[str, InputSpec]:
    """Return the user's specs by input name. Specs without a name are assigned to the remaining inputs in order.

    Raises `UsageError` for a spec that matches no input.
    """
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
    """Add a graph input and return it. The user's `spec` fills in what the model leaves open; `bounds` is updated.

    `shape` holds sizes, names of dynamic dims, and None for unknown dims. Raises `UsageError` if `spec` contradicts the
    model.
    """
    if spec is not None and spec.dtype is not None and SHORT_NAMES[spec.dtype] != dtype:
        raise UsageError(f"the input {name!r} is {dtype_name(dtype)}, not {spec.dtype}", hint=_own(name, dtype, shape))
    wanted = spec.shape if spec is not None else None
    dims: list[Dim] | None = None
    if shape is not None:
        if wanted is not None and len(wanted) != len(shape):
            hint = _own(name, dtype, shape)
            raise UsageError(f"the input {name!r} has {len(shape)} dims, not {len(wanted)}", hint=hint)
        hint = _moved(name, dtype, shape, wanted) or _own(name, dtype, shape)
        asked = wanted if wanted is not None else [DimSpec()] * len(shape)
        dims = [
            _input_dim(name, i, size, given, hint) for i, (size, given) in enumerate(zip(shape, asked, strict=True))
        ]
    elif wanted is not None:
        dims = [_input_dim(name, i, None, d) for i, d in enumerate(wanted)]
    for i, dim in enumerate(dims or ()):
        if isinstance(dim, str):
            given = wanted[i] if wanted is not None else DimSpec()
            bounds[dim] = [1 if given.low is None else given.low, given.high]
    return g.input(name, dtype, dims)


def _own(name: str, dtype: ir.DataType, shape: Sequence[Dim] | None) -> str:
    """Return a hint that shows the spec of an input as the model declares it."""
    dims = "" if shape is None else ",".join(_dim_text(size, i) for i, size in enumerate(shape))
    return f"as the model has it: --input '{name}:{dtype_name(dtype)}[{dims}]'"


def _moved(name: str, dtype: ir.DataType, shape: Sequence[Dim], wanted: Sequence[DimSpec] | None) -> str:
    """Return a hint if the dims fit the model with the channels at the other end; else ""."""
    if wanted is None or len(wanted) not in (4, 5) or not isinstance(shape[-1], int):
        return ""
    batch, channels, *inner = wanted
    moved = [batch, *inner, channels]
    if any(isinstance(own, int) and given.size != own for own, given in zip(shape, moved, strict=True)):
        return ""
    dims = ",".join(str(dim) for dim in moved)
    return (
        f"the model has the channels last: --input '{name}:{dtype_name(dtype)}[{dims}]'; add --layout nchw to "
        "have them first in the output"
    )


def _dim_text(size: Dim, i: int) -> str:
    return str(size if size is not None else "batch" if i == 0 else f"d{i}")


def _input_dim(name: str, i: int, size: Dim, given: DimSpec, hint: str = "") -> Dim:
    """Return one dim of an input: the model's size, or the user's choice if the model leaves it open.

    `hint` is that of the error if they differ.
    """
    if isinstance(size, int):
        if given.size not in (None, size):
            raise UsageError(f"dim {i} of the input {name!r} is {size} in the model, not {given.size}", hint=hint)
        return size
    return given.size if given.size is not None else given.name or size or ("batch" if i == 0 else f"{name}_d{i}")
