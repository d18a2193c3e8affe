"""Appends the computation of detections to a graph whose outputs are boxes and scores (`--postprocess detection`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from convert.errors import Unsupported, UsageError
from convert.graph import OPSET, Graph
from convert.graph.metadata import AS_IS_KEY
from convert.graph.tensors import dtype_name
from convert.graph.values import constant, known_dims, names_in_use
from convert.outcome.report import Tensor
from convert.request.detections import CANDIDATE_NAMES, CORNERS, DELTAS, NAMES, ROWS, Detections

_YX = [1, 0, 3, 2]
_MOST_BOXES = 1 << 30
"""Files name larger numbers for all boxes; TensorFlow Lite's option is an int32."""


def suppression(model: ir.Model) -> ir.Node | None:
    """Return the graph's only NonMaxSuppression; None without one. Raises `Unsupported` for several."""
    nodes = [node for node in model.graph if node.op_type == "NonMaxSuppression" and not node.domain]
    if len(nodes) > 1:
        raise Unsupported(f"--postprocess detection for {len(nodes)} NonMaxSuppressions: one becomes the operator")
    return nodes[0] if nodes else None


def settings_of(node: ir.Node, how: Detections) -> Detections:
    """Return the settings with the tensors, thresholds and limit of a NonMaxSuppression.

    Raises `Unsupported` for thresholds that are computed, and for a suppression that keeps no box.
    """
    boxes, scores, *given = [*node.inputs, None, None, None][:5]
    numbers = [None if value is None else constant(value) for value in given]
    if any(value is not None and number is None for value, number in zip(given, numbers, strict=True)):
        raise Unsupported("--postprocess detection needs constant thresholds in NonMaxSuppression")
    per_class, iou, least = (None if n is None else np.ravel(n.numpy())[0].item() for n in numbers)
    if how.per_class is None and not per_class:
        raise Unsupported(
            "NonMaxSuppression keeps no box: its max_output_boxes_per_class is 0",
            hint="--postprocess detection,per_class=N keeps N boxes of each class",
        )
    assert boxes is not None
    assert scores is not None
    centres = node.attributes.get_int("center_point_box", 0) == 1
    return replace(
        how,
        boxes=str(boxes.name),
        scores=str(scores.name),
        form=how.form or ("cxcywh" if centres else None),
        classes_first=True,
        per_class=how.per_class or min(int(per_class or 0), _MOST_BOXES),
        iou=(iou or 0.0) if how.iou is None else how.iou,
        score=(float(np.finfo(np.float32).min) if least is None else least) if how.score is None else how.score,
    )


def rows_settings(model: ir.Model) -> Detections | None:
    """Return the settings of a graph's only NonMaxSuppression; None if there is not one with constant thresholds."""
    try:
        node = suppression(model)
        return None if node is None else settings_of(node, Detections())
    except Unsupported:
        return None


def resolved_by_outputs(model: ir.Model, how: Detections) -> Detections:
    """Return the settings with the names of the outputs and with defaults. Raises `UsageError` if the outputs are not
    boxes [1, n, 4] and scores [1, n, classes] or [1, classes, n].
    """
    outputs = list(model.graph.outputs)
    shapes = [known_dims(v) or () for v in outputs]
    boxes = next((v for v, dims in zip(outputs, shapes, strict=True) if len(dims) == 3 and dims[-1] == 4), None)
    others = [v for v in outputs if v is not boxes]
    if boxes is None or len(others) != 1:
        raise _unfit(model)
    one, count, _ = known_dims(boxes) or ()
    sizes = known_dims(others[0]) or ()
    floats = all(v.dtype == ir.DataType.FLOAT for v in outputs)
    known = one == 1 and isinstance(count, int) and len(sizes) == 3 and all(isinstance(d, int) for d in sizes)
    if not floats or not known or sizes[0] != 1 or count not in sizes[1:]:
        raise _unfit(model)
    if how.anchors is not None and len(how.anchors) != count:
        raise UsageError(f"--postprocess: {len(how.anchors)} anchors for {count} boxes")
    classes_first = how.classes_first or sizes[1] != count
    return replace(
        how,
        boxes=str(boxes.name),
        scores=str(others[0].name),
        form=how.form or "xyxy",
        classes_first=classes_first,
        per_class=how.per_class or how.limit,
        iou=0.5 if how.iou is None else how.iou,
        score=0.05 if how.score is None else how.score,
    )


def _unfit(model: ir.Model) -> UsageError:
    found = ", ".join(str(Tensor(str(v.name), dtype_name(v.dtype), known_dims(v))) for v in model.graph.outputs)
    return UsageError(
        "--postprocess detection needs two outputs, boxes float32[1,n,4] and scores float32[1,n,classes]; the model "
        f"has {found}",
        hint="fix the batch and the sizes with --input, or name two tensors of an ONNX model with --outputs",
    )


def append_detections(model: ir.Model, how: Detections) -> None:
    """Replace the outputs boxes and scores by the four of `NAMES`, computed by operators of ONNX."""
    values = {str(v.name): v for v in model.graph.outputs}
    g = Graph(opset=model.graph.opset_imports.get("", OPSET))
    g.reserve(names_in_use(model))
    results = _detections(g, values[how.boxes], values[how.scores], how)
    place_nodes(model, g)
    for value, name in zip(results, NAMES, strict=True):
        value.name = name
        value.metadata_props[AS_IS_KEY] = "1"
    model.graph.outputs[:] = results


