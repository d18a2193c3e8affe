"""Gives dims the sizes that weights demand: a convolution whose kernel has three channels takes no other number.

Files that were exported with every dim dynamic name their channels. Targets need the number, and the model runs with no
other.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from convert.graph.shape_inference import infer_facts
from convert.graph.tensors import dims_of
from convert.graph.values import known_dims
from convert.outcome.report import Report


def fix_channels(model: ir.Model, report: Report) -> None:
    """Replace names of dims by the sizes that the weights of nodes demand, with a note, and infer shapes again.

    Subgraphs are ignored: a branch that is never taken demands nothing.
    """
    sizes: dict[str, int] = {}
    for node in model.graph:
        for value, axis, size in _demands(node):
            dims = known_dims(value)
            if dims is not None and -len(dims) <= axis < len(dims) and isinstance(name := dims[axis], str):
                sizes.setdefault(name, size)
    own = {d for value in model.graph.inputs for d in known_dims(value) or () if isinstance(d, str)}
    sizes = {name: size for name, size in sizes.items() if name in own}
    if not sizes:
        return
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.outputs, *(v for node in graph for v in node.outputs)):
            dims = known_dims(value)
            if dims is not None and any(d in sizes for d in dims):
                value.shape = ir.Shape([sizes.get(d, d) if isinstance(d, str) else d for d in dims])
    infer_facts(model)
    listed = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    report.note(f"dims have the sizes that the weights demand: {listed}", code="fixed-dim")


def _demands(node: ir.Node) -> Iterator[tuple[ir.Value, int, int]]:
    """Yield each input of a node with an axis and the only size that it takes there."""
    if node.domain or node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"):
        return
    x, w = node.inputs[0], node.inputs[1]
    if x is None or w is None or w.const_value is None:
        return
    shape = dims_of(w.const_value)
    if node.op_type == "Conv" and len(shape) > 2:
        yield x, 1, shape[1] * node.attributes.get_int("group", 1)
    elif node.op_type == "ConvTranspose" and len(shape) > 2:
        yield x, 1, shape[0]
    elif node.op_type == "Gemm" and len(shape) == 2:
        transposed = node.attributes.get_int("transB", 0)
        yield x, 0 if node.attributes.get_int("transA", 0) else 1, shape[1 if transposed else 0]
    elif node.op_type == "MatMul" and len(shape) > 1:
        yield x, -1, shape[-2]
    elif node.op_type in ("LSTM", "GRU", "RNN") and len(shape) == 3:
        yield x, 2, shape[2]
