"""Fuses attention and its four projections into one node, which becomes Keras's MultiHeadAttention."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.values import dims, is_used

from ..rules import OWN
from .index_tracing import PrimeSizes
from .match_heads import (
    ConstantProduct,
    attention_node,
    bias_of,
    follow_product_reader,
    follow_reader,
    head_rows_and_columns,
    is_batch_major,
    only_reader,
    product_of,
    rearranged_weight,
    trace_to_product,
    weights_of,
)

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def fuse_attention(model: ir.Model) -> bool:
    """Fuse attention, without a mask or with a causal one, whose projections are constant matrices.

    Either all four projections have a bias or none, as in the layer. Returns whether anything was fused.
    """
    names, modified = ModelNames(model.graph), False
    for node in list(model.graph):
        if node.op_type == "Attention" and node.domain == "" and node.graph is not None:
            modified |= _fuse(model.graph, node, names)
    if modified:
        model.graph.opset_imports.setdefault(OWN, 1)
    return modified


def _fuse(graph: ir.Graph, node: ir.Node, names: ModelNames) -> bool:
    if not _is_plain_attention(node):
        return False
    sizes = PrimeSizes()
    found = [trace_to_product(v, sizes) for v in node.inputs[:3] if v is not None]
    if None in found or len(found) != 3:
        return False
    projections = [p for p in found if p is not None]
    parts = [_head_places(node, i, places) for i, (_, places) in enumerate(projections)]
    if any(p is None or p.ndim != 4 for p in parts) or not _has_default_scale(node, parts[0].shape[3]):  # type: ignore[union-attr]
        return False
    query, _, value = (p for p in parts if p is not None)
    batch, heads, steps, _ = query.shape
    if value.shape[1] != heads:
        return False
    result = _result_projection(node, (batch, heads, steps, value.shape[3]), sizes)
    inputs = [_projected_input(p, places, sizes) for (p, _), places in zip(projections, parts, strict=True)]  # type: ignore[arg-type]
    if result is None or any(x is None for x in inputs):
        return False
    products = [*(p for p, _ in projections), result.product]
    # Keras reads a bias [heads, 1] along the steps if there are as many steps as heads.
    if heads > 1 and 1 in (query.shape[3], value.shape[3]) and products[0].bias is not None:
        return False
    if len({p.bias is None for p in products}) != 1 or not _has_no_other_readers(products, node, result.target):
        return False
    made: list[ir.Node] = []
    given = [x for x in inputs if x is not None]
    sources = [_batch_first_input(x, first, names, made) for x, _, first in given]
    weights = [
        w
        for p, (_, columns, _), part in zip(products, given, ("query", "key", "value"), strict=False)
        for w in weights_of(graph, p, columns, part)
    ]
    weights += _output_weights(graph, result)
    made.append(attention_node([*sources, *weights], node, causal=bool(node.attributes.get_int("is_causal", 0))))
    _insert_nodes(graph, made, result, names)
    return True


@dataclass(frozen=True)
class ResultProjection:
    """The projection of an attention's result.

    `inner` maps [heads, size] to rows of its matrix. `target` is the final value. `batch_first` says whether the
    target's first dim is the batch, not the steps.
    """

    product: ConstantProduct
    inner: np.ndarray
    target: ir.Value
    batch_first: bool


def _is_plain_attention(node: ir.Node) -> bool:
    """Return whether there is no mask, window, cache, softcap or scores, and Keras computes the dtype as ONNX does."""
    query = node.inputs[0]
    alone = not any(v is not None for v in node.inputs[3:]) and not any(is_used(v) for v in node.outputs[1:])
    dtype = query is not None and query.dtype in _FLOATS
    windows = [node.attributes.get_int(f"{side}_window_size", -1) for side in ("left", "right")]
    plain = max(windows) < 0 and not node.attributes.get_float("softcap", 0.0)
    return alone and dtype and plain and node.outputs[0].shape is not None


def _has_default_scale(node: ir.Node, size: int) -> bool:
    return math.isclose(node.attributes.get_float("scale", size**-0.5), size**-0.5, rel_tol=1e-6)


def _head_places(node: ir.Node, index: int, places: np.ndarray) -> np.ndarray | None:
    """Return [batch, heads, steps, size] indices for an attention input, which may have its heads merged."""
    if places.ndim != 3:
        return places
    count = node.attributes.get_int("q_num_heads" if index == 0 else "kv_num_heads", 0)
    if not count or places.shape[2] % count:
        return None
    return places.reshape(*places.shape[:2], count, -1).transpose(0, 2, 1, 3)


def _projected_input(
    product: ConstantProduct, places: np.ndarray, sizes: PrimeSizes
) -> tuple[ir.Value, np.ndarray, bool] | None:
    """Return the projected value of rank 3, the columns [heads, size] of the product, and whether its batch is
    first.
    """
    found = head_rows_and_columns(product, places)
    if found is None:
        return None
    rows, columns = found
    x, first = product.x, is_batch_major(rows)
    if first is None:
        return None
    if len(dims(x)) == 2 and (node := x.producer()) is not None and node.op_type == "Reshape" and not node.domain:
        whole = node.inputs[0]
        if whole is None or whole.shape is None or len(dims(whole)) != 3 or dims(whole)[2] != dims(x)[1]:
            return None
        x = whole
    # Consecutive rows are not enough: steps may be windows of the projected value.
    wanted = rows.shape if first else rows.shape[::-1]
    return (x, columns, first) if len(dims(x)) == 3 and sizes.of(dims(x)[:2]) == wanted else None


def _batch_first_input(x: ir.Value, first: bool, names: ModelNames, made: list[ir.Node]) -> ir.Value:
    """Return x with its batch first."""
    if first:
        return x
    node = x.producer()
    if node is not None and node.op_type == "Transpose" and node.attributes.get_ints("perm") == [1, 0, 2]:
        assert node.inputs[0] is not None
        return node.inputs[0]
    known = next((n.outputs[0] for n in made if n.inputs[0] is x), None)
    if known is None:
        made.append(swap_first_dims(x, names))
        known = made[-1].outputs[0]
    return known


def swap_first_dims(x: ir.Value, names: ModelNames) -> ir.Node:
    """Return a node that swaps the first two of three dims."""
    node = ir.Node("", "Transpose", [x], [ir.AttrInt64s("perm", [1, 0, 2])], num_outputs=1)
    node.name = node.outputs[0].name = names.unique(f"{x.name}_turned")
    shape = dims(x)
    node.outputs[0].type, node.outputs[0].shape = x.type, ir.Shape([shape[1], shape[0], shape[2]])
    return node


def _result_projection(node: ir.Node, shape: tuple[int, ...], sizes: PrimeSizes) -> ResultProjection | None:
    """Return the projection of the attention's result [batch, heads, steps, size]; None if it is not projected."""
    batch, heads, steps, size = shape
    value, places = node.outputs[0], np.arange(math.prod(shape)).reshape(shape)
    if len(dims(value)) == 3:
        places = places.transpose(0, 2, 1, 3).reshape(batch, steps, heads * size)
    chain: list[ir.Node] = []
    while (found := follow_reader(value, places, sizes)) is not None:
        value, places, passed = found
        chain.append(passed)
    reader = only_reader(value)
    product = product_of(reader)
    if product is None or product.x is not value or places.shape[-1] != heads * size:
        return None
    product.chain += chain
    b, h, t, d = np.unravel_index(places.reshape(-1, heads * size), shape)
    column, row = h * size + d, b * steps + t
    if (column != column[:1]).any() or (row != row[:, :1]).any():
        return None
    inner = np.argsort(column[0]).reshape(heads, size)
    places = (row[:, :1] * product.width + np.arange(product.width)).reshape(*places.shape[:-1], product.width)
    return _follow_product(product, inner, places, (batch, steps), sizes)