def candidates_of(model: ir.Model) -> ir.Model:
    """Return a copy of a graph with detections that ends before the suppression: its outputs are `CANDIDATE_NAMES`."""
    copy = model.clone()
    node = suppression(copy)
    assert node is not None
    g = Graph(opset=copy.graph.opset_imports.get("", OPSET))
    g.reserve(names_in_use(copy))
    results = [g.Identity(value) for value in node.inputs[:2]]
    place_nodes(copy, g)
    for value, name in zip(results, CANDIDATE_NAMES, strict=True):
        value.name = name
        value.metadata_props[AS_IS_KEY] = "1"
    copy.graph.outputs[:] = results
    common.RemoveUnusedNodesPass()(copy)
    return copy


def behind_suppression(model: ir.Model) -> ir.Model:
    """Return a copy of a graph in which boxes, scores and selected rows are further inputs, `CANDIDATE_NAMES` and
    `ROWS`.
    """
    copy = model.clone()
    node = suppression(copy)
    assert node is not None
    ends = list(copy.graph.outputs)
    for value, name in zip((*node.inputs[:2], node.outputs[0]), (*CANDIDATE_NAMES, ROWS), strict=True):
        assert value is not None
        given = ir.Value(name=name, type=value.type, shape=value.shape)
        copy.graph.inputs.append(given)
        value.replace_all_uses_with(given, replace_graph_outputs=value in ends)
        if value in ends:  # an output of the model, which keeps its name
            output = ir.node("Identity", [given])
            copy.graph.append(output)
            value.name, output.outputs[0].name = f"{value.name}_before", value.name
            output.outputs[0].type, output.outputs[0].shape = value.type, value.shape
            copy.graph.outputs[ends.index(value)] = output.outputs[0]
    common.RemoveUnusedNodesPass()(copy)
    return copy


def place_nodes(model: ir.Model, g: Graph) -> None:
    """Move all that `g` has built to the end of the model's graph."""
    nodes, constants = list(g.graph), list(g.graph.initializers.values())
    g.graph.remove(nodes)
    for value in constants:
        g.graph.initializers.pop(str(value.name))
        model.graph.register_initializer(value)
    model.graph.extend(nodes)


def _detections(g: Graph, boxes: ir.Value, scores: ir.Value, how: Detections) -> Sequence[ir.Value]:
    corners = _corners(g, boxes, how)
    by_class = scores if how.classes_first else g.Transpose(scores, perm=[0, 2, 1])
    by_class = g.Slice(by_class, [1], [np.iinfo(np.int64).max], [1]) if how.background else by_class
    per_class, iou, score = how.thresholds
    rows = g.NonMaxSuppression(
        corners, by_class, [per_class], np.array([iou], np.float32), np.array([score], np.float32)
    )
    found = g.GatherND(by_class, rows)
    count = g.Shape(found)
    least = np.finfo(np.float32).min
    found, order = g.TopK(g.Pad(found, [0, how.limit], least), [how.limit], axis=0, outputs=2)
    valid = g.Less(order, count)
    rows = g.Gather(g.Pad(rows, [0, 0, how.limit, 0]), order, axis=0)
    chosen = g.GatherND(corners, g.Gather(rows, [0, 2], axis=1))
    classes = g.Cast(g.Squeeze(g.Gather(rows, [1], axis=1), [1]), to=ir.DataType.FLOAT)
    parts = [
        g.Where(g.Unsqueeze(valid, [1]), chosen, np.float32(0)),
        *(g.Where(valid, part, np.float32(0)) for part in (classes, found)),
    ]
    shaped = [
        g.facts(g.Unsqueeze(part, [0]), ir.DataType.FLOAT, shape)
        for part, shape in zip(parts, ((1, how.limit, 4), (1, how.limit), (1, how.limit)), strict=True)
    ]
    number = g.Cast(g.Min(count, [how.limit]), to=ir.DataType.FLOAT)
    return [*shaped, g.facts(number, ir.DataType.FLOAT, (1,))]


def _corners(g: Graph, boxes: ir.Value, how: Detections) -> ir.Value:
    """Return boxes as top, left, bottom, right."""
    first, second = halves(g, boxes, how)
    if how.form in DELTAS and how.anchors is not None:
        anchors, scales = anchors_in_order(how)
        first = g.Add(g.Mul(g.Div(first, scales[:2]), anchors[:, 2:]), anchors[:, :2])
        second = g.Mul(g.Exp(g.Div(second, scales[2:])), anchors[:, 2:])
    if how.form not in CORNERS:
        half = g.Mul(second, np.float32(0.5))
        first, second = g.Sub(first, half), g.Add(first, half)
    return g.Concat(g.Min(first, second), g.Max(first, second), axis=2)


def halves(g: Graph, boxes: ir.Value, how: Detections) -> list[ir.Value]:
    """Return the two columns before and the two behind the middle of [1, n, 4], each with y first."""
    ordered = g.Gather(boxes, _YX, axis=2) if how.x_first else boxes
    return [g.Slice(ordered, [k], [k + 2], [2]) for k in (0, 2)]


def anchors_in_order(how: Detections) -> tuple[np.ndarray, np.ndarray]:
    """Return anchors [n, 4] and scales [4], with y first."""
    assert how.anchors is not None
    order = _YX if how.x_first else [0, 1, 2, 3]
    return how.anchors[:, order], np.array(how.scales, np.float32)[order]
