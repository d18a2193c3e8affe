"""Other floating-point dtypes for TensorFlow Lite, whose kernels compute in float32.

Half precision is widened, with weights that stay in half precision. float64 inside of a model is narrowed.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.values import nodes_of
from convert.passes.to_float64 import widen_graphs

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_WIDER = dict.fromkeys(_HALVES, ir.DataType.FLOAT)


def halves_of(model: ir.Model) -> list[str]:
    """Return the half-precision dtypes that a model stores or computes in."""
    graphs = list(model.graphs())
    values = [v for graph in graphs for v in (*graph.inputs, *graph.initializers.values())]
    values += [v for node in nodes_of(model.graph) for v in node.outputs]
    found = {v.dtype for v in values if v.dtype in _HALVES}
    return [dtype.name.lower() for dtype in _HALVES if dtype in found]


def has_half_weights(model: ir.Model) -> bool:
    """Return whether a model has float16 weights, and no floating-point weight that float16 cannot hold."""
    tensors = [v.const_value for graph in model.graphs() for v in graph.initializers.values()]
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if ir.DataType.FLOAT16 not in dtypes or ir.DataType.BFLOAT16 in dtypes:
        return False
    return all(
        np.array_equal(array, array.astype(np.float16).astype(np.float32), equal_nan=True)
        for array in (t.numpy() for t in tensors if t is not None and t.dtype == ir.DataType.FLOAT)
    )


def widen_halves(model: ir.Model) -> list[str]:
    """Make a model compute in float32, in place; return its float16 inputs and outputs, for `narrow_io`.

    Raises `Unsupported` for bfloat16 inputs and outputs, which TensorFlow Lite lacks.
    """
    ends = (*model.graph.inputs, *model.graph.outputs)
    if lost := [str(v.name) for v in ends if v.dtype == ir.DataType.BFLOAT16]:
        raise Unsupported(f"TensorFlow Lite has no inputs and outputs of bfloat16: {', '.join(lost)}")
    narrow = [str(v.name) for v in ends if v.dtype == ir.DataType.FLOAT16]
    widen_graphs(model.graphs(), _WIDER)
    return narrow


def narrow_doubles(model: ir.Model) -> bool:
    """Make a model compute in float32 what lies between casts to and from float64, in place; return whether it did.

    PyTorch's quantized layers choose their scales so. A model with inputs, outputs or weights of float64 stays, and one
    with float64 made of integers, such as sizes and places, which may need all their bits.
    """
    graphs = list(model.graphs())
    ends = [v for graph in graphs for v in (*graph.inputs, *graph.outputs)]
    constants = [(v, v.const_value) for graph in graphs for v in graph.initializers.values()]
    ends += [v for v, content in constants if content is None or content.size != 1]
    nodes = list(nodes_of(model.graph))
    inner = [v for node in nodes for v in node.outputs]
    ends += [v for v in inner if v.dtype == ir.DataType.DOUBLE and _is_of_integers(v)]
    if any(v.dtype == ir.DataType.DOUBLE for v in ends) or all(v.dtype != ir.DataType.DOUBLE for v in inner):
        return False
    widen_graphs(graphs, {ir.DataType.DOUBLE: ir.DataType.FLOAT})
    return True


def _is_of_integers(value: ir.Value) -> bool:
    """Return whether a value is cast from integers."""
    node = value.producer()
    source = None if node is None or node.op_type not in ("Cast", "CastLike") else node.inputs[0]
    return source is not None and source.dtype is not None and source.dtype.is_integer()


def narrow_io(model: ir.Model, names: list[str]) -> bool:
    """Make the inputs and outputs with these names float16 again, by a Cast each, in place; return whether there are
    any.

    Call this after the layout is chosen, because TensorFlow Lite has no transpose of float16.
    """
    graph = model.graph
    for place, wide in enumerate(list(graph.outputs)):
        if str(wide.name) in names and not wide.is_graph_input():
            cast = _cast(wide, ir.DataType.FLOAT16)
            cast.outputs[0].name, wide.name = str(wide.name), f"{wide.name}_wide"
            graph.append(cast)
            graph.outputs[place] = cast.outputs[0]
    for value in [v for v in graph.inputs if str(v.name) in names]:
        value.type = ir.TensorType(ir.DataType.FLOAT16)
        if not value.uses():
            continue
        cast = _cast(value, ir.DataType.FLOAT)
        cast.outputs[0].name = f"{value.name}_wide"
        for node, index in tuple(value.uses()):
            if node is not cast:
                node.replace_input_with(index, cast.outputs[0])
        graph.insert_before(graph[0], cast)
    return bool(names)


def _cast(value: ir.Value, dtype: ir.DataType) -> ir.Node:
    node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(dtype))], num_outputs=1, name=f"{value.name}_cast")
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), value.shape
    return node
