"""Writes a GraphDef with weights that are stored separately, one at a time, so that no second copy is made.

Nodes are nested protobuf messages. Weights are serialized without content, and the content is inserted into its field
by hand (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2, tensor_pb2

from convert.files.protobuf_wire import length_delimited_header

if TYPE_CHECKING:
    from ..constants import Constant, Permutation

# Field numbers: GraphDef.node, NodeDef.attr, its key and value, AttrValue.tensor, TensorProto.tensor_content.
_NODE, _ATTR, _KEY, _VALUE, _TENSOR, _CONTENT = 1, 5, 1, 2, 8, 4

Contents = Mapping[str, "tuple[Constant, Permutation]"]
"""The content for placeholders of these names."""


def write_graph(definition: graph_pb2.GraphDef, contents: Contents, stream: BinaryIO) -> None:
    """Write `definition` with the placeholders in `contents` replaced by Const nodes."""
    for node in definition.node:
        if node.name in contents:
            _write_weight(node, contents[node.name], stream)
        else:
            data = node.SerializeToString(deterministic=True)
            stream.write(length_delimited_header(_NODE, len(data)) + data)
    rest = graph_pb2.GraphDef(versions=definition.versions, library=definition.library)
    stream.write(rest.SerializeToString(deterministic=True))


def _write_weight(node: node_def_pb2.NodeDef, weight: tuple[Constant, Permutation], stream: BinaryIO) -> None:
    array = _array(*weight)
    inner = _empty_tensor(node, array).SerializeToString(deterministic=True) + length_delimited_header(
        _CONTENT, array.nbytes
    )
    head = length_delimited_header(_TENSOR, len(inner) + array.nbytes) + inner
    head = (
        length_delimited_header(_KEY, 5) + b"value" + length_delimited_header(_VALUE, len(head) + array.nbytes) + head
    )
    plain = _constant(node).SerializeToString(deterministic=True)
    head = plain + length_delimited_header(_ATTR, len(head) + array.nbytes) + head
    stream.write(length_delimited_header(_NODE, len(head) + array.nbytes) + head)
    stream.write(array.reshape(-1).view(np.uint8).data)


def _array(constant: Constant, perm: Permutation) -> np.ndarray:
    return np.ascontiguousarray(constant.permuted(perm))


def _constant(node: node_def_pb2.NodeDef) -> node_def_pb2.NodeDef:
    """Return a Const node with the placeholder's name and dtype, whose value is still missing."""
    dtype = attr_value_pb2.AttrValue(type=node.attr["dtype"].type)
    return node_def_pb2.NodeDef(name=node.name, op="Const", device=node.device, attr={"dtype": dtype})


def _empty_tensor(node: node_def_pb2.NodeDef, array: np.ndarray) -> tensor_pb2.TensorProto:
    tensor = tensor_pb2.TensorProto(dtype=node.attr["dtype"].type)
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor
