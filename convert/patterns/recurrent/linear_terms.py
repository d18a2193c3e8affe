"""Splits sums of products with weights and of biases by column: which rows and columns multiply which operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import dims_of, lazy_tensor
from convert.graph.values import known_dims

_MOVES = frozenset({"Transpose", "Concat", "Expand", "Reshape", "Unsqueeze", "Squeeze"})
"""Operators that only move elements of a weight, as cells do that store one weight for each gate."""


@dataclass(frozen=True)
class WeightSlice:
    """Columns (and rows `first` to `last`) of a weight; `source` is its other factor, None for a bias.

    sign: −1 if the term is subtracted.
    """

    source: ir.Value | None
    tensor: ir.TensorProtocol
    start: int
    stop: int
    first: int = 0
    last: int = 0
    sign: int = 1

    @property
    def width(self) -> int:
        return self.stop - self.start

    @property
    def height(self) -> int:
        return self.last - self.first

    @property
    def dtype(self) -> ir.DataType:
        return self.tensor.dtype

    def content(self) -> np.ndarray:
        """Return the rows and columns as an array; a bias has one dim, and may be a single number for all columns."""
        array = self.tensor.numpy()
        array = array if self.sign > 0 else -array
        if self.source is not None:
            return array[self.first : self.last, self.start : self.stop]
        flat = array.reshape(-1)
        return np.broadcast_to(flat, self.width) if flat.size == 1 else flat[self.start : self.stop]


def as_linear_terms(value: ir.Value, columns: tuple[int, int] | None = None) -> list[WeightSlice] | None:
    """Return `value`, or some of its columns, as a sum of products with weights and of biases; None for anything
    else.
    """
    if columns is not None:
        return _linear_terms(value, *columns)
    if value.shape is None or not value.shape or not isinstance(value.shape[-1], int):
        return None
    return _linear_terms(value, 0, value.shape[-1])


def source_columns(value: ir.Value) -> tuple[ir.Value, int, int]:
    """Return the value that `value` is columns of, through Split and Slice, and its column range."""
    width = value.shape[-1] if value.shape is not None and len(value.shape) else None
    if not isinstance(width, int):
        return value, 0, 0
    node = value.producer()
    found = None
    if node is not None and not node.domain and node.op_type == "Split":
        found = _split_start(node, value)
    elif node is not None and not node.domain and node.op_type == "Slice":
        found = _slice_start(node)
    if node is None or found is None or node.inputs[0] is None:
        return value, 0, width
    return node.inputs[0], found, found + width


def _linear_terms(value: ir.Value | None, start: int, stop: int) -> list[WeightSlice] | None:
    if value is None:
        return None
    tensor = _moved_constant(value)
    if tensor is not None:
        dims = list(dims_of(tensor))
        flat = tensor.size == 1 or (dims and dims[-1] >= stop and all(d == 1 for d in dims[:-1]))
        return [WeightSlice(None, tensor, start, stop)] if flat else None
    node = value.producer()
    if node is None or node.domain:
        return None
    if node.op_type == "Add":
        left, right = (_linear_terms(v, start, stop) for v in node.inputs)
        return None if left is None or right is None else left + right
    if node.op_type in ("Split", "Slice"):
        offset = _split_start(node, value) if node.op_type == "Split" else _slice_start(node)
        return None if offset is None else _linear_terms(node.inputs[0], offset + start, offset + stop)
    if node.op_type == "Transpose":
        return _terms_of_rows(node.inputs[0], start, stop)
    if node.op_type in ("MatMul", "Gemm") and not node.attributes:
        return _product_terms(node, start, stop)
    return None


def _terms_of_rows(value: ir.Value | None, start: int, stop: int) -> list[WeightSlice] | None:
    """Return the terms of a matrix whose transpose has these columns."""
    node = value.producer() if value is not None else None
    if node is None or node.domain or value is None or value.shape is None or len(value.shape) != 2:
        return None
    if node.op_type == "Add":
        left, right = (_terms_of_rows(v, start, stop) for v in node.inputs)
        return None if left is None or right is None else left + right
    if node.op_type == "Slice":
        offset = _slice_start(node, axis=0)
        return None if offset is None else _terms_of_rows(node.inputs[0], offset + start, offset + stop)
    return _linear_terms(node.inputs[0], start, stop) if node.op_type == "Transpose" else None


def _moved_constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return a constant, or what operators that only move elements make of constants, evaluated when it is written."""
    if value is None or value.const_value is not None:
        return None if value is None else value.const_value
    node = value.producer()
    dims = known_dims(value) or ()
    shape = [d for d in dims if isinstance(d, int)]
    if node is None or node.domain or node.op_type not in _MOVES or len(shape) < len(dims):
        return None
    parts = [_moved_constant(v) for v in node.inputs]
    if any(p is None for p in parts) or parts[0] is None:
        return None

    def content() -> np.ndarray:
        arrays = [p.numpy() for p in parts if p is not None]
        if node.op_type == "Transpose":
            return np.transpose(arrays[0], node.attributes.get_ints("perm"))
        if node.op_type == "Concat":
            return np.concatenate(arrays, node.attributes["axis"].as_int())
        return np.broadcast_to(arrays[0], shape) if node.op_type == "Expand" else arrays[0].reshape(shape)

    return lazy_tensor(parts[0].dtype, shape, content)


