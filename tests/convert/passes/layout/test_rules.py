"""The layout rule of a node keeps its results: permuted inputs and the rule's changes give permuted outputs.

onnxruntime runs each node twice: unchanged, and on inputs that numpy has permuted, with the attributes and constants of
its form. Every case says whether the node may be moved to channels last, and to channels first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from convert.graph import Graph
from convert.passes.layout.model import LayoutForm, Move, Rule, Side, channels_first, channels_last
from convert.passes.layout.rules import form_of
from convert.passes.layout.table import AGNOSTIC
from tests.support.layout_support import weights

F, I32, I64, BOOL = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL
Build = Callable[[Graph], ir.Value]

BOTH, NEITHER, LAST, FIRST = (True, True), (False, False), (True, False), (False, True)
"""Whether a node may be moved by `channels_last` and by `channels_first`."""


def image(g: Graph, *shape: int | str | None, name: str = "x", dtype: ir.DataType = F) -> ir.Value:
    return g.input(name, dtype, shape or (2, 6, 4, 5))


CASES: dict[str, tuple[Build, tuple[bool, bool]]] = {
    "one operand": (lambda g: g.Relu(image(g)), BOTH),
    "rank 3": (lambda g: g.Relu(image(g, 2, 3, 4)), BOTH),
    "rank 5": (lambda g: g.Relu(image(g, 2, 3, 4, 5, 6)), BOTH),
    "rank 2": (lambda g: g.Relu(image(g, 2, 3)), NEITHER),
    "lower rank": (lambda g: g.Sub(image(g), image(g, 4, 5, name="b")), BOTH),
    "much lower rank": (lambda g: g.Sub(image(g, 5, name="b"), image(g)), BOTH),
    "one element": (lambda g: g.Sub(image(g), image(g, 1, 1, name="b")), BOTH),
    "dims of one": (lambda g: g.Sub(image(g), image(g, 1, 6, 1, 1, name="b")), BOTH),
    "three of three ranks": (
        lambda g: g.Where(image(g, 6, 1, 5, name="c", dtype=BOOL), image(g), image(g, 4, 1, name="b")), BOTH
    ),
    "dtype of another": (lambda g: g.CastLike(image(g), image(g, 3, name="b", dtype=I32)), BOTH),
    "softmax": (lambda g: g.Softmax(image(g), axis=1), BOTH),
    "softmax of the last": (lambda g: g.Softmax(image(g)), BOTH),
    "softmax, counted back": (lambda g: g.Softmax(image(g, 2, 6, 5), axis=-2), BOTH),
    "hardmax of the batch": (lambda g: g.Hardmax(image(g), axis=0), BOTH),
    "log softmax": (lambda g: g.LogSoftmax(image(g), axis=2), BOTH),
    "concat": (lambda g: g.Concat(image(g), image(g, 2, 1, 4, 5, name="b"), axis=1), BOTH),
    "concat, counted back": (lambda g: g.Concat(image(g), image(g, 2, 6, 4, 2, name="b"), axis=-1), BOTH),
    "split by sizes": (lambda g: g.Split(image(g), [1, 2, 3], axis=1, outputs=3)[0], BOTH),
    "split of the batch": (lambda g: g.Split(image(g), num_outputs=2, outputs=2)[0], BOTH),
    "top k": (lambda g: g.TopK(image(g), [2], outputs=2)[1], BOTH),
    "top k of channels": (lambda g: g.TopK(image(g), [2], axis=1, outputs=2)[0], BOTH),
    "gather elements": (lambda g: g.GatherElements(image(g), image(g, 2, 3, 4, 5, name="i", dtype=I64), axis=1), BOTH),
    "gather elements of the batch": (
        lambda g: g.GatherElements(image(g), image(g, 1, 6, 4, 5, name="i", dtype=I64)), BOTH
    ),
    "scatter elements": (
        lambda g: g.ScatterElements(image(g), image(g, 2, 1, 4, 5, name="i", dtype=I64), image(g, 2, 1, 4, 5, name="u"),
                                    axis=-3), BOTH
    ),
    "sum of channels, kept": (lambda g: g.ReduceSum(image(g), [1]), BOTH),
    "sum of channels": (lambda g: g.ReduceSum(image(g), [1], keepdims=0), BOTH),
    "sum of the last": (lambda g: g.ReduceSum(image(g), [-1], keepdims=0), BOTH),
    "sum of the plane": (lambda g: g.ReduceSum(image(g), [2, 3], keepdims=0), BOTH),
    "sum of the first two dims of the plane": (lambda g: g.ReduceSum(image(g), [1, 2], keepdims=0), BOTH),
    "sum of the batch": (lambda g: g.ReduceSum(image(g), [0], keepdims=0), NEITHER),
    "sum of all": (lambda g: g.ReduceSum(image(g), keepdims=0), BOTH),
    "sum of all, kept": (lambda g: g.ReduceSum(image(g)), BOTH),
    "sum of nothing": (lambda g: g.ReduceSum(image(g), noop_with_empty_axes=1, keepdims=0), BOTH),
    "sum of an empty list": (lambda g: g.ReduceSum(image(g), g.const(np.zeros(0, np.int64)), keepdims=0), BOTH),
    "sum of axes not known": (lambda g: g.ReduceSum(image(g), image(g, 1, name="a", dtype=I64)), NEITHER),
    "largest of channels": (lambda g: g.ReduceMax(image(g), [1, -1]), BOTH),
    "argmax of channels": (lambda g: g.ArgMax(image(g), axis=1, keepdims=0), BOTH),
    "argmax of channels, kept": (lambda g: g.ArgMax(image(g), axis=1), BOTH),
    "argmin of the last": (lambda g: g.ArgMin(image(g), axis=-1, keepdims=0), BOTH),
    "argmin of the batch": (lambda g: g.ArgMin(image(g)), BOTH),
    "argmin of the batch, dropped": (lambda g: g.ArgMin(image(g), keepdims=0), NEITHER),
    "gather a list": (lambda g: g.Gather(image(g), [2, 0, 1], axis=1), BOTH),
    "gather of the batch": (lambda g: g.Gather(image(g), [1]), BOTH),
    "gather one channel": (lambda g: g.Gather(image(g), np.array(2), axis=1), BOTH),
    "gather one column": (lambda g: g.Gather(image(g), np.array(2), axis=3), BOTH),
    "gather a matrix": (lambda g: g.Gather(image(g), np.array([[0, 1]]), axis=1), NEITHER),
    "pad": (lambda g: g.Pad(image(g), [0, 1, 2, 0, 1, 0, 0, 3]), BOTH),
    "pad by axes": (lambda g: g.Pad(image(g), [1, 2, 3, 0], np.float32(7), [1, -1]), BOTH),
    "pad not known": (lambda g: g.Pad(image(g), image(g, 8, name="p", dtype=I64)), BOTH),
    "pad by axes not known": (
        lambda g: g.Pad(image(g), [1, 1, 1, 1], None, image(g, 2, name="a", dtype=I64)), NEITHER
    ),
    "slice": (lambda g: g.Slice(image(g), [1, 0], [4, 2], [1, -1], [2, 1]), BOTH),
    "slice of the first dims": (lambda g: g.Slice(image(g), [0, 1, 1], [2, 4, 4]), BOTH),
    "slice in int32": (lambda g: g.Slice(image(g), np.int32([1]), np.int32([4]), np.int32([1])), BOTH),
    "slice not known": (
        lambda g: g.Slice(image(g), image(g, 1, name="s", dtype=I64), image(g, 1, name="e", dtype=I64), [1]), BOTH
    ),
    "slice of as many as given": (
        lambda g: g.Slice(image(g), image(g, 2, name="s", dtype=I64), image(g, 2, name="e", dtype=I64)), BOTH
    ),
    "slice of axes not known": (
        lambda g: g.Slice(image(g), [0], [1], image(g, 1, name="a", dtype=I64)), NEITHER
    ),
    "tile": (lambda g: g.Tile(image(g), [1, 2, 3, 1]), BOTH),
    "tile not known": (lambda g: g.Tile(image(g), image(g, 4, name="t", dtype=I64)), NEITHER),
    "expand": (lambda g: g.Expand(image(g, 2, 6, 1, 1), [2, 1, 4, 5]), BOTH),
    "expand to more dims": (lambda g: g.Expand(image(g, 6, 1, 5), [2, 6, 4, 1]), BOTH),
    "expand to fewer dims": (lambda g: g.Expand(image(g, 2, 6, 1, 5), [4, 5]), BOTH),
    "expand not known": (
        lambda g: g.facts(g.Expand(image(g), image(g, 4, name="t", dtype=I64)), F, [2, 6, 4, 5]), NEITHER
    ),
    "cumulative sum": (lambda g: g.CumSum(image(g), np.array(1), reverse=1), BOTH),
    "cumulative sum, a list": (lambda g: g.CumSum(image(g), np.array([-1], np.int32)), BOTH),
    "cumulative sum not known": (lambda g: g.CumSum(image(g), image(g, 1, name="a", dtype=I64)), NEITHER),
    "mean and variance": (lambda g: g.facts(g.MeanVarianceNormalization(image(g)), F, [2, 6, 4, 5]), BOTH),
    "mean and variance of a plane": (
        lambda g: g.facts(g.MeanVarianceNormalization(image(g), axes=[2, 3]), F, [2, 6, 4, 5]), BOTH
    ),
    "norm of all but the batch": (
        lambda g: g.LayerNormalization(image(g), weights(6, 4, 5), weights(6, 4, 5, seed=1), axis=1), BOTH
    ),
    "norm of all but the batch, counted back": (
        lambda g: g.RMSNormalization(image(g), weights(6, 4, 5), axis=-3), BOTH
    ),
    "norm of everything": (lambda g: g.LayerNormalization(image(g), weights(2, 6, 4, 5), axis=0), BOTH),
    "norm of the last": (lambda g: g.LayerNormalization(image(g), weights(5)), NEITHER),
    "norm by a vector": (lambda g: g.LayerNormalization(image(g), weights(5), axis=1), NEITHER),
    "norm by more dims": (lambda g: g.LayerNormalization(image(g), weights(1, 6, 4, 5), axis=1), NEITHER),
    "norm by fewer dims": (lambda g: g.LayerNormalization(image(g), weights(4, 5), axis=1), NEITHER),
    "norm by what is not known": (
        lambda g: g.LayerNormalization(image(g), image(g, 6, 4, 5, name="b"), axis=1), NEITHER
    ),
    "norm with its mean": (
        lambda g: g.LayerNormalization(image(g), weights(6, 4, 5), axis=1, outputs=2)[1], NEITHER
    ),
    "quantize": (lambda g: g.QuantizeLinear(image(g), np.float32(0.1), np.uint8(9)), BOTH),
    "quantize by channel": (
        lambda g: g.QuantizeLinear(image(g), np.linspace(0.1, 0.6, 6, dtype=np.float32), np.arange(6, dtype=np.int8)),
        BOTH,
    ),
    "quantize by column": (
        lambda g: g.QuantizeLinear(image(g), np.linspace(0.1, 0.6, 5, dtype=np.float32), axis=-1), BOTH
    ),
    "quantize by blocks": (
        lambda g: g.QuantizeLinear(
            image(g), np.full((2, 3, 4, 5), 0.1, np.float32), np.zeros((2, 3, 4, 5), np.int8), axis=1, block_size=2
        ), NEITHER,
    ),
    "quantize at run time": (lambda g: g.DynamicQuantizeLinear(image(g), outputs=3)[0], BOTH),
    "squeeze the plane": (lambda g: g.Squeeze(image(g, 2, 6, 1, 1), [2, 3]), BOTH),
    "squeeze a row": (lambda g: g.Squeeze(image(g, 2, 6, 1, 5), [-2]), BOTH),
    "squeeze the channel": (lambda g: g.Squeeze(image(g, 2, 1, 4, 5), [1]), BOTH),
    "squeeze the batch": (lambda g: g.Squeeze(image(g, 1, 6, 4, 5), [0]), NEITHER),
    "squeeze all ones": (lambda g: g.Squeeze(image(g, 2, 6, 1, 5)), BOTH),
    "squeeze all ones of no pictures": (lambda g: g.Squeeze(image(g, 0, 6, 1, 5)), BOTH),
    "squeeze all ones of dims not known": (
        lambda g: g.facts(g.Squeeze(image(g, "n", 6, 1, 5)), F, ["n", 6, 5]), NEITHER
    ),
    "unsqueeze a row": (lambda g: g.Unsqueeze(image(g, 2, 6, 5), [2]), BOTH),
    "unsqueeze a plane": (lambda g: g.Unsqueeze(image(g, 2, 6), [2, -1]), BOTH),
    "unsqueeze the batch": (lambda g: g.Unsqueeze(image(g, 6, 4, 5), [0]), NEITHER),
    "unsqueeze the channel": (lambda g: g.Unsqueeze(image(g, 2, 4, 5), [1]), BOTH),
    "tokens of a plane": (lambda g: g.Reshape(image(g), [2, 6, 20]), LAST),
    "tokens, batch copied": (lambda g: g.Reshape(image(g, None, 6, 4, 5), [0, 6, -1]), LAST),
    "a plane of tokens": (lambda g: g.Reshape(image(g, 2, 20, 6), [2, 4, 5, 6]), FIRST),
    "channels split": (lambda g: g.Reshape(image(g), [2, 3, 8, 5]), FIRST),
    "flat": (lambda g: g.Reshape(image(g), [2, -1]), NEITHER),
    "flat after pooling": (lambda g: g.Reshape(image(g, 2, 6, 1, 1), [2, 6]), BOTH),
    "to a plane of one": (lambda g: g.Reshape(image(g, 2, 6), [2, 6, 1, 1]), BOTH),
    "one row": (lambda g: g.Flatten(image(g, 2, 6, 1, 1)), BOTH),
    "one row, counted back": (lambda g: g.Flatten(image(g, 2, 6, 1, 1), axis=-3), BOTH),
    "rows of the first two": (lambda g: g.Flatten(image(g, 2, 6, 1, 1), axis=2), NEITHER),
    "row of a plane": (lambda g: g.Flatten(image(g)), NEITHER),
    "row of one channel": (lambda g: g.Flatten(image(g, 2, 1, 4, 5)), LAST),
    "shape": (lambda g: g.Shape(image(g)), BOTH),
    "shape from the second": (lambda g: g.Shape(image(g), start=1), BOTH),
    "shape up to the last": (lambda g: g.Shape(image(g), end=-1), BOTH),
    "shape of the plane": (lambda g: g.Shape(image(g), start=-2, end=4), BOTH),
    "number of elements": (lambda g: g.Size(image(g)), BOTH),
}  # fmt: skip


def _form(build: Build, move: Move, table: Mapping[str, Rule] = AGNOSTIC) -> tuple[ir.Node, LayoutForm, ir.Model]:
    g = Graph()
    node = build(g).producer()
    assert node is not None
    for i, y in enumerate(node.outputs):
        g.output(y, f"y{i}")
    return node, form_of(node, move, table), g.model()


@pytest.mark.parametrize("move", [channels_last, channels_first])
@pytest.mark.parametrize("name", CASES)
def test_moved_inputs_give_moved_outputs(name: str, move: Move) -> None:
    build, movable = CASES[name]
    node, form, model = _form(build, move)
    sides = (*form.inputs, *form.outputs)
    assert any(side in (Side.FREE, Side.MOVED) for side in sides) == movable[move is channels_first]
    assert len(form.inputs) == len(node.inputs)
    assert len(form.outputs) == len(node.outputs)
    if not any(side is Side.FREE for side in sides):
        assert set(sides) <= {Side.AS_IS, Side.ANY}
        assert not form.attributes
        assert not form.constants
        return
    _assert_law(node, form, model, move)


@pytest.mark.parametrize("move", [channels_last, channels_first])
@pytest.mark.parametrize("name", CASES)
def test_a_shape_that_is_not_known_is_not_guessed(name: str, move: Move) -> None:
    """Each tensor's shape is forgotten in turn: the node stays unchanged, or its form is still right."""
    build, _ = CASES[name]
    node, _, model = _form(build, move)
    for value in [x for x in (*node.inputs, *node.outputs) if x is not None and x.shape is not None]:
        known, value.shape = value.shape, None
        form = form_of(node, move, AGNOSTIC)
        value.shape = known
        sides = dict(zip((*node.inputs, *node.outputs), (*form.inputs, *form.outputs), strict=True))
        assert sides[value] not in (Side.FREE, Side.MOVED)
        if Side.FREE in sides.values():
            _assert_law(node, form, model, move)


