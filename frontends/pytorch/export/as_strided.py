"""Writes reads and writes by strides as reads and writes by index, where the memory behind a tensor is all its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

aten = torch.ops.aten

_READS = (aten.as_strided.default, aten.as_strided_copy.default)
_WRITES = (aten.as_strided_scatter.default,)


def lower_as_strided(g: Graph, node: torch.fx.Node, values: Sequence[Any], named: Mapping[str, Any]) -> ir.Value:
    """The elements in the order of their memory, those at the places read or written, and back again.

    values, named: the arguments of `node`, for which `is_dense` holds, lowered.
    """
    given = _named_arguments(node, values, named)
    fake = _named_arguments(node, node.args, node.kwargs)["self"].meta["val"]
    order = sorted(range(fake.dim()), key=lambda d: (-fake.stride(d), d))
    places = _flat_indices(given["size"], given["stride"], given["storage_offset"] or 0)
    x = given["self"]
    flat = g.Reshape(g.Transpose(x, perm=order) if fake.dim() else x, [-1])
    if node.target in _READS:
        return g.Gather(flat, places, axis=0)
    flat = g.ScatterElements(flat, places.reshape(-1), g.Reshape(given["src"], [-1]), axis=0)
    if not fake.dim():
        return g.Reshape(flat, np.zeros(0, np.int64))
    shaped = g.Reshape(flat, [fake.shape[d] for d in order])
    return g.Transpose(shaped, perm=[order.index(d) for d in range(fake.dim())])


def is_dense(node: torch.fx.Node) -> bool:
    """True for a call on a tensor whose elements fill its memory without a gap or an overlap."""
    if node.target not in (*_READS, *_WRITES):
        return False
    named = _named_arguments(node, node.args, node.kwargs)
    fake = named["self"].meta["val"]
    numbers = (*named["size"], *named["stride"], named["storage_offset"] or 0, *fake.shape)
    if not all(isinstance(n, int) for n in numbers) or fake.numel() == 0 or 0 in named["size"]:
        return False
    whole = fake.untyped_storage().nbytes() == fake.numel() * fake.element_size()
    return whole and fake.storage_offset() == 0 and _is_gapless(fake)


def _is_gapless(fake: torch.Tensor) -> bool:
    expected = 1
    for stride, length in sorted((fake.stride(d), fake.shape[d]) for d in range(fake.dim()) if fake.shape[d] != 1):
        if stride != expected:
            return False
        expected *= length
    return True


def _named_arguments(node: torch.fx.Node, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    target: Any = node.target
    names = [a.name for a in target._schema.arguments]
    return dict.fromkeys(names) | dict(zip(names, values, strict=False)) | dict(named)


def _flat_indices(size: Sequence[int], stride: Sequence[int], offset: int) -> np.ndarray:
    places = np.array(offset)
    for n, s in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(n) * s
    return places
