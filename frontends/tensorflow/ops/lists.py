"""Lists of tensors: what TensorArray is made of in TensorFlow 2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.lazy_reshape import cast, int64
from ..common.tensor_lists import (
    TensorList,
    element_dims,
    merge_dims,
    stack_elements,
    tensor_list_from_stacked,
    write_element,
)
from ..rules import tf_op

_RAGGED = tf_op.limit("TensorListFromTensor", "the rows of a ragged tensor, which have lengths of their own")


@tf_op("TensorListReserve")
def reserve(g: Graph, element_shape: ir.Value, num_elements: ir.Value, *, element_dtype: ir.DataType) -> TensorList:
    return TensorList(element_dtype, element_dims(element_shape), num_elements)


@tf_op("EmptyTensorList")
def empty(g: Graph, element_shape: ir.Value, max_num_elements: ir.Value, *, element_dtype: ir.DataType) -> TensorList:
    return TensorList(element_dtype, element_dims(element_shape), g.const(np.array(0, np.int64)))


@tf_op("TensorListFromTensor")
def from_tensor(g: Graph, tensor: ir.Value, element_shape: ir.Value) -> TensorList:
    if not isinstance(tensor, ir.Value):
        raise Unsupported(_RAGGED)
    return tensor_list_from_stacked(g, tensor)


@tf_op("TensorListGetItem")
def get_item(
    g: Graph, input_handle: TensorList, index: ir.Value, element_shape: ir.Value, *, element_dtype: ir.DataType
) -> ir.Value:
    known_now = replace(input_handle, element=merge_dims(input_handle.element, element_dims(element_shape)))
    return g.Gather(stack_elements(g, known_now), index, axis=0)


@tf_op("TensorListSetItem")
def set_item(
    g: Graph, input_handle: TensorList, index: ir.Value, item: ir.Value, *, resize_if_index_out_of_bounds: bool
) -> TensorList:
    if resize_if_index_out_of_bounds:
        raise Unsupported("a list that grows when it is written behind its end")
    return write_element(g, input_handle, index, item)


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
def length(g: Graph, input_handle: TensorList) -> ir.Value:
    return cast(g, input_handle.count, ir.DataType.INT32)


@tf_op("TensorListResize")
def resize(g: Graph, input_handle: TensorList, size: ir.Value) -> TensorList:
    """Cut off, or filled up with zeros."""
    if input_handle.stacked is None:
        return replace(input_handle, count=size)
    whole, wanted = input_handle.stacked, g.Reshape(int64(g, size), [1])
    have = g.Shape(whole, start=0, end=1)
    lacking = g.Max(g.Sub(wanted, have), np.zeros(1, np.int64))
    none = np.zeros(g.rank(whole) - 1, np.int64)
    longer = g.Pad(whole, g.Concat(np.zeros(1, np.int64), none, lacking, none, axis=0))
    return replace(input_handle, stacked=g.Slice(longer, [0], wanted, [0]), count=size)


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
    """A list of `num_elements`, or as many as the largest index asks for where that is -1."""
    count = shape_values.content(num_elements)
    if count is not None and count.item() == -1:
        indices_known = shape_values.content(indices)
        if indices_known is None or not all(isinstance(i, int) for i in indices_known):
            raise Unsupported("a list as long as an index that depends on data asks for")
        num_elements = g.const(np.array(max(indices_known.tolist(), default=-1) + 1, np.int64))
    return _scatter_elements(g, TensorList(g.dtype(tensor), g.shape(tensor)[1:], num_elements), tensor, indices)


@tf_op("TensorListScatterIntoExistingList")
def scatter_into(g: Graph, input_handle: TensorList, tensor: ir.Value, indices: ir.Value) -> TensorList:
    return _scatter_elements(
        g, replace(input_handle, element=merge_dims(input_handle.element, g.shape(tensor)[1:])), tensor, indices
    )


def _scatter_elements(g: Graph, items: TensorList, tensor: ir.Value, indices: ir.Value) -> TensorList:
    return replace(
        items,
        stacked=g.ScatterND(stack_elements(g, items), g.Unsqueeze(int64(g, indices), [-1]), tensor, reduction="none"),
    )


@tf_op("TensorListConcatV2")
def concat(
    g: Graph,
    input_handle: TensorList,
    element_shape: ir.Value,
    leading_dims: ir.Value,
    *,
    element_dtype: ir.DataType,
) -> list[ir.Value]:
    """All elements end to end, and their lengths, which are equal: a list is stacked here."""
    whole = stack_elements(
        g, replace(input_handle, element=merge_dims(input_handle.element, element_dims(element_shape)))
    )
    dims = g.shape(whole)
    if not all(isinstance(d, int) for d in dims[2:]):
        raise Unsupported("elements with inner dims that are not static")
    joined = g.Reshape(whole, np.array([-1, *(int(d or 0) for d in dims[2:])], np.int64))
    lengths = g.Expand(g.Shape(whole, start=1, end=2), g.Shape(whole, start=0, end=1))
    return [joined, lengths]