def _assert_law(node: ir.Node, form: LayoutForm, model: ir.Model, move: Move) -> None:
    arrays = _arrays(node)
    given = {v.name: a for v, a in arrays.items() if v.is_graph_input()}
    before = _session(ir.to_proto(model)).run(None, given)
    single, feeds = _moved_node(node, form, arrays, move)
    after = _session(single).run(None, feeds)
    for want, got, side in zip(before, after, form.outputs, strict=True):
        if form.gather is not None:
            got = got[list(form.gather)]
        want = want.transpose(move(want.ndim)) if side is Side.FREE else want
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def _arrays(node: ir.Node) -> dict[ir.Value, np.ndarray]:
    """Return content for every input of the node: its constant, or random values (integers are 0 or 1)."""
    draw, found = np.random.default_rng(0), {}
    for x in node.inputs:
        if x is None:
            continue
        if x.const_value is not None:
            found[x] = x.const_value.numpy()
            continue
        shape = [d if isinstance(d, int) else 3 for d in x.shape or ()]
        drawn = draw.standard_normal(shape) if x.dtype == F else draw.random(shape) > 0.5
        found[x] = drawn.astype(ir.DataType.numpy(x.dtype or F))
        if str(x.name) == "e":  # `e` is the end of a slice
            found[x] = found[x] + 2
    return found


