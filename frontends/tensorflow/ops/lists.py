"""Lists of tensors, which implement TensorArray in TensorFlow 2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.lazy_reshape import cast, int64
from ..common.ragged_rows import RaggedTensor, ragged_row
from ..common.tensor_lists import (
    TensorList,
    element_dims,
    grow_to,
    merge_dims,
    stack_elements,
    tensor_list_from_stacked,
    write_element,
    write_growing,
)
from ..common.unequal_lists import join_elements, read_unequal
from ..rules import tf_op

_RAGGED = tf_op.limit("TensorListSetItem", "a list of ragged tensors, which have lengths of their own")


@tf_op("TensorListReserve")
def reserve(g: Graph, element_shape: ir.Value, num_elements: ir.Value, *, element_dtype: ir.DataType) -> TensorList:
    return TensorList(element_dtype, element_dims(element_shape), num_elements)


@tf_op("EmptyTensorList")
def empty(g: Graph, element_shape: ir.Value, max_num_elements: ir.Value, *, element_dtype: ir.DataType) -> TensorList:
    return TensorList(element_dtype, element_dims(element_shape), g.const(np.array(0, np.int64)))


@tf_op("TensorListFromTensor")
def from_tensor(g: Graph, tensor: Any, element_shape: ir.Value) -> Any:
    """TensorListFromTensor. (A ragged tensor represents the list of its rows, which can only be read.)"""
    if isinstance(tensor, RaggedTensor):
        return tensor
    return tensor_list_from_stacked(g, tensor)


@tf_op("TensorListGetItem")
def get_item(
    g: Graph, input_handle: Any, index: ir.Value, element_shape: ir.Value, *, element_dtype: ir.DataType
) -> Any:
    if isinstance(input_handle, RaggedTensor):
        return ragged_row(g, input_handle, index)
    if input_handle.parts is not None or input_handle.joined is not None:
        return read_unequal(g, input_handle, index)
    known_now = replace(input_handle, element=merge_dims(input_handle.element, element_dims(element_shape)))
    return g.Gather(stack_elements(g, known_now), index, axis=0)


@tf_op("TensorListSetItem")
def set_item(
    g: Graph, input_handle: TensorList, index: ir.Value, item: Any, *, resize_if_index_out_of_bounds: bool
) -> TensorList:
    if isinstance(item, RaggedTensor):
        raise Unsupported(_RAGGED)
    write = write_growing if resize_if_index_out_of_bounds else write_element
    return write(g, input_handle, index, item)


@tf_op("TensorListPushBack")
def push_back(g: Graph, input_handle: TensorList, tensor: ir.Value, *, element_dtype: ir.DataType) -> TensorList:
    if input_handle.blank:
        return write_element(g, input_handle, input_handle.count, tensor)
    element = merge_dims(input_handle.element, None if tensor.shape is None else g.shape(tensor))
    one = g.Unsqueeze(tensor, [0])
    before = shape_values.content(input_handle.count)
    if before is not None and before.item() == 0:
        return tensor_list_from_stacked(g, one)
    whole = g.Concat(stack_elements(g, replace(input_handle, element=element)), one, axis=0)
    return tensor_list_from_stacked(g, whole)


@tf_op("TensorListPopBack")
def pop_back(g: Graph, input_handle: TensorList, element_shape: ir.Value, *, element_dtype: ir.DataType) -> list[Any]:
    whole = stack_elements(
        g, replace(input_handle, element=merge_dims(input_handle.element, element_dims(element_shape)))
    )
    last = g.Gather(whole, g.const(np.array(-1, np.int64)), axis=0)
    return [tensor_list_from_stacked(g, g.Slice(whole, [0], [-1], [0])), last]


@tf_op("TensorListStack")
def stack(
    g: Graph, input_handle: TensorList, element_shape: ir.Value, *, element_dtype: ir.DataType, num_elements: int
) -> ir.Value:
    return stack_elements(
        g, replace(input_handle, element=merge_dims(input_handle.element, element_dims(element_shape)))
    )


@tf_op("TensorListLength")
def length(g: Graph, input_handle: Any) -> ir.Value:
    if isinstance(input_handle, RaggedTensor):
        return cast(g, input_handle.count(g), ir.DataType.INT32)
    return cast(g, input_handle.count, ir.DataType.INT32)


@tf_op("TensorListResize")
def resize(g: Graph, input_handle: TensorList, size: ir.Value) -> TensorList:
    """Truncate the list, or extend it with zeros."""
    if input_handle.unwritten:
        return replace(input_handle, count=size)
    whole, wanted = stack_elements(g, input_handle), g.Reshape(int64(g, size), [1])
    have = g.Shape(whole, start=0, end=1)
    lacking = g.Max(g.Sub(wanted, have), np.zeros(1, np.int64))
    none = np.zeros(g.rank(whole) - 1, np.int64)
    longer = g.Pad(whole, g.Concat(np.zeros(1, np.int64), none, lacking, none, axis=0))
    cut = g.Slice(longer, [0], wanted, [0])
    return TensorList(input_handle.dtype, input_handle.element, size, cut)


@tf_op("TensorListGather")
def gather(
    g: Graph, input_handle: TensorList, indices: ir.Value, element_shape: ir.Value, *, element_dtype: ir.DataType
) -> ir.Value:
    whole = stack_elements(
        g, replace(input_handle, element=merge_dims(input_handle.element, element_dims(element_shape)))
    )
    places, first = shape_values.content(indices), g.shape(whole)[0]
    if places is not None and isinstance(first, int) and places.tolist() == list(range(first)):
        return whole
    return g.Gather(whole, indices, axis=0)


@tf_op("TensorListScatterV2")
def scatter(
    g: Graph, tensor: ir.Value, indices: ir.Value, element_shape: ir.Value, num_elements: ir.Value
) -> TensorList:
    """Return a list of `num_elements` elements. If this number is -1, the largest index determines the length."""
    count = shape_values.content(num_elements)
    if count is not None and count.item() == -1:
        indices_known = shape_values.content(indices)
        if indices_known is None or not all(isinstance(i, int) for i in indices_known):
            size = g.Squeeze(_size_for(g, indices), [0])
            return _scatter_elements(g, TensorList(g.dtype(tensor), g.shape(tensor)[1:], size), tensor, indices)
        num_elements = g.const(np.array(max(indices_known.tolist(), default=-1) + 1, np.int64))
    return _scatter_elements(g, TensorList(g.dtype(tensor), g.shape(tensor)[1:], num_elements), tensor, indices)


@tf_op("TensorListScatterIntoExistingList")
def scatter_into(g: Graph, input_handle: TensorList, tensor: ir.Value, indices: ir.Value) -> TensorList:
    items = replace(input_handle, element=merge_dims(input_handle.element, g.shape(tensor)[1:]))
    before, places = shape_values.content(items.count), shape_values.content(indices)
    numbers = [] if before is None or places is None else [*before.ravel(), *places.ravel()]
    if not numbers or not all(isinstance(n, int) for n in numbers) or max([-1, *numbers[1:]]) >= numbers[0]:
        items = grow_to(g, items, _size_for(g, indices))
    return _scatter_elements(g, items, tensor, indices)


def _size_for(g: Graph, indices: ir.Value) -> ir.Value:
    """Return the number of elements of a list that is written at `indices`, [1]."""
    return g.ReduceMax(g.Add(g.Concat([-1], int64(g, indices), axis=0), [1]), [0], keepdims=1)


def _scatter_elements(g: Graph, items: TensorList, tensor: ir.Value, indices: ir.Value) -> TensorList:
    new = g.ScatterND(stack_elements(g, items), g.Unsqueeze(int64(g, indices), [-1]), tensor, reduction="none")
    return TensorList(items.dtype, items.element, items.count, new)


@tf_op("TensorListSplit")
def split(g: Graph, tensor: ir.Value, element_shape: ir.Value, lengths: ir.Value) -> TensorList:
    """Return the list of parts of these lengths, which add up to the tensor's length."""
    count = g.Squeeze(g.Shape(lengths, start=0, end=1), [0])
    element = (None, *g.shape(tensor)[1:])
    return TensorList(g.dtype(tensor), element, count, joined=tensor, lengths=int64(g, lengths))


@tf_op("TensorListConcatV2")
def concat(
    g: Graph,
    input_handle: TensorList,
    element_shape: ir.Value,
    leading_dims: ir.Value,
    *,
    element_dtype: ir.DataType,
) -> list[ir.Value]:
    """Return all elements concatenated, and their lengths."""
    if input_handle.parts is not None or input_handle.joined is not None:
        return list(join_elements(g, input_handle))
    whole = stack_elements(
        g, replace(input_handle, element=merge_dims(input_handle.element, element_dims(element_shape)))
    )
    rank, dims = g.rank(whole), g.shape(whole)
    count, length = (g.Shape(whole, start=i, end=i + 1) for i in range(2))
    joined = g.Reshape(whole, g.Concat(g.Mul(count, length), g.Shape(whole, start=2, end=rank), axis=0), allowzero=1)
    return [g.facts(joined, g.dtype(whole), [None, *dims[2:]]), g.Expand(length, count)]
