"""Finds attention between projections of its inputs and its result, for any way of splitting and joining heads.

Nodes between a projection and the attention only move elements. Tracing an array of indices through them
(`index_tracing.py`) shows which column of the product each element of a head gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.tensors import lazy_tensor
from convert.graph.values import dims

from ..rules import OWN
from .index_tracing import PrimeSizes, is_movement, moved_places

ATTENTION = "MultiHeadAttention"


@dataclass
class ConstantProduct:
    """x · weight + bias, with a constant matrix [I, O] and a constant bias.

    `columns` gives, for each column, the index of its element in the flat bias.
    """

    node: ir.Node
    x: ir.Value
    weight: ir.Value
    turned: bool
    bias: ir.Value | None = None
    columns: np.ndarray | None = None
    chain: list[ir.Node] = field(default_factory=list)

    @property
    def width(self) -> int:
        """The number of columns, O."""
        return int(dims(self.weight)[0 if self.turned else 1])  # type: ignore[arg-type]

    @property
    def depth(self) -> int:
        """The number of rows, I."""
        return int(dims(self.weight)[1 if self.turned else 0])  # type: ignore[arg-type]


def product_of(node: ir.Node | None) -> ConstantProduct | None:
    """Return the product of a MatMul or Gemm by a constant matrix, else None."""
    if node is None or node.domain or node.op_type not in ("MatMul", "Gemm"):
        return None
    x, weight, *bias = node.inputs
    if x is None or x.const_value is not None or x.shape is None or not is_constant(weight) or len(dims(weight)) != 2:  # type: ignore[arg-type]
        return None
    assert weight is not None
    turned = bool(node.attributes.get_int("transB", 0))
    found = ConstantProduct(node, x, weight, turned)
    found.chain.append(node)
    if node.op_type == "Gemm":
        factors = {node.attributes.get_float(name, 1.0) for name in ("alpha", "beta")}
        if factors != {1.0} or node.attributes.get_int("transA"):
            return None
        if bias and bias[0] is not None and not _take_bias(found, bias[0], np.arange(found.width)):
            return None
    return found


def is_constant(value: ir.Value | None) -> bool:
    """Return whether a value has a shape and constant content that the user cannot override."""
    return (
        value is not None and value.const_value is not None and not value.is_graph_input() and value.shape is not None
    )


def _take_bias(product: ConstantProduct, bias: ir.Value, columns: np.ndarray) -> bool:
    """Set a constant as the product's bias if it is the same within each column. Return whether it is."""
    shape = dims(bias)
    if product.bias is not None or not is_constant(bias) or None in shape:
        return False
    places = np.arange(int(np.prod(shape))).reshape(shape)  # type: ignore[arg-type]
    try:
        places = np.broadcast_to(places, columns.shape)
    except ValueError:
        return False
    found = np.zeros(product.width, int)
    found[columns.ravel()] = places.ravel()
    if not np.array_equal(found[columns], places):
        return False
    product.bias, product.columns = bias, found
    return True


def _constant_side(node: ir.Node) -> tuple[ir.Value, ir.Value] | None:
    """Return the other operand of an Add with a constant, and the constant; None if no operand is constant."""
    for x, bias in (tuple(node.inputs), tuple(reversed(node.inputs))):
        if x is not None and is_constant(bias) and not is_constant(x):
            assert bias is not None
            return x, bias
    return None


def trace_to_product(value: ir.Value, sizes: PrimeSizes) -> tuple[ConstantProduct, np.ndarray] | None:
    """Return the product that `value` is made of, and the index of each element in it: row · width + column."""
    chain: list[ir.Node] = []
    places: list[tuple[ir.Node, int]] = []
    while (node := value.producer()) is not None and product_of(node) is None:
        add = _constant_side(node) if node.op_type == "Add" and not node.domain else None
        if add is None and not is_movement(node):
            return None
        places.append((node, list(node.outputs).index(value)))
        chain.append(node)
        source = add[0] if add else node.inputs[0]
        if source is None:
            return None
        value = source
    product, shape = product_of(node), sizes.bind(value)
    if product is None or shape is None:
        return None
    product.chain += chain
    found: np.ndarray | None = np.arange(int(np.prod(shape))).reshape(shape)
    for node, output in reversed(places):
        assert found is not None
        if node.op_type == "Add":
            add = _constant_side(node)
            if add is None or not _take_bias(product, add[1], found % product.width):
                return None
        else:
            found = moved_places(node, output, found, sizes)
        if found is None:
            return None
    return (product, found) if found is not None else None


