"""Every kind of operator that takes either layout, between two convolutions: no transpose is left between these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import CHANNELS_LAST
from convert.passes.layout.sensitive import SENSITIVE
from convert.passes.layout.table import AGNOSTIC as TABLE
from convert.passes.layout.table import ELEMENTWISE, REDUCTIONS
from tests.support.layout_support import batch_norm, check, conv, nodes, weights

F = ir.DataType.FLOAT

AGNOSTIC: dict[str, Callable[[Graph, ir.Value], ir.Value]] = {
    "relu": lambda g, x: g.Relu(x),
    "clip": lambda g, x: g.Clip(x, -0.5, 0.5),
    "cast": lambda g, x: g.Cast(g.Cast(x, to=ir.DataType.DOUBLE), to=F),
    "cast like": lambda g, x: g.CastLike(g.Cast(x, to=ir.DataType.DOUBLE), x),
    "identities": lambda g, x: g.Identity(g.Identity(g.Identity(x))),
    "dropout": lambda g, x: g.Dropout(x),
    "where": lambda g, x: g.Where(g.Greater(x, weights(1, 6, 1, 1)), x, weights(8, 5)),
    "variadic": lambda g, x: g.Max(x, weights(6, 8, 1), weights(1), g.Neg(x)),
    "prelu": lambda g, x: g.PRelu(x, weights(6, 1, 1)),
    "add a full constant": lambda g, x: g.Add(weights(2, 6, 8, 5), x),
    "add a vector over the last dim": lambda g, x: g.Add(weights(5), x),
    "pow": lambda g, x: g.Pow(g.Abs(x), 2.0),
    "concat": lambda g, x: g.Concat(x, g.Neg(x), weights(2, 6, 3, 5), axis=-2),
    "split": lambda g, x: g.Sub(*g.Split(x, axis=1, outputs=2, num_outputs=2)),
    "uneven split": lambda g, x: g.Concat(*g.Split(x, [1, 5], axis=1, outputs=2)[::-1], axis=1),
    "pad": lambda g, x: g.Pad(x, [0, 1, 2, 0, 0, 0, 1, 3], 0.5),
    "pad by axes": lambda g, x: g.Pad(x, [1, 2, 3, 4], None, [2, -1], mode="reflect"),
    "slice": lambda g, x: g.Slice(x, [1, 0], [5, 100], [1, -1], [2, 2]),
    "slice without axes": lambda g, x: g.Slice(x, [0, 1, 2], [2, 4, 8]),
    "reduce and keep": lambda g, x: g.Sub(x, g.ReduceMax(x, [1], keepdims=1)),
    "reduce over all": lambda g, x: g.Sub(x, g.ReduceMean(x, keepdims=1)),
    "reduce to a scalar": lambda g, x: g.Sub(x, g.ReduceMean(x, keepdims=0)),
    "reduce nothing": lambda g, x: g.ReduceSum(x, noop_with_empty_axes=1, keepdims=0),
    "softmax": lambda g, x: g.Softmax(x, axis=1),
    "hardmax": lambda g, x: g.Hardmax(x, axis=2),
    "log softmax": lambda g, x: g.LogSoftmax(x),
    "lp normalization": lambda g, x: g.LpNormalization(x, axis=1),
    "arg max": lambda g, x: g.Add(x, g.Cast(g.ArgMax(x, axis=1, keepdims=1), to=F)),
    "arg min": lambda g, x: g.Add(x, g.Cast(g.ArgMin(x, axis=-1, select_last_index=1), to=F)),
    "cumulative sum": lambda g, x: g.CumSum(x, np.array(1)),
    "gather a list": lambda g, x: g.Gather(x, [3, 0, 1], axis=1),
    "gather elements": lambda g, x: g.GatherElements(x, np.arange(480).reshape(2, 6, 8, 5) % 5, axis=3),
    "scatter elements": lambda g, x: g.ScatterElements(
        x, np.zeros((2, 6, 1, 5), np.int64), weights(2, 6, 1, 5), axis=2
    ),
    "tile": lambda g, x: g.Tile(x, [1, 2, 3, 1]),
    "expand": lambda g, x: g.Mul(x, g.Expand(g.ReduceMean(x, [2, 3], keepdims=1), [6, 8, 5])),
    "top k": lambda g, x: g.TopK(x, [3], axis=1, outputs=2)[0],
    "squeeze and unsqueeze": lambda g, x: g.Mul(x, g.Unsqueeze(g.Squeeze(g.GlobalMaxPool(x)), [2, 3])),
    "flatten": lambda g, x: g.Mul(x, g.Unsqueeze(g.Flatten(g.GlobalMaxPool(x)), [2, 3])),
    "one spatial dim less": lambda g, x: g.Unsqueeze(g.ReduceMean(x, [2], keepdims=0), [2]),
    "mean variance": lambda g, x: g.facts(g.MeanVarianceNormalization(x, axes=[0, 2, 3]), F, [2, 6, 8, 5]),
    "layer norm over all": lambda g, x: g.LayerNormalization(x, weights(6, 8, 5), weights(6, 8, 5), axis=1),
    "rms norm over all": lambda g, x: g.RMSNormalization(x, weights(6, 8, 5), axis=1),
    "quantize by channel": lambda g, x: g.DequantizeLinear(
        g.QuantizeLinear(x, np.full(6, 0.1, np.float32), np.arange(6, dtype=np.uint8), axis=1),
        np.full(6, 0.1, np.float32),
        np.arange(6, dtype=np.uint8),
        axis=1,
    ),
    "quantize at run time": lambda g, x: g.DequantizeLinear(*g.DynamicQuantizeLinear(x, outputs=3)),
    "regroup spatial dims": lambda g, x: g.Reshape(x, [2, 6, 4, -1]),
    "size": lambda g, x: g.Add(x, g.Cast(g.Size(g.Neg(x)), to=F)),
    "shape": lambda g, x: g.Resize(x, None, None, g.Mul(g.Shape(x), np.array([1, 1, 2, 3]))),
}


@pytest.mark.parametrize("name", AGNOSTIC)
def test_agnostic_operator_between_convolutions(name: str) -> None:
    g = Graph()
    y = AGNOSTIC[name](g, conv(g, g.input("x", F, [2, 6, 8, 5]), 6))
    g.output(conv(g, y, 4) if g.shape(y)[1] else y, "y")
    model = check(g, {})
    assert [n.attributes.get_ints("perm") for n in nodes(model, "Transpose")] == [(0, 2, 3, 1), (0, 3, 1, 2)]


SENSITIVE_OPERATORS: dict[str, Callable[[Graph, ir.Value], ir.Value]] = {
    "AveragePool": lambda g, x: g.AveragePool(x, kernel_shape=[3, 2], count_include_pad=1, pads=[1, 0, 1, 1]),
    "BatchNormalization": batch_norm,
    "Conv": lambda g, x: g.Conv(x, weights(4, 3, 3, 2), None, group=2, strides=[2, 1], auto_pad="SAME_UPPER"),
    "ConvInteger": lambda g, x: as_float(g, g.ConvInteger(as_bytes(g, x), as_bytes(g, weights(4, 6, 2, 2)))),
    "ConvTranspose": lambda g, x: g.ConvTranspose(x, weights(6, 2, 3, 3), strides=[2, 1], group=2),
    "DeformConv": lambda g, x: g.DeformConv(x, weights(4, 6, 2, 2), weights(2, 8, 7, 4)),
    "DepthToSpace": lambda g, x: g.DepthToSpace(g.Concat(x, x, axis=1), blocksize=2),
    "GlobalAveragePool": lambda g, x: g.GlobalAveragePool(x),
    "GlobalLpPool": lambda g, x: g.GlobalLpPool(x, p=1),
    "GlobalMaxPool": lambda g, x: g.GlobalMaxPool(x),
    "GridSample": lambda g, x: g.GridSample(x, weights(2, 3, 7, 2)),
    "GroupNormalization": lambda g, x: g.facts(
        g.GroupNormalization(x, weights(6), weights(6, seed=1), num_groups=3), F, [2, 6, 8, 5]
    ),
    "InstanceNormalization": lambda g, x: g.InstanceNormalization(x, weights(6), weights(6, seed=1)),
    "LRN": lambda g, x: g.LRN(x, size=3, alpha=0.1),
    "LpPool": lambda g, x: g.LpPool(x, kernel_shape=[2, 3], strides=[2, 1]),
    "MaxPool": lambda g, x: g.MaxPool(x, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
    "MaxRoiPool": lambda g, x: g.MaxRoiPool(x, np.float32([[1, 0, 1, 4, 6]]), pooled_shape=[2, 2]),
    "QLinearConv": lambda g, x: g.DequantizeLinear(
        g.QLinearConv(
            as_bytes(g, x), SCALE, ZERO, as_bytes(g, weights(4, 6, 2, 2)), SCALE, ZERO, np.float32(0.3), ZERO
        ),
        SCALE,
    ),
    "Resize": lambda g, x: g.Resize(x, None, [1.5, 2.0], axes=[2, 3], mode="cubic"),
    "RoiAlign": lambda g, x: g.RoiAlign(
        x, np.float32([[0, 1, 4, 6], [1, 0, 3, 3]]), np.array([1, 0]), output_height=2, output_width=3
    ),
    "SpaceToDepth": lambda g, x: g.SpaceToDepth(g.Concat(x, x, axis=3), blocksize=2),
}

SCALE, ZERO = np.float32(0.05), np.uint8(128)


def as_bytes(g: Graph, x: ir.Value | np.ndarray) -> ir.Value:
    return g.QuantizeLinear(x, SCALE, ZERO)


def as_float(g: Graph, x: ir.Value) -> ir.Value:
    return g.Cast(x, to=F)


@pytest.mark.parametrize("operator", SENSITIVE)
def test_sensitive_operator(operator: str) -> None:
    g = Graph(opset=21)  # onnxruntime has no RoiAlign, MaxRoiPool, GlobalLpPool of opset 22
    y = SENSITIVE_OPERATORS[operator](g, g.Relu(conv(g, g.input("x", F, [2, 6, 8, 5]), 6)))
    g.output(g.Relu(y), "y")
    model = check(g, {})
    assert [n.domain for n in nodes(model, operator)] == [CHANNELS_LAST] * len(nodes(model, operator))
    assert [n.attributes.get_ints("perm") for n in nodes(model, "Transpose")] == [(0, 2, 3, 1), (0, 3, 1, 2)]


def test_every_rule_is_in_the_table_above() -> None:
    covered = set()
    for build in AGNOSTIC.values():
        g = Graph()
        build(g, g.input("x", F, [2, 6, 8, 5]))
        covered.update(node.op_type for node in g.graph)
    assert set(TABLE) - covered - set(ELEMENTWISE) - set(REDUCTIONS) == set()
