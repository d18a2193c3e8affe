"""Products with weights of few bits (MatMulNBits), whose activations onnxruntime may round to 8 bits.

The attribute `accuracy_level` is the least accuracy that a runtime must keep. At 4, onnxruntime rounds the activations
to 8 bits in blocks; without the attribute it computes the product of the weights that the file has.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

_OPERATOR, _LEVEL, _ROUNDING = "MatMulNBits", "accuracy_level", 4


def without_rounded_activations(path: Path) -> bytes | None:
    """Return a file's content with products that round no activations; None if it has none that do.

    Weights in other files stay there.
    """
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(_OPERATOR.encode()) < 0:
            return None
    proto = onnx.load(path, load_external_data=False)
    found = list(rounding_levels(proto.graph.node))
    for attribute in found:
        attribute.i = 0
    return proto.SerializeToString() if found else None


def rounding_levels(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.AttributeProto]:
    """Yield the attribute of each product that rounds activations, those in nested graphs included."""
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == _OPERATOR and attribute.name == _LEVEL and attribute.i == _ROUNDING:
                yield attribute
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from rounding_levels(graph.node)