def _follow_product(
    product: ConstantProduct, inner: np.ndarray, places: np.ndarray, shape: tuple[int, int], sizes: PrimeSizes
) -> ResultProjection | None:
    """Follow a product, with rows numbered by batch, to the last value that is [batch, steps, O] or transposed."""
    natural = np.arange(places.size).reshape(*shape, product.width)
    value, chain, best = product.node.outputs[0], list[ir.Node](), None
    while True:
        for first, wanted in ((True, natural), (False, natural.transpose(1, 0, 2))):
            if np.array_equal(places, wanted):
                chain_so_far = [*product.chain, *chain]
                best = replace(product, chain=chain_so_far), value, first
        found = follow_product_reader(product, value, places, sizes)
        if found is None:
            break
        value, places, passed = found
        chain.append(passed)
    return None if best is None else ResultProjection(best[0], inner, best[1], best[2])


def _has_no_other_readers(products: list[ConstantProduct], node: ir.Node, target: ir.Value) -> bool:
    """Return whether no other node reads the values between the projections and the target."""
    inside = {node, *(n for p in products for n in p.chain)}
    values = [v for n in inside for v in n.outputs if v is not target]
    return not any(v.is_graph_output() or any(use.node not in inside for use in v.uses()) for v in values)


def _output_weights(graph: ir.Graph, result: ResultProjection) -> list[ir.Value | None]:
    """Return kernel [heads, size, O] and bias [O] or None."""
    product, inner = result.product, result.inner

    def kernel(array: np.ndarray) -> np.ndarray:
        return (array.T if product.turned else array)[inner]

    return [
        rearranged_weight(graph, product.weight, (*inner.shape, product.width), kernel),
        bias_of(graph, product, np.arange(product.width)),
    ]


def _insert_nodes(graph: ir.Graph, made: list[ir.Node], result: ResultProjection, names: ModelNames) -> None:
    """Insert the nodes in place of the node that computes the target; the clean-up removes unused nodes."""
    target, whole = result.target, made[-1].outputs[0]
    shape = dims(target)
    whole.type, whole.shape = target.type, ir.Shape(shape if result.batch_first else [shape[1], shape[0], shape[2]])
    if not result.batch_first:
        whole.name = names.unique(f"{target.name}_by_batch")
        made.append(swap_first_dims(whole, names))
    maker = target.producer()
    assert maker is not None
    last = made[-1].outputs[0]
    last.name = target.name
    ir.convenience.replace_nodes_and_values(graph, maker, [maker], made, [target], [last])
