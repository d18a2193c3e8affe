"""Run a graph before and after the layout pass on onnxruntime, and count the remaining transposes."""

from __future__ import annotations

import copy

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from convert.graph import Graph
from convert.passes.layout.assign import CHANNELS_LAST, assign_layout

Shapes = dict[str, tuple[int, ...]]


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Return normal float32 weights of about unit gain."""
    fan = max(1, int(np.prod(shape[1:])))
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) / np.sqrt(fan)).astype(np.float32)


def image(g: Graph, *shape: int | str | None) -> ir.Value:
    """Add the float32 input `x`."""
    return g.input("x", ir.DataType.FLOAT, shape)


def is_last(node: ir.Node) -> bool:
    """Return whether a node has its channels-last form."""
    return node.domain == CHANNELS_LAST


def conv(g: Graph, x: ir.Value, out: int, kernel: int = 3, *, group: int = 1, stride: int = 1) -> ir.Value:
    """Add a convolution with bias that keeps the spatial size, except for its stride."""
    channels, spatial = g.shape(x)[1], g.rank(x) - 2
    weight = weights(out, channels // group, *[kernel] * spatial)
    return g.Conv(x, weight, weights(out), pads=[kernel // 2] * spatial * 2, strides=[stride] * spatial, group=group)


def batch_norm(g: Graph, x: ir.Value) -> ir.Value:
    """Add a BatchNormalization with random statistics."""
    c = g.shape(x)[1]
    return g.BatchNormalization(x, 1 + weights(c), weights(c, seed=1), weights(c, seed=2), 1 + weights(c, seed=3) ** 2)


def nodes(model: ir.Model, operator: str) -> list[ir.Node]:
    """Return all nodes of one operator, subgraphs included."""
    return [n for n in model.graph.all_nodes() if n.op_type == operator]


def interior(model: ir.Model) -> list[ir.Node]:
    """Return the transposes that neither read a graph input nor produce a graph output."""
    return [
        n for n in nodes(model, "Transpose") if not (n.inputs[0].is_graph_input() or n.outputs[0].is_graph_output())
    ]


def check(
    g: Graph, *shapes: Shapes, sensitive: str = "channels_last", boundary: str = "as is", modified: bool | None = True
) -> ir.Model:
    """Run the layout pass and compare the graph before and after in onnxruntime, for inputs of each shape.

    Shapes are compared with onnxruntime's, and inputs and outputs must stay the same.
    """
    model = g.model()
    before = ir.to_proto(model)
    onnx.checker.check_model(before, full_check=True)
    result = assign_layout(model, sensitive=sensitive, boundary=boundary)
    assert modified is None or result is modified
    after = channels_first_again(model)
    onnx.checker.check_model(after, full_check=True)
    if boundary == "as is":
        assert after.graph.input == before.graph.input
        assert after.graph.output == before.graph.output
    for seed, given in enumerate(shapes):
        compare(model, before, after, _feeds(before, given, seed), boundary)
    count = len(nodes(model, "Transpose"))
    assign_layout(model, sensitive=sensitive)
    assert len(nodes(model, "Transpose")) <= count, "a second run undoes the first"
    return model


def compare(model: ir.Model, before: onnx.ModelProto, after: onnx.ModelProto, feeds: dict, boundary: str) -> None:
    """Compare outputs to 1e-5 of their largest element (sums in another order), and shapes exactly."""
    wanted = run(before, feeds)
    perms = {v.name: None for v in (*model.graph.inputs, *model.graph.outputs)}
    if boundary == "moved":
        for v in perms:
            array = feeds.get(v, wanted.get(v))
            if array.ndim > 2 and array.dtype.kind == "f":
                perms[v] = perm_of_boundary(model, array.ndim)
        feeds = {k: v if perms[k] is None else np.ascontiguousarray(v.transpose(perms[k])) for k, v in feeds.items()}
    found = run(after, feeds, [v.name for n in model.graph for v in n.outputs if v.name])
    for name, array in wanted.items():
        array = array if perms[name] is None else array.transpose(perms[name])
        scale = 1e-5 * max(1e-30, float(np.abs(array).max())) if array.dtype.kind == "f" and array.size else 0
        np.testing.assert_allclose(found[name], array, rtol=0, atol=scale, err_msg=name)
    for node in model.graph:
        for v in node.outputs:
            if v.name in found and v.shape is not None:
                actual = found[v.name].shape
                assert len(v.shape) == len(actual), (v, actual)
                assert all(d == a for d, a in zip(v.shape, actual, strict=True) if isinstance(d, int)), (v, actual)


def perm_of_boundary(model: ir.Model, rank: int) -> tuple[int, ...]:
    """Return the permutation for this rank: to channels last if the model has such nodes, else to channels first."""
    last = any(n.domain == CHANNELS_LAST for n in model.graph.all_nodes())
    return (0, *range(2, rank), 1) if last else (0, rank - 1, *range(1, rank - 1))


def channels_first_again(model: ir.Model) -> onnx.ModelProto:
    """Return a copy for onnxruntime, in which each channels-last node is the ONNX operator between two transposes."""
    model = ir.from_proto(ir.to_proto(model))
    for node in list(model.graph.all_nodes()):
        if node.domain != CHANNELS_LAST:
            continue
        node.domain = ""
        data, out, graph = node.inputs[0], node.outputs[0], node.graph
        rank = len(data.shape)
        first = ir.node("Transpose", [data], {"perm": [0, rank - 1, *range(1, rank - 1)]})
        last = ir.node("Transpose", [out], {"perm": [0, *range(2, rank), 1]})
        first.outputs[0].name = f"{out.name}_before"
        graph.insert_before(node, first)
        node.replace_input_with(0, first.outputs[0])
        uses = [use for use in out.uses() if use.node is not last]
        graph.insert_after(node, last)
        for user, index in uses:
            user.replace_input_with(index, last.outputs[0])
        for i, value in enumerate(graph.outputs):
            if value is out:
                graph.outputs[i] = last.outputs[0]
        last.outputs[0].name, last.outputs[0].type, last.outputs[0].shape = out.name, out.type, out.shape
        out.name, out.shape = f"{out.name}_inside", None
    model.graph.opset_imports.pop(CHANNELS_LAST, None)
    return ir.to_proto(model)


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray], more: list[str] = ()) -> dict[str, np.ndarray]:
    """Return the outputs, and values named in `more`, from onnxruntime without graph optimizations."""
    model = copy.deepcopy(model)
    names = [o.name for o in model.graph.output]
    for name in more:
        if name not in names:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
            names.append(name)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, feeds), strict=True))


def _feeds(model: onnx.ModelProto, shapes: Shapes, seed: int) -> dict[str, np.ndarray]:
    rng, feeds = np.random.default_rng(seed), {}
    for value in model.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = shapes.get(value.name, tuple(d.dim_value for d in value.type.tensor_type.shape.dim))
        if dtype.kind == "b":
            feeds[value.name] = np.array(rng.random(shape) > 0.5)
        elif dtype.kind in "iu":
            feeds[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
    return feeds
