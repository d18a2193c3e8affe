"""Make constants of those inputs of the official ONNX cases that are constants in real models: axes, shapes, sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import onnx
from onnx import numpy_helper

from tests.suites.onnx_node_cases import NodeCase

_REDUCTIONS = [
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
]

PLACES: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Clip": (1, 2),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 2, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **dict.fromkeys(_REDUCTIONS, (1,)),
}
"""Positions of inputs that are parameters of an operator (axes, shapes), never data or weights."""


def frozen(case: NodeCase, base: NodeCase) -> NodeCase:
    """Return the case with these inputs as initializers; unchanged if it has several data sets.

    `base` is the case itself, or the case that it expands, which contains the operator.
    """
    inputs = {v.name for v in base.model.graph.input}
    names = {
        name
        for node in base.model.graph.node
        for i, name in enumerate(node.input)
        if name in inputs and i in PLACES.get(node.op_type, ())
    }
    if not names or len(case.data) != 1:
        return case
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)  # in old IR versions an initializer is an input too
    feeds, wanted = case.data[0]
    for name in sorted(names & set(feeds)):
        model.graph.initializer.append(numpy_helper.from_array(feeds[name], name))
    kept = [v for v in model.graph.input if v.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return replace(case, model=model, data=[({k: v for k, v in feeds.items() if k not in names}, wanted)])


def all_frozen(cases: Sequence[NodeCase]) -> list[NodeCase]:
    """Return every case frozen."""
    by_name = {case.name: case for case in cases}
    return [frozen(case, by_name.get(re.sub(r"_expanded(_ver\d+)?$", "", case.name), case)) for case in cases]
