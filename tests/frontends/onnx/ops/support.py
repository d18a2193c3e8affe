"""Runs rows of ONNX Runtime's own operators: directly, and as the shared graph that the frontend makes of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from convert.reference.executor import run
from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.support.cases import Case
from tests.support.onnx_support import info, read, session

OPSET = 13
"""Opset of the files, older than the canonical one, because ONNX Runtime's operators occur in such files."""


def model_of(row: Case, opset: int = OPSET) -> onnx.ModelProto:
    """Return a file of one node, whose inputs have unknown dims; a second output reads the first, as later
    layers do.
    """
    attributes = dict(row.attributes)
    count = attributes.pop("_outputs", 1)
    free = attributes.pop("_dynamic", True)
    domain, _, operator = row.operator.rpartition("::")
    names, inputs, weights = [], [], []
    for i, content in enumerate(row.inputs):
        names.append("" if content is None else f"x{i}")
        if isinstance(content, Const):
            weights.append(onnx.numpy_helper.from_array(content.array, names[-1]))
        elif content is not None:
            kind = helper.np_dtype_to_tensor_dtype(content.dtype)
            dims = [f"d{i}_{axis}" if free and axis < 2 else n for axis, n in enumerate(content.shape)]
            inputs.append(info(names[-1], dims, kind))
    outputs = [f"y{i}" for i in range(count)]
    nodes = [
        helper.make_node(operator, names, outputs, name="the_node", domain=domain, **attributes),
        helper.make_node("Shape", ["y0"], ["shape"]),
        helper.make_node("Reshape", ["y0", "shape"], ["again"]),
    ]
    ends = [onnx.ValueInfoProto(name=name) for name in (*outputs, "again")]
    graph = helper.make_graph(nodes, "g", inputs, ends, weights)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def feeds_of(row: Case) -> dict[str, np.ndarray]:
    """Return the run-time inputs."""
    return {f"x{i}": x for i, x in enumerate(row.inputs) if isinstance(x, np.ndarray)}


def check(row: Case, opset: int = OPSET) -> ir.Model:
    """Assert that the graph gives ONNX Runtime's results: steps within one, floats within some roundings. Returns the
    graph.
    """
    proto = model_of(row, opset)
    proto = typed(proto, _types(proto))
    graph = read(proto)
    assert all(node.domain == "" for node in graph.graph), [node.op_type for node in graph.graph]
    values = [*graph.graph.inputs, *(value for node in graph.graph for value in node.outputs)]
    assert all(use.node.graph is graph.graph for value in values for use in value.uses()), "a user outside of the graph"
    feeds = feeds_of(row)
    names = [v.name for v in proto.graph.output]
    wanted = dict(zip(names, session(proto).run(names, feeds), strict=True))
    got = run(graph, feeds)
    for name, want in wanted.items():
        found = np.asarray(got[name])
        assert (found.dtype, found.shape) == (want.dtype, want.shape), name
        if want.dtype.kind == "f":
            rounding = 2e-5 if want.dtype == np.float32 else 4e-3
            atol = rounding / 10 * np.abs(want).max()
            np.testing.assert_allclose(found, want, rtol=rounding, atol=atol, err_msg=name)
        else:
            steps = np.abs(found.astype(np.int64) - want.astype(np.int64))
            assert steps.max(initial=0) <= (1 if "QLinear" in row.operator else 0), name
    return graph


def typed(proto: onnx.ModelProto, kinds: Iterable[int]) -> onnx.ModelProto:
    """Return the same model with the dtypes of its outputs, which the checker requires."""
    for value, kind in zip(proto.graph.output, kinds, strict=True):
        value.CopyFrom(info(value.name, None, kind))
    return proto


def _types(proto: onnx.ModelProto) -> list[int]:
    """Return the dtypes of the outputs as ONNX Runtime has them, because ONNX's own inference does not know them."""
    names = {"float": "FLOAT", "float16": "FLOAT16"}
    texts = [o.type.removeprefix("tensor(").removesuffix(")") for o in session(proto).get_outputs()]
    return [onnx.TensorProto.DataType.Value(names.get(text, text.upper())) for text in texts]
