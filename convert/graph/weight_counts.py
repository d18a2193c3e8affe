"""Compares the size of a graph's weights with the files that they were read from."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from convert import limits
from convert.errors import ResourceLimit
from convert.outcome.text import bytes_text


def check_weights(model: ir.Model, read: int) -> None:
    """Raise `ResourceLimit` if the weights are out of proportion to the `read` bytes of the model's files.

    A tensor with stride 0, or tensors that share the same bytes of a file, are small until they are written.
    """
    size = sum({id(tensor): tensor.nbytes for tensor in _tensors(model)}.values())
    if size > limits.WEIGHTS_FREE_BYTES + limits.WEIGHTS_EXPANSION * read:
        raise ResourceLimit(
            f"the weights of the model are {bytes_text(size)}, and its files {bytes_text(read)}: tensors repeat an "
            "element, or lie on the same bytes",
            hint="save the model again with tensors of their own, or give the one that they repeat a name of its own",
        )


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yield the tensors of initializers and attributes, including those of subgraphs."""
    for graph in (model.graph, *model.graph.subgraphs()):
        yield from (v.const_value for v in graph.initializers.values() if v.const_value is not None)
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                    yield attribute.as_tensor()