def _moved_node(
    node: ir.Node, form: LayoutForm, arrays: Mapping[ir.Value, np.ndarray], move: Move
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model of the changed node alone, and its inputs; inputs on sides that may move are moved."""
    full = len(node.outputs[0].shape or ())
    feeds: dict[str, np.ndarray] = {}
    names = []
    for i in range(max(len(node.inputs), *(n + 1 for n in form.constants), 0)):
        value = node.inputs[i] if i < len(node.inputs) else None
        if i in form.constants:
            array = np.asarray(form.constants[i])
        elif value is None:
            names.append("")
            continue
        else:
            array = arrays[value]
            if form.inputs[i] is Side.FREE:
                array = array.transpose(move(array.ndim))
            elif form.inputs[i] is Side.BROADCAST:
                array = array.reshape([1] * (full - array.ndim) + list(array.shape)).transpose(move(full))
        names.append(f"i{i}")
        feeds[names[-1]] = np.ascontiguousarray(array) if array.ndim else array
    attributes = {a.name: a for a in node.attributes.values()} | {a.name: a for a in form.attributes}
    made = onnx.helper.make_node(node.op_type, names, [f"o{i}" for i in range(len(node.outputs))])
    made.attribute.extend(ir.to_proto(a) for a in attributes.values())
    ends = [onnx.helper.make_tensor_value_info(k, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for k, a in feeds.items()]  # fmt: skip
    outputs = [onnx.helper.make_empty_tensor_value_info(o) for o in made.output]
    graph = onnx.helper.make_graph([made], "single", ends, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10), feeds


def _session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
