"""Evaluates nodes on blobs: the whole content of their outputs, or dtypes and shapes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import OPSET
from convert.graph.node_inference import infer
from convert.graph.values import known_dims
from convert.passes.tidy.fold import Evaluator
from convert.rules.onnx_schemas import onnx_schema, operator_of

from .blob import Blob, Dim

# A larger computed constant (in bytes) costs more than the operators that compute it.
_LARGEST = 1 << 16
_KEPT = frozenset({"Constant", "Identity", "Loop", "If", "Scan", "Bernoulli", "Multinomial", "DequantizeLinear"})

_evaluate = Evaluator(OPSET)


def constant_outputs(node: ir.Node, inputs: Sequence[Blob | None]) -> list[ir.TensorProtocol] | None:
    """Return the outputs of a node with small constant inputs, by ONNX's reference; None if impossible."""
    given = [x for x in inputs if x is not None]
    if node.domain or node.op_type in _KEPT or node.op_type.startswith("Random") or not given:
        return None
    tensors = [x.content for x in given if isinstance(x, Blob) and x.content is not None]
    if len(tensors) < len(given) or sum(t.nbytes for t in tensors) > _LARGEST:
        return None
    return _evaluate(_isolated_node(node, inputs))


def output_shapes(node: ir.Node, inputs: Sequence[Blob | None]) -> list[tuple[Dim, ...] | None]:
    """Return the shapes of a node's outputs by ONNX's inference, from the known facts of its input blobs."""
    schema = onnx_schema(operator_of(node))
    unknown: list[tuple[Dim, ...] | None] = [None] * len(node.outputs)
    if schema is None or any(x is not None and not isinstance(x, Blob) for x in inputs):
        return unknown
    alone = _isolated_node(node, inputs)
    try:
        infer(alone, schema)
    except ValueError:  # the rule reports what is wrong with the node, if anything
        return unknown
    return [known_dims(v) for v in alone.outputs]


def merge_shapes(*known: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Merge shapes of one tensor: each dim is the first number, else the first name."""
    ranked = [s for s in known if s is not None]
    if not ranked:
        return None
    columns = zip(*(s for s in ranked if len(s) == len(ranked[0])), strict=True)
    return tuple(_best_dim(column) for column in columns)


def _best_dim(column: Sequence[Dim]) -> Dim:
    numbers = [d for d in column if isinstance(d, int)]
    return numbers[0] if numbers else next((d for d in column if d is not None), None)


def _isolated_node(node: ir.Node, inputs: Sequence[Blob | None]) -> ir.Node:
    """Return the node with its own values, which have the facts of the blobs."""
    values = [None if x is None else _value(i, x) for i, x in enumerate(inputs)]
    made = ir.Node(node.domain, node.op_type, values, node.attributes.values(), num_outputs=len(node.outputs))
    for i, (output, original) in enumerate(zip(made.outputs, node.outputs, strict=True)):
        output.name = f"output_{i}"
        output.type = original.type
    return made


def _value(index: int, x: Blob) -> ir.Value:
    shape = None if x.shape is None else ir.Shape(x.shape)
    value = ir.Value(name=f"input_{index}", type=ir.TensorType(x.dtype), shape=shape)
    value.const_value = x.content
    return value
