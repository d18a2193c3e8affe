"""Dispatches a call of an ATen operator to its rule: plain, complex, or on quantized tensors, which round again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Location, Unsupported
from convert.graph import Graph
from convert.rules import Schema

from .common.quantization import PREFIX, Scheme, attach_scheme, from_steps, scheme_of, to_steps
from .common.values import as_value
from .empty_results import empty_results
from .releases import RELEASE
from .rules import _is_implied, _normalize_value, bindable_schema, key_of, torch_op

KEEPING = frozenset(
    (  # noqa: SIM905
        "view _unsafe_view reshape view_as reshape_as flatten unflatten squeeze unsqueeze permute transpose t swapaxes "
        "movedim select slice narrow chunk split split_with_sizes unbind expand expand_as repeat clone detach alias "
        "contiguous dropout relu max_pool1d max_pool2d max_pool3d quantized_max_pool2d max min amax amin topk sort "
        "pixel_shuffle pixel_unshuffle channel_shuffle upsample_nearest1d upsample_nearest2d upsample_nearest3d "
        "index_select index gather roll flip reflection_pad1d reflection_pad2d replication_pad2d"
    ).split()
)
"""Operators that select elements: their result has the scheme of the operand."""

AVERAGING = frozenset(
    (  # noqa: SIM905
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d mean "
        "_adaptive_avg_pool2d _adaptive_avg_pool3d upsample_bilinear2d"
    ).split()
)
"""Operators whose results are often halfway between two steps: they are computed on whole numbers of steps."""

_CENTRED = {"avg_pool1d", "avg_pool2d", "avg_pool3d"}
"""Operators that PyTorch rounds before it adds the zero point, as its kernels for convolution results (channels last)
do. It rounds the others afterwards, so that halves go the other way for an odd zero point.
"""
if RELEASE != (2, 13):  # of the releases 2.10 to 2.14, only 2.13 also rounds these afterwards
    _CENTRED |= {"adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"}
    _CENTRED |= {"upsample_bilinear2d"}

ROUNDING = frozenset(
    "hardtanh clamp threshold leaky_relu elu gelu cat stack constant_pad_nd relu6".split()  # noqa: SIM905
)
"""Operators with a float result that PyTorch rounds to the scheme of the first operand."""


def call_quantized(
    g: Graph, key: str, values: Sequence[Any], named: Mapping[str, Any], at: Location, schema: Schema
) -> Any:
    """Apply the rule of an ATen operator with a quantized operand. Raises `Unsupported` if there is none."""
    base = key.partition(".")[0]
    own = next((PREFIX + k for k in (key, base) if PREFIX + k in torch_op), None)
    if own is not None:
        return torch_op.apply(g, own, values, named, at, schema=schema)
    scheme = next(_schemes(values))
    if base not in KEEPING | AVERAGING | ROUNDING or scheme.axis is not None:
        by = " by channel" if scheme.axis is not None else ""
        raise Unsupported(f"no PyTorch rule for this operator on tensors that are quantized{by}").with_location(at)
    if base in AVERAGING:
        return _apply_averaging(g, key, values, named, at, schema, scheme)
    result = torch_op.apply(g, key, values, named, at, schema=schema)
    if base in ROUNDING:
        return attach_scheme(from_steps(g, to_steps(g, result, scheme), scheme), scheme)
    if isinstance(result, (list, tuple)):
        return [attach_scheme(r, scheme) if r.dtype == ir.DataType.FLOAT else r for r in result]
    return attach_scheme(result, scheme)


def _apply_averaging(
    g: Graph, key: str, values: Sequence[Any], named: Mapping[str, Any], at: Location, schema: Schema, scheme: Scheme
) -> ir.Value:
    """Apply the rule with a scale of one: sums of integers are exact, and so are halves, which are rounded to even."""
    steps = Scheme(1.0, scheme.zero, scheme.dtype)
    moved = from_steps(g, to_steps(g, values[0], scheme), steps)
    result = torch_op.apply(g, key, [moved, *values[1:]], named, at, schema=schema)
    if key.partition(".")[0] not in _CENTRED and not (isinstance(scheme.zero, int) and scheme.zero % 2 == 0):
        result, steps = g.Add(result, as_value(g, scheme.zero, torch.float32)), Scheme(1.0, 0, scheme.dtype)
    return attach_scheme(from_steps(g, to_steps(g, result, steps), scheme), scheme)


def _schemes(values: Sequence[Any]) -> Iterator[Scheme]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _schemes(value)
        elif (found := scheme_of(value)) is not None:
            yield found


def call(g: Graph, schema: torch.FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any], at: Location) -> Any:
    """Apply the rule for a call of the ATen (or custom) operator `schema`; return a value, a list of values or None.

    Raises `Unsupported` with the location if there is no rule, or the rule does not take an argument.
    """
    from .common.complexes import has_pair
    from .common.quantization import has_quantized

    nothing = None if has_pair((*args, *kwargs.values())) else empty_results(g, schema, args, kwargs)
    if nothing is not None:
        return nothing
    paired = has_pair((*args, *kwargs.values()))
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | dict(kwargs)
    named = {
        a.name: _normalize_value(a, given[a.name]) for a in schema.arguments if a.name in given and not _is_implied(a)
    }
    bound = bindable_schema(schema)
    values = []
    for argument in bound.positional:
        if argument.name not in named:
            break
        values.append(named.pop(argument.name))
    key = key_of(schema.name, schema.overload_name, paired=paired)
    with g.at(at):
        if schema.name.startswith("aten::") and has_quantized((*values, *named.values())):
            return call_quantized(g, key, values, named, at, bound)
        return torch_op.apply(g, key, values, named, at, schema=bound)
