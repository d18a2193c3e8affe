"""Operators of early TensorFlow with attributes that later became inputs, and aliases of other operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.conv_layout import to_channels_first, to_data_format
from ..common.lazy_reshape import int64
from ..common.tensor_lists import TensorList
from ..graph.variables import Variable
from ..rules import tf_op
from .array import reverse_along
from .gather import gather_nd
from .images.image import batch_to_space, space_to_batch
from .images.vision import non_max_suppression_v2
from .reduce import in_top_k, top_k_v2
from .shape import ones_like


@tf_op("TopK")
def top_k(g: Graph, input: ir.Value, *, k: int, sorted: bool) -> list[ir.Value]:
    return top_k_v2(g, input, g.const(k, ir.DataType.INT32), sorted=sorted, index_type=ir.DataType.INT32)


@tf_op("InTopK")
def in_top_k_1(g: Graph, predictions: ir.Value, targets: ir.Value, *, k: int) -> ir.Value:
    return in_top_k(g, predictions, targets, g.const(k, ir.DataType.INT32))


@tf_op("SpaceToBatch")
def space_to_batch_1(g: Graph, input: ir.Value, paddings: ir.Value, *, block_size: int) -> ir.Value:
    return space_to_batch(g, input, g.const([block_size] * 2, ir.DataType.INT32), paddings)


@tf_op("BatchToSpace")
def batch_to_space_1(g: Graph, input: ir.Value, crops: ir.Value, *, block_size: int) -> ir.Value:
    return batch_to_space(g, input, g.const([block_size] * 2, ir.DataType.INT32), crops)


@tf_op("Reverse")
def reverse(g: Graph, tensor: ir.Value, dims: ir.Value) -> ir.Value:
    turned = g.static(dims)
    if turned is None:
        raise Unsupported("dims that depend on data")
    return reverse_along(g, tensor, np.flatnonzero(turned).tolist())


@tf_op("NonMaxSuppression")
def non_max_suppression(
    g: Graph, boxes: ir.Value, scores: ir.Value, max_output_size: ir.Value, *, iou_threshold: float
) -> ir.Value:
    return non_max_suppression_v2(g, boxes, scores, max_output_size, g.const(iou_threshold, ir.DataType.FLOAT))


@tf_op("BatchNormWithGlobalNormalization")
def batch_norm_with_global_normalization(
    g: Graph,
    t: ir.Value,
    m: ir.Value,
    v: ir.Value,
    beta: ir.Value,
    gamma: ir.Value,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> ir.Value:
    scale = gamma if scale_after_normalization else ones_like(g, gamma)
    y = g.BatchNormalization(to_channels_first(g, t, "NHWC"), scale, beta, m, v, epsilon=variance_epsilon)
    return to_data_format(g, y, "NHWC")


@tf_op("ResourceGatherNd")
def resource_gather_nd(g: Graph, resource: Variable, indices: ir.Value) -> ir.Value:
    return gather_nd(g, resource.read(g), indices)


@tf_op("TensorScatterSub")
def tensor_scatter_sub(g: Graph, tensor: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    return g.ScatterND(tensor, int64(g, indices), g.Sub(g.const(0, g.dtype(updates)), updates), reduction="add")


@tf_op("Print")
def print_(
    g: Graph, input: ir.Value, data: Sequence[ir.Value], *, message: str, first_n: int, summarize: int
) -> ir.Value:
    """Print: return the input unchanged; nothing is printed."""
    return input


@tf_op("RegexFullMatch")
def regex_full_match(g: Graph, input: ir.Value, pattern: ir.Value) -> ir.Value:
    text = g.static(pattern)
    if text is None:
        raise Unsupported("a pattern that depends on data")
    item = text.reshape(-1)[0]
    return g.RegexFullMatch(input, pattern=item.decode() if isinstance(item, bytes) else str(item))


@tf_op("TensorListElementShape")
def element_shape(g: Graph, input_handle: TensorList, *, shape_type: ir.DataType) -> ir.Value:
    """Return the element shape that the list was created with, with -1 for unknown dims."""
    if input_handle.element is None:
        return g.const(-1, shape_type)
    dims = [d if isinstance(d, int) else -1 for d in input_handle.element]
    value = g.const(np.array(dims, shape_type.numpy()))
    shape_values.set_content(value, np.array(dims, dtype=object))
    return value
