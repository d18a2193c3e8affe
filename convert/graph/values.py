"""Helpers on values of the shared graph: dims, rank, constants, consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

Dim: TypeAlias = int | str | None

MOVES = frozenset(
    (
        "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "SpaceToDepth", "Split",
        "Squeeze", "Tile", "Transpose", "Unsqueeze",
    )
)  # fmt: skip
"""Operators that only move elements of their first input."""


def inverse_permutation(perm: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of the permutation `perm`: for each axis, its new position."""
    return tuple(int(i) for i in np.argsort(perm))


def dims(value: ir.Value) -> tuple[Dim, ...]:
    """Return the dims as ints, names, or None for unknown dims. The rank must be known."""
    found = known_dims(value)
    assert found is not None
    return found


def known_dims(value: ir.Value) -> tuple[Dim, ...] | None:
    """Return the dims as `dims` does, or None if the rank is unknown."""
    return None if value.shape is None else tuple(d if isinstance(d, int) else d.value for d in value.shape)


def is_used(value: ir.Value) -> bool:
    """Return whether a value has a consumer or is a graph output."""
    return bool(value.uses()) or value.is_graph_output()


def rank(value: ir.Value | None) -> int | None:
    """Return the rank of a tensor that can be transposed; None for strings, other types, and unknown ranks."""
    if value is None or value.shape is None or value.dtype == ir.DataType.STRING:
        return None
    return None if isinstance(value.type, (ir.SequenceType, ir.OptionalType)) else len(value.shape)


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the content of a Constant node's output, or of an initializer that no caller can override; else None."""
    if value is None or value.is_graph_input():
        return None
    producer = value.producer()
    if producer is None or (producer.op_type == "Constant" and not producer.domain):
        return ir.convenience.get_const_tensor(value)
    return None


def constant_integers(value: ir.Value | None) -> list[int] | None:
    """Return the content of a constant shape or list of axes as ints; None if it is not constant."""
    tensor = constant(value)
    return None if tensor is None else [int(i) for i in tensor.numpy().ravel()]


def multiples_among_inputs(node: ir.Node, *, every: bool = False) -> list[int]:
    """Return the indices of inputs of `node` that equal another input times a factor, which may exceed 1.

    max(x, c · x) is a LeakyRelu only if c is at most 1. With `every`, any factor counts.
    """
    found = []
    for place, value in enumerate(node.inputs):
        maker = value.producer() if value is not None else None
        if maker is None or maker.domain or maker.op_type not in ("Mul", "Div"):
            continue
        pairs = [maker.inputs[::-1]] if maker.op_type == "Div" else [maker.inputs, maker.inputs[::-1]]
        factors = [factor for factor, base in pairs if any(base is other for other in node.inputs)]
        if any(every or _may_be_above_one(factor, maker.op_type == "Div") for factor in factors):
            found.append(place)
    return found


def _may_be_above_one(factor: ir.Value | None, inverse: bool) -> bool:
    known = constant(factor)
    if known is None:
        return True
    numbers = known.numpy()
    return not bool(((numbers >= 1) | (numbers < 0)).all() if inverse else (numbers <= 1).all())


def int64s(numbers: Iterable[int]) -> np.ndarray:
    """Return the numbers as an int64 array, the dtype of ONNX's shapes and axes."""
    return np.array(list(numbers), dtype=np.int64)


def input_at(node: ir.Node, index: int) -> ir.Value | None:
    """Return the input at `index`; None if it was left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def last_uses(graph: ir.Graph) -> dict[int, list[ir.Value]]:
    """Return, for the index of each node, the values of this graph that no later node needs."""
    last: dict[ir.Value, int] = {}
    own: set[ir.Value] = set(graph.initializers.values())
    for index, node in enumerate(graph):
        own.update(node.outputs)
        for value in used_values(node):
            last[value] = index
        for value in node.outputs:
            last.setdefault(value, index)
    kept = set(graph.outputs)
    uses: dict[int, list[ir.Value]] = {}
    for value, index in last.items():
        if value in own and value not in kept:
            uses.setdefault(index, []).append(value)
    return uses


def used_values(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the inputs of a node and everything that its subgraphs use."""
    yield from (v for v in node.inputs if v is not None)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graph = attribute.as_graph()
            yield from graph.outputs
            for inner in graph:
                yield from used_values(inner)


def nodes_of(graph: ir.Graph | ir.Function) -> Iterator[ir.Node]:
    """Yield all nodes, including those of subgraphs."""
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from nodes_of(attribute.as_graph())


DRAWING = frozenset({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
                     "Multinomial"})  # fmt: skip
"""Operators that sample random numbers. Dropout does too, in training mode only."""


def is_random_node(node: ir.Node) -> bool:
    """Return whether a node samples random numbers, so that two such nodes are never duplicates.

    A Dropout whose mode is unknown before run time counts as training.
    """
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type != "Dropout":
        return node.op_type in DRAWING
    training, ratio = (node.inputs[i] if len(node.inputs) > i else None for i in (2, 1))
    return training is not None and not _is_zero(training) and (ratio is None or not _is_zero(ratio))


def _is_zero(value: ir.Value) -> bool:
    content = constant(value)
    return content is not None and not content.numpy().any()


def attribute_content(attribute: ir.Attr) -> Any:
    """Return the value of an attribute as a rule gets it: a tensor, a list, or the value itself. Not for graphs."""
    match attribute.type:
        case ir.AttributeType.TENSOR:
            return attribute.as_tensor()
        case ir.AttributeType.INTS | ir.AttributeType.FLOATS | ir.AttributeType.STRINGS:
            return list(attribute.value)
    return attribute.value


def names_in_use(model: ir.Model) -> dict[str, int]:
    """Return the names of all nodes and values, including subgraphs, in the form that `Graph.reserve` takes."""
    values = (v for graph in model.graphs() for v in (*graph.inputs, *graph.initializers.values()))
    names = {v.name or "": 0 for v in values}
    for node in model.graph.all_nodes():
        names.update({node.name or "": 0, **{v.name or "": 0 for v in node.outputs}})
    return names


def quantizes(model: ir.Model) -> bool:
    """Return whether a model contains quantization, so that a rounding error may become a whole quantization step."""
    return any("Quantize" in n.op_type or n.op_type.endswith("Integer") for n in model.graph.all_nodes())
