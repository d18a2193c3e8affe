"""Gives the results of rules the dtypes and shapes that capture found."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import DEFECT, ConvertError, Location
from convert.graph import Graph
from convert.graph.metadata import DIM_KEY

from ...common.complexes import ComplexPair, part_dtype
from ...common.values import cast, mark_scalar, onnx_dtype
from ..capture.dims import Dims


def annotate_result(dims: Dims, g: Graph, result: Any, fake: Any, at: Location) -> Any:
    """Set the dtype and shape that capture found on `result`; a result of another rank or size is a bug."""
    if isinstance(result, (list, tuple)):
        if not isinstance(fake, (list, tuple)):
            return list(result)
        return [annotate_result(dims, g, r, f, at) for r, f in zip(result, fake, strict=False)]
    if isinstance(result, ComplexPair):
        part = torch.empty_like(fake, dtype=part_dtype(fake.dtype))
        return ComplexPair(
            annotate_result(dims, g, result.real, part, at), annotate_result(dims, g, result.imag, part, at)
        )
    if not isinstance(result, ir.Value):
        return result
    if isinstance(fake, torch.Tensor):
        shape = [dims.of(d) for d in fake.shape]
        if 0 in shape and all(isinstance(d, int) for d in shape):
            # Nothing has to be computed, and runtimes differ for such shapes.
            return g.const(np.zeros(shape, onnx_dtype(fake.dtype).numpy()))
        if result.shape is not None:
            _check_shape(g, result, shape, at)
        with g.at(at):
            result = g.facts(result, onnx_dtype(fake.dtype)) if result.dtype is None else cast(g, result, fake.dtype)
        return result if result.is_initializer() or result.is_graph_input() else g.facts(result, shape=shape)
    if isinstance(fake, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        mark_scalar(result)
        if isinstance(fake, torch.SymInt):
            result.meta[DIM_KEY] = dims.of(fake)
    return result


def _check_shape(g: Graph, result: ir.Value, shape: list[Any], at: Location) -> None:
    found = g.shape(result)
    differs = len(found) != len(shape) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(found, shape, strict=False)
    )
    if differs:
        raise ConvertError(
            f"{at}: the rule gives the shape {list(found)}, PyTorch {shape}",
            hint=DEFECT,
        )
