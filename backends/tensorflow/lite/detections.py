"""Writes the detections of `--postprocess detection` as the operator TFLite_Detection_PostProcess.

The operator decodes offsets from anchors and suppresses boxes. TensorFlow's converter sees a model that ends with
offsets and scores; the operator is added to its file. It takes real numbers, so a quantized file dequantizes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from flatbuffers import flexbuffers
from onnx_ir.passes import common
from tensorflow.lite.python import schema_py_generated as schema

from convert.graph import OPSET, Graph
from convert.graph.values import known_dims, names_in_use
from convert.passes.detections import anchors_in_order, halves, place_nodes
from convert.request.detections import CORNERS, DELTAS, NAMES, Detections

from .file_objects import LiteFile

INPUTS = ("detection_offsets", "detection_class_scores")
"""Outputs of the model that TensorFlow's converter sees."""

_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN")

_LEAST_SIDE = np.float32(2.0**-21)
"""The kernel fails at boxes without an area, so a side is at least this fraction of the centre: four of its
roundings.
"""
_SMALL = np.float32(np.finfo(np.float32).tiny)


def split_detections(model: ir.Model, how: Detections) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Replace the outputs of a model with detections by the inputs of the operator.

    Returns the operator's options, and its anchors [boxes, 4] and scales [4]. For boxes that are no offsets, the
    anchors are unit squares at 0.
    """
    values = {str(v.name): v for v in (*model.graph.inputs, *(v for node in model.graph for v in node.outputs))}
    g = Graph(opset=model.graph.opset_imports.get("", OPSET))
    g.reserve(names_in_use(model))
    boxes, scores = values[how.boxes], values[how.scores]
    results = _offsets(g, boxes, how), g.Transpose(scores, perm=[0, 2, 1]) if how.classes_first else g.Identity(scores)
    place_nodes(model, g)
    for value, name in zip(results, INPUTS, strict=True):
        value.name = name
    model.graph.outputs[:] = results
    common.RemoveUnusedNodesPass()(model)
    sizes = known_dims(scores) or ()
    count, columns = (int(str(d)) for d in (sizes[1:] if not how.classes_first else sizes[:0:-1]))
    anchors, scales = np.tile(np.array([0, 0, 1, 1], np.float32), (count, 1)), np.ones(4, np.float32)
    if how.anchors is not None:
        anchors, scales = anchors_in_order(how)
    per_class, iou, score = how.thresholds
    options = {
        "max_detections": how.limit,
        "max_classes_per_detection": 1,
        "detections_per_class": min(per_class, count),
        "use_regular_nms": True,
        # The kernel keeps scores at the threshold, and accepts no threshold of 0 for the overlap.
        "nms_score_threshold": float(np.nextafter(np.float32(score), np.float32(np.inf))),
        "nms_iou_threshold": float(max(np.float32(iou), _SMALL)),
        "num_classes": columns - how.background,
    }
    return options, {"anchors": anchors, "scales": scales}


def _offsets(g: Graph, boxes: ir.Value, how: Detections) -> ir.Value:
    """Return what the operator decodes: offsets from anchors as they are, other boxes as centre and log(size)."""
    first, second = halves(g, boxes, how)
    if how.form in DELTAS:
        return g.Concat(first, second, axis=2)
    if how.form in CORNERS:
        centre = g.Mul(g.Add(first, second), np.float32(0.5))
        first, second = centre, g.Abs(g.Sub(second, first))
    least = g.Max(g.Mul(g.Abs(first), _LEAST_SIDE), _SMALL)
    return g.Concat(first, g.Log(g.Max(second, least)), axis=2)


def box_arithmetic(model: ir.Model) -> list[ir.Node]:
    """Return the nodes between the last weights and the offsets. In 8 bits they would move boxes by pixels."""
    found: dict[ir.Node, None] = {}
    waiting = [v for v in model.graph.outputs if v.name == INPUTS[0]]
    while waiting:
        node = waiting.pop().producer()
        if node is not None and node not in found and node.op_type not in _WEIGHTED:
            found[node] = None
            waiting += [v for v in node.inputs if v is not None]
    return list(found)


def add_detections(data: bytes, options: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the file with the operator behind the outputs `INPUTS`, and its four results as the outputs."""
    file = LiteFile(data)
    graph, (_, outputs) = file.model.subgraphs[0], file.io_names(0)
    anchors = file.add_tensor(0, "anchors", np.ascontiguousarray(arrays["anchors"], np.float32))
    limit = options["max_detections"]
    shapes = ((1, limit, 4), (1, limit), (1, limit), (1,))
    made = [file.add_tensor(0, name, np.float32, shape) for name, shape in zip(NAMES, shapes, strict=True)]
    operator = file.new_custom("TFLite_Detection_PostProcess", [outputs[n] for n in INPUTS] + [anchors], made)
    operator.customOptions = np.frombuffer(_flexbuffer(options, arrays["scales"]), np.uint8)
    graph.operators = [*graph.operators, operator]
    graph.outputs = np.array(made, np.int32)
    (signature,) = file.model.signatureDefs
    signature.outputs = []
    for name, tensor in zip(NAMES, made, strict=True):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name.encode(), tensor
        signature.outputs.append(entry)
    return file.packed()


def _flexbuffer(options: Mapping[str, Any], scales: np.ndarray) -> bytes:
    builder = flexbuffers.Builder()
    with builder.Map():
        for key, value in options.items():
            builder.Key(key)
            {bool: builder.Bool, int: builder.Int, float: builder.Float}[type(value)](value)
        for side, scale in zip("yxhw", scales, strict=True):
            builder.Key(f"{side}_scale")
            builder.Float(float(scale))
    return bytes(builder.Finish())
