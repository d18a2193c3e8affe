"""Runs a node in ONNX's reference implementation, or as the function that ONNX defines for its operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction

from convert.errors import Unsupported
from convert.graph import OPSET
from convert.passes.opset.onnx_tools import expand_function
from convert.reference.control import RunBody
from convert.reference.table import shortest_decimal


def fallback(node: ir.Node, inputs: Sequence[Any], run_body: RunBody, opset: int = OPSET) -> Sequence[Any]:
    """Return the outputs of one node without subgraphs. Raises `Unsupported` if nothing implements it.

    `run_body` runs the body of a function, which has access to its inputs only. `opset` is the opset of the default
    domain that defines `node`.
    """
    if any(isinstance(a.value, ir.Graph) for a in node.attributes.values()):
        raise Unsupported("no reference implementation runs its subgraph")
    proto = ir.serde.serialize_node(node)
    evaluator = ReferenceEvaluator(
        onnx.ModelProto(
            opset_import=[onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("ai.onnx.ml", 5)],
            graph=onnx.GraphProto(name="g"),
        )
    )
    try:
        implementation = evaluator._load_impl(proto)
        instance = implementation(proto, {**_PARAMETERS, "opsets": {"": opset, "ai.onnx.ml": 5}})
    except Exception as error:  # the evaluator raises several of its own classes for missing operators
        return run_function_body(node, inputs, run_body, error, opset)
    if isinstance(instance, OpFunction):
        return run_function_body(node, inputs, run_body, None, opset)
    for name, attribute in node.attributes.items():
        # The proto rounds floats to float32; the graph in memory may hold them exactly.
        if attribute.type == ir.AttributeType.FLOAT:
            setattr(instance, name, attribute.as_float())
        elif attribute.type == ir.AttributeType.FLOATS:
            setattr(instance, name, list(attribute.as_floats()))
    for name in instance.attributes_names_ - set(node.attributes):
        if isinstance(getattr(instance, name), (np.float32, float)):
            setattr(instance, name, shortest_decimal(getattr(instance, name)))
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    return instance.run(*given)


_PARAMETERS = {
    "log": lambda pattern, *args: None,
    "verbose": 0,
    "new_ops": None,
    "existing_functions": {},
    "evaluator_cls": ReferenceEvaluator,
}


def run_function_body(
    node: ir.Node, inputs: Sequence[Any], run_body: RunBody, error: Exception | None, opset: int
) -> Sequence[Any]:
    """Return the outputs of one node by its operator's function body.

    Raises `Unsupported`, with `error`, if there is none.
    """
    body = expand_function(node, opset) if node.domain == "" else "it is not an operator of ONNX's default domain"
    if isinstance(body, str):
        raise Unsupported(f"the reference executor has no kernel for it: {error or body}")
    given = iter([x for x, v in zip(inputs, node.inputs, strict=True) if v is not None])
    results = iter(run_body(body, list(given)))
    return [next(results) if v.name else None for v in node.outputs]
