"""Many operator cases merged into one model, for backends that take longer to write an artefact than to run its
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

Members = Sequence[tuple[int, onnx.ModelProto]]
"""Models of one node each, with the numbers that make their names unique."""


def merged(members: Members, opset: int) -> onnx.ModelProto:
    """Merge models into one. The names of model i begin with `ci_`; its node `the_node` becomes `ci_the_node`."""
    parts = [_with_prefix(model.graph, f"c{i}_") for i, model in members]
    graph = helper.make_graph(
        [node for part in parts for node in part.node],
        "cases",
        [value for part in parts for value in part.input],
        [value for part in parts for value in part.output],
        [tensor for part in parts for tensor in part.initializer],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _with_prefix(graph: onnx.GraphProto, prefix: str) -> onnx.GraphProto:
    """Return the graph with a prefix before all names.

    onnx 1.23 renames constants only after subgraphs, which read them; it is given their names beforehand.
    """
    names = {constant.name: f"{prefix}{constant.name}" for constant in graph.initializer}
    return onnx.compose.add_prefix_graph(graph, prefix, name_map=names)


def with_dims_apart(number: int, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with unique names of dims, because two cases may use one name for different sizes."""
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = f"c{number}_{dim.dim_param}"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model
