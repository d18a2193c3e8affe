"""The rows of the ONNX tables: a graph in ONNX's text form, and the sizes that it runs at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper

Feeds = dict[str, np.ndarray]


_RANDOM = np.random.default_rng(7)


def weight(*shape: int) -> np.ndarray:
    """Normal numbers."""
    return _RANDOM.normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class OnnxProgram:
    """A whole model, the feeds it is compared on, and the refusals that each target may give.

    `oracle` is "onnxruntime", or "reference" if ONNX's own evaluator is the one that is right.
    """

    name: str
    model: onnx.ModelProto
    feeds: list[Feeds]
    refused: Mapping[str, str] = field(default_factory=dict)
    oracle: str = "onnxruntime"


def program(
    name: str,
    graph: str,
    *sizes: Mapping[str, int],
    functions: str = "",
    opset: int = 20,
    ir_version: int = 10,
    weights: Mapping[str, np.ndarray] | None = None,
    given: Mapping[str, Sequence[Any]] | None = None,
    below: Mapping[str, int] | None = None,
    refused: Mapping[str, str] | None = None,
    oracle: str = "onnxruntime",
) -> OnnxProgram:
    """Return a row of the table. `graph` is the part of ONNX's text form after the head.

    sizes: numbers for the named dims, one feed each. given: the content of an input, one for each of `sizes`. below:
    the exclusive limit of the elements of an integer input (3 by default).
    """
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "local" : 1, "com.microsoft" : 1]>\n'
    model = onnx.parser.parse_model(head + graph.strip() + "\n" + functions.strip())
    for weight, content in (weights or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(content), weight))
    if ir_version < 4:  # initializers are listed among the inputs
        known = {v.name for v in model.graph.input}
        missing = [w for w in model.graph.initializer if w.name not in known]
        model.graph.input.extend(helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in missing)
    for unused in {"local", "com.microsoft"} - {n.domain for n in _all_nodes(model)}:
        kept = [o for o in model.opset_import if o.domain != unused]
        del model.opset_import[:]
        model.opset_import.extend(kept)
    rows = [_draw(model, size, i, given or {}, below or {}) for i, size in enumerate(sizes or ({},))]
    return OnnxProgram(name, model, rows, refused or {}, oracle)


def _all_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    found, pending = [], [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while pending:
        node = pending.pop()
        found.append(node)
        pending += [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return found


def _draw(
    model: onnx.ModelProto,
    size: Mapping[str, int],
    number: int,
    given: Mapping[str, Sequence[Any]],
    below: Mapping[str, int],
) -> Feeds:
    """Sample numbers for the inputs without an initializer."""
    random = np.random.default_rng(number)
    own = {w.name for w in model.graph.initializer}
    feeds: Feeds = {}
    for value in model.graph.input:
        if value.name in own:
            continue
        kind = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name in given:
            feeds[value.name] = np.asarray(given[value.name][number], dtype)
            continue
        shape = [size[d.dim_param] if d.HasField("dim_param") else d.dim_value for d in kind.shape.dim]
        if dtype.kind == "f":
            feeds[value.name] = random.normal(size=shape).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = random.integers(0, 2, shape).astype(bool)
        elif dtype.kind == "O":
            feeds[value.name] = random.choice(np.array(["a", "b", "cat", ""], object), shape)
        else:
            feeds[value.name] = random.integers(0, below.get(value.name, 3), shape).astype(dtype)
    return feeds