def _split_start(node: ir.Node, value: ir.Value) -> int | None:
    """Return the column at which an output of Split begins."""
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    rank = len(value.shape) if value.shape is not None else 0
    if axis not in (-1, rank - 1):
        return None
    offset = 0
    for output in node.outputs:
        if output is value:
            return offset
        width = output.shape[-1] if output.shape is not None and len(output.shape) else None
        if not isinstance(width, int):
            return None
        offset += width
    return None


def _slice_start(node: ir.Node, axis: int = -1) -> int | None:
    """Return the column at which a slice of columns without a step begins; with `axis` 0 the row of a matrix."""
    bounds = [[] if v is None or v.const_value is None else v.const_value.numpy().tolist() for v in node.inputs[1:]]
    source = node.inputs[0]
    if len(bounds) == 4 and bounds[3] == [1]:
        bounds = bounds[:3]
    if len(bounds) != 3 or any(len(b) != 1 for b in bounds) or source is None or source.shape is None:
        return None
    (first,), _, (sliced,) = bounds
    width = source.shape[axis]
    if sliced % len(source.shape) != axis % len(source.shape) or not isinstance(width, int):
        return None
    return max(first + width, 0) if first < 0 else first


def _product_terms(node: ir.Node, start: int, stop: int) -> list[WeightSlice] | None:
    source, factor, *bias = node.inputs
    weight = _moved_constant(factor)
    if source is None or weight is None or len(weight.shape) != 2:
        return None
    parts, row = [], 0
    for operand, height in _concat_operands(source, dims_of(weight)[0]):
        parts.append(WeightSlice(operand, weight, start, stop, row, row + height))
        row += height
    if bias and bias[0] is not None:
        more = _linear_terms(bias[0], start, stop)
        return None if more is None else parts + more
    return parts


def _concat_operands(source: ir.Value, height: int) -> Sequence[tuple[ir.Value, int]]:
    """Return the concatenated operands of a product, each with the rows of the weight that it multiplies."""
    node = source.producer()
    rank = len(source.shape) if source.shape is not None else 0
    if (
        node is None
        or node.domain
        or node.op_type != "Concat"
        or node.attributes["axis"].as_int() not in (-1, rank - 1)
    ):
        return [(source, height)]
    found = []
    for v in node.inputs:
        width = v.shape[-1] if v is not None and v.shape is not None and len(v.shape) else None
        if v is None or not isinstance(width, int):
            return [(source, height)]
        found.append((v, width))
    return found if sum(width for _, width in found) == height else [(source, height)]
