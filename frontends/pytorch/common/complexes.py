"""Complex tensors as pairs of real ones: ONNX has the dtypes, but no runtime has the operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..torch_internals import pytree
from .values import as_value, cast, is_float, is_scalar, onnx_dtype, torch_dtype

PREFIX = "complex::"
"""The prefix of rules for complex operands; rules that only return complex numbers are ordinary ones."""

_PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


def is_complex(fake: Any) -> bool:
    return isinstance(fake, torch.Tensor) and fake.is_complex()


@dataclass(frozen=True)
class ComplexPair:
    """A complex tensor: real and imaginary part, with the same shape and dtype."""

    real: ir.Value
    imag: ir.Value


def part_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the parts."""
    return _PARTS[dtype]


def pair_dtype(g: Graph, x: ComplexPair) -> torch.dtype:
    """Return PyTorch's dtype of a complex tensor."""
    return torch_dtype(g, x.real).to_complex()


def has_pair(values: Iterable[Any]) -> bool:
    """Return whether a value, or one in a list, is a complex tensor or number."""
    return any(isinstance(v, (ComplexPair, complex)) or (isinstance(v, (list, tuple)) and has_pair(v)) for v in values)


def takes_complex(node: torch.fx.Node) -> bool:
    """Return whether an operand of a captured call is a complex tensor or number."""
    if any(is_complex(n.meta.get("val")) for n in node.all_input_nodes):
        return True
    return any(isinstance(a, complex) for a in pytree.tree_leaves((node.args, node.kwargs)))


def pair_of(g: Graph, x: Any, dtype: torch.dtype | None = None) -> ComplexPair:
    """Return a pair for a pair, a real tensor or a number, with the parts in `dtype`."""
    if isinstance(x, ComplexPair):
        return x if dtype is None else ComplexPair(cast(g, x.real, dtype), cast(g, x.imag, dtype))
    if isinstance(x, complex):
        dtype = dtype or torch.get_default_dtype()
        return ComplexPair(as_value(g, x.real, dtype), as_value(g, x.imag, dtype))
    if dtype is None:
        dtype = _pair_part_dtype(g, [x])
    real, zero = as_value(g, x, dtype), as_value(g, 0.0, dtype)
    return ComplexPair(real, zero if g.rank(real) == 0 else g.Expand(zero, g.dims(real)))


def parts_of(x: Any) -> tuple[Any, Any]:
    """Return real and imaginary part of a complex tensor or number, known or not."""
    return (x, 0) if isinstance(x, ir.Value) else (x.real, x.imag)


def split_parts(g: Graph, x: ir.Value) -> ComplexPair:
    """Return the pair whose parts are in the last dim of x."""
    return ComplexPair(g.Gather(x, 0, axis=-1), g.Gather(x, 1, axis=-1))


def stack_parts(g: Graph, x: ComplexPair) -> ir.Value:
    """Return the parts in a new last dim, as torch.view_as_real does."""
    return g.Concat(*(g.Unsqueeze(part, [-1]) for part in (x.real, x.imag)), axis=-1)


def input_pair(g: Graph, name: str, fake: torch.Tensor, dims: list[Any]) -> ComplexPair:
    """Return a complex input; in the graph it is real, with a last dim of 2."""
    return split_parts(g, g.input(name, onnx_dtype(part_dtype(fake.dtype)), [*dims, 2]))


def constant_pair(g: Graph, tensor: torch.Tensor) -> ComplexPair:
    """Return a complex weight."""
    parts = torch.view_as_real(tensor.detach().resolve_conj()).numpy()
    return ComplexPair(*(g.const(np.array(parts[..., i], order="C")) for i in (0, 1)))


def promote_to_pairs(g: Graph, *operands: Any) -> list[ComplexPair]:
    """Return the operands as pairs of the wider of their dtypes."""
    parts = [x.real if isinstance(x, ComplexPair) else x for x in operands]
    return [pair_of(g, x, _pair_part_dtype(g, parts)) for x in operands]


def _pair_part_dtype(g: Graph, parts: Sequence[Any]) -> torch.dtype:
    """Return float64 if a floating-point operand is; operands with dims decide, then those without, then the default
    dtype.
    """
    floats = [p for p in parts if isinstance(p, ir.Value) and is_float(g, p)]
    floats = [p for p in floats if g.rank(p)] or [p for p in floats if not is_scalar(p)]
    if not floats:
        return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
    return torch.float64 if any(p.dtype == ir.DataType.DOUBLE for p in floats) else torch.float32
