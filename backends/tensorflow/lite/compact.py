"""Makes small TensorFlow Lite files smaller: short names of tensors, and nothing where a file says nothing.

TensorFlow's converter gives each tensor an empty buffer, an empty table of scales, and the joined names of all
operations that it was made from. In a small network that is a tenth of the file.

It also drops the leading dims of 1 of one operand by a RESHAPE, if the other operand has them. XNNPACK takes no such
RESHAPE, so each one ends a part of the graph that XNNPACK computes.
"""

from __future__ import annotations

from typing import Any

from .file_objects import LiteFile
from .flatbuffer import buffer_bytes

_WORTH_IT = 0.01
"""A file is rewritten if what is not weights is at least this part of it."""
_SCOPE = "model/"
"""The scope of all operations of the model."""


def compact(data: bytes) -> bytes:
    """Return a file that computes the same, without what no reader needs; or `data`, if weights are almost all of it.

    Names of inputs and outputs stay, and other tensors keep the name of the operation that computes them.
    """
    if len(data) - buffer_bytes(data) < _WORTH_IT * len(data):
        return data
    file = LiteFile(data)
    for subgraph in range(len(file.model.subgraphs)):
        _drop_reshapes(file, subgraph)
    nothing = {number for number, b in enumerate(file.model.buffers) if _is_empty(b)}
    for graph in file.model.subgraphs:
        kept = {*map(int, graph.inputs), *map(int, graph.outputs)}
        taken = {graph.tensors[number].name for number in kept}
        for number, tensor in enumerate(graph.tensors):
            tensor.buffer = 0 if tensor.buffer in nothing else tensor.buffer
            if tensor.quantization is not None and not _says_anything(tensor.quantization):
                tensor.quantization = None
            if number not in kept:
                tensor.name = _short(tensor.name, taken)
                taken.add(tensor.name)
    smaller = file.packed()
    return smaller if len(smaller) < len(data) else data


_BINARY = ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")


def _drop_reshapes(file: LiteFile, subgraph: int) -> None:
    """Let operators of two operands read what is before a RESHAPE that only drops leading dims of 1."""
    graph = file.model.subgraphs[subgraph]
    before = {}
    for operator in graph.operators:
        if file.name(operator) == "RESHAPE":
            source, made = int(operator.inputs[0]), int(operator.outputs[0])
            dims, fewer = _dims(graph, source), _dims(graph, made)
            more = len(dims) - len(fewer)
            if more > 0 and set(dims[:more]) == {1} and dims[more:] == fewer and -1 not in fewer:
                before[made] = source
    for operator in graph.operators:
        if file.name(operator) in _BINARY:
            given = [before.get(int(t), int(t)) for t in operator.inputs]
            if all(_dims(graph, t) == _dims(graph, int(operator.outputs[0])) for t in given):
                operator.inputs = given
    file.drop_unused(subgraph)


def _dims(graph: Any, tensor: int) -> list[int]:
    """Return the dims of a tensor; open ones are -1."""
    found = graph.tensors[tensor]
    signature = found.shapeSignature if found.shapeSignature is not None else found.shape
    return [] if signature is None else list(map(int, signature))


def _is_empty(buffer: Any) -> bool:
    return (buffer.data is None or not len(buffer.data)) and not buffer.offset


def _says_anything(quantization: Any) -> bool:
    return any(
        getattr(quantization, field) is not None and len(getattr(quantization, field))
        for field in ("min", "max", "scale", "zeroPoint")
    )


def _short(name: bytes | None, taken: set[bytes]) -> bytes:
    """Return the name of the first operation of a tensor, relative to the model, that no other tensor has."""
    first = (name or b"").partition(b";")[0].removeprefix(_SCOPE.encode())
    short, count = first, 1
    while short in taken:
        short, count = first + b"_%d" % count, count + 1
    return short