def follow_reader(
    value: ir.Value, places: np.ndarray, sizes: PrimeSizes
) -> tuple[ir.Value, np.ndarray, ir.Node] | None:
    """Follow the only reader of `value`. Return its output, the indices in the output, and the reader; None if it
    cannot be traced.
    """
    reader = only_reader(value)
    if reader is None or not is_movement(reader) or reader.inputs[0] is not value or len(reader.outputs) != 1:
        return None
    found = moved_places(reader, 0, places, sizes)
    return None if found is None else (reader.outputs[0], found, reader)


def follow_product_reader(
    product: ConstantProduct, value: ir.Value, places: np.ndarray, sizes: PrimeSizes
) -> tuple[ir.Value, np.ndarray, ir.Node] | None:
    """Follow the only reader of a product, which may add its bias; the result is that of `follow_reader`."""
    reader = only_reader(value)
    if reader is None or reader.op_type != "Add" or reader.domain:
        return follow_reader(value, places, sizes)
    add = _constant_side(reader)
    if add is None or add[0] is not value or not _take_bias(product, add[1], places % product.width):
        return None
    return reader.outputs[0], places, reader


def only_reader(value: ir.Value) -> ir.Node | None:
    """Return the only node that uses a value, else None."""
    readers = {use.node for use in value.uses()}
    return readers.pop() if len(readers) == 1 and not value.is_graph_output() else None


def is_batch_major(rows: np.ndarray) -> bool | None:
    """Return whether rows [batch, steps] are numbered by batch (True) or by step (False); None if neither."""
    natural = np.arange(rows.size)
    if np.array_equal(rows, natural.reshape(rows.shape)):
        return True
    return False if np.array_equal(rows, natural.reshape(rows.shape[::-1]).T) else None


def head_rows_and_columns(product: ConstantProduct, places: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return rows [batch, steps] and columns [heads, size] of the product for [batch, heads, steps, size]; None if
    mixed.
    """
    rows, columns = places // product.width, places % product.width
    if (rows != rows[:, :1, :, :1]).any() or (columns != columns[:1, :, :1]).any():
        return None
    return rows[:, 0, :, 0], columns[0, :, 0, :]


def rearranged_weight(
    graph: ir.Graph, source: ir.Value, shape: Sequence[int], make: Callable[[np.ndarray], np.ndarray], part: str = ""
) -> ir.Value:
    """Return a weight of this shape that is computed from `source` when it is written; `part` is added to its name."""
    tensor = source.const_value
    assert tensor is not None
    assert tensor.dtype is not None
    name = f"{source.name}.{part}" if part and math.prod(shape) < tensor.size else source.name or "weight"
    return register_initializer(graph, name, lazy_tensor(tensor.dtype, shape, lambda: make(tensor.numpy()), name))


def weights_of(graph: ir.Graph, product: ConstantProduct, columns: np.ndarray, part: str) -> list[ir.Value | None]:
    """Return kernel [I, heads, size] and bias [heads, size] or None for these columns [heads, size] of the product."""

    def kernel(array: np.ndarray) -> np.ndarray:
        return (array.T if product.turned else array)[:, columns]

    return [
        rearranged_weight(graph, product.weight, (product.depth, *columns.shape), kernel, part),
        bias_of(graph, product, columns, part),
    ]


def bias_of(graph: ir.Graph, product: ConstantProduct, columns: np.ndarray, part: str = "") -> ir.Value | None:
    """Return the bias of these columns of the product, or None."""
    if product.bias is None or product.columns is None:
        return None
    places = product.columns[columns]
    return rearranged_weight(graph, product.bias, places.shape, lambda array: array.ravel()[places], part)


def attention_node(inputs: Sequence[ir.Value | None], attention: ir.Node, *, causal: bool) -> ir.Node:
    """Return the fused node, named after the attention inside."""
    attributes = [ir.AttrInt64("is_causal", int(causal))]
    node = ir.Node(OWN, ATTENTION, list(inputs), attributes, num_outputs=1, name=attention.name)
    node.metadata_props.update(attention.metadata_props)
    return node
