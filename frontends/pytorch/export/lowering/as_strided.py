"""Rewrites strided reads and writes as indexed ones, for tensors that own all of their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import sympy
import torch

from convert.graph import Graph

from ...common.values import as_value
from ...torch_internals import schema_of
from ...torch_internals.symbols import Mod, PythonMod

aten = torch.ops.aten

_READS = (aten.as_strided.default, aten.as_strided_copy.default)
_WRITES = (aten.as_strided_scatter.default,)


def lower_as_strided(g: Graph, node: torch.fx.Node, values: Sequence[Any], named: Mapping[str, Any]) -> ir.Value:
    """Return the elements in memory order, read or written at the indices, and back in the original order.

    values, named: the lowered arguments of `node`, for which `is_dense` holds.
    """
    given = _named_arguments(node, values, named)
    order = _memory_order(_named_arguments(node, node.args, node.kwargs)["self"].meta["val"])
    assert order is not None
    places = _flat_indices(g, given["size"], given["stride"], given["storage_offset"] or 0)
    x = given["self"]
    turned = g.Transpose(x, perm=order) if order else x
    flat = g.Reshape(turned, [-1])
    if node.target in _READS:
        return g.Gather(flat, places, axis=0)
    flat = g.ScatterElements(flat, g.Reshape(places, [-1]), g.Reshape(given["src"], [-1]), axis=0)
    shaped = g.Reshape(flat, g.Shape(turned))
    return g.Transpose(shaped, perm=[order.index(d) for d in range(len(order))]) if order else shaped


def is_dense(node: torch.fx.Node) -> bool:
    """Return whether a call is on a tensor whose elements fill its memory without gap or overlap."""
    if node.target not in (*_READS, *_WRITES):
        return False
    fake = _named_arguments(node, node.args, node.kwargs)["self"].meta["val"]
    bytes_of_all = fake.numel() * fake.element_size()
    whole = _equal(fake.untyped_storage().nbytes(), bytes_of_all) and _equal(fake.storage_offset(), 0)
    return whole and _memory_order(fake) is not None


def _memory_order(fake: torch.Tensor) -> list[int] | None:
    """Return the dims from the largest stride to the smallest; None if there are gaps or strides are unknown."""
    hints = [n if isinstance(n, int) else n.node.hint for n in fake.stride()]
    order = list(range(fake.dim()))
    if None not in hints:
        order.sort(key=lambda d: (-hints[d], d))
    expected: Any = 1
    for d in reversed(order):
        if not (_equal(fake.shape[d], 1) or _equal(fake.stride(d), expected)):
            return None
        expected = expected * fake.shape[d]
    return order


def _equal(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    """Return whether two sizes are equal for all dynamic dims."""
    difference = sympy.expand(sympy.sympify(a) - sympy.sympify(b))
    return bool(difference == 0 or sympy.expand(_by_multiples(difference)) == 0)


def _by_multiples(size: sympy.Expr) -> sympy.Expr:
    """Return `size` with a length n padded to a multiple of m, n + (m - n % m) % m, written as m times a number.

    Longformer and similar models split such a length into m pieces, and only this form shows that nothing is left over.
    """
    written: dict[sympy.Basic, sympy.Basic] = {}
    for padding in size.atoms(Mod, PythonMod):
        multiple = padding.args[1]
        over = multiple - padding.args[0]
        if isinstance(over, (Mod, PythonMod)) and over.args[1] == multiple and multiple.is_Integer:
            count = sympy.Symbol(f"multiples_{len(written)}", integer=True, positive=True)
            written[padding] = multiple * count - over.args[0]
    return size.xreplace(written)


def _named_arguments(node: torch.fx.Node, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    target: Any = node.target
    names = [a.name for a in schema_of(target).arguments]
    return dict.fromkeys(names) | dict(zip(names, values, strict=False)) | dict(named)


def _flat_indices(g: Graph, size: Sequence[Any], stride: Sequence[Any], offset: Any) -> ir.Value:
    """Return the indices of all elements, with one dim for each of `size`, whose numbers may be run-time values."""
    places = as_value(g, offset, ir.DataType.INT64)
    for n, s in zip(size, stride, strict=True):
        steps = g.Range(g.const(0), as_value(g, n, ir.DataType.INT64), g.const(1))
        places = g.Add(g.Unsqueeze(places, [-1]), g.Mul(steps, as_value(g, s, ir.DataType.INT64)))
    return places
