"""The float64 twin: the reference executor against ONNX's expected outputs and onnxruntime, and what widening does."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from convert.errors import ConvertError, Unsupported, UsageError
from convert.graph import Graph
from convert.options import Options
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from convert.runners import onnx as runner
from convert.source import Source
from tests.support.onnx_support import INT64, array, assert_same, data_of, info, model, node_tests, read, run_ort

# Where ONNX's expected output and onnxruntime disagree (align_corners with a scale that gives no whole size), the
# executor follows onnxruntime and the text of the specification.
DISPUTED = {"test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"}

# Their expected outputs are published with four decimals.
ROUNDED = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad",
    "test_roialign_aligned_false",
    "test_roialign_aligned_true",
    "test_roialign_mode_max",
}

# An optional that holds a sequence is compared by value elsewhere.
OTHER = {"test_if_opt"}

# Piecewise constant operators: a small change of the input gives none or a jump.
STEPS = [
    "argm",
    "bernoulli",
    "cast",
    "ceil",
    "clip",
    "compare",
    "equal",
    "floor",
    "greater",
    "hardmax",
    "isinf",
    "isnan",
    "less",
    "nonmax",
    "nonzero",
    "onehot",
    "one_hot",
    "quantize",
    "round",
    "sign",
    "unique",
    "thresholdedrelu",
    "topk",
    "top_k",
    "where",
    "binarizer",
    "label",
    "tree",
    "nearest",
    "acosh",
    "large_number",
    "mod",
]

OURS = (
    "averagepool",
    "batchnorm",
    "basic_conv",
    "basic_deform",
    "conv_",
    "convtranspose",
    "einsum",
    "gelu",
    "gemm",
    "globala",
    "globalm",
    "gridsample",
    "group_norm",
    "gru",
    "instancenorm",
    "layer_norm",
    "lppool",
    "lrn",
    "lstm",
    "matmul",
    "maxpool",
    "mish",
    "mvn",
    "resize",
    "rms_norm",
    "rnn",
    "selu",
    "simple_rnn",
    "softmax",
    "softplus",
    "affine_grid",
    "loop",
    "scan",
    "if",
    "range",
    "erf",
    "l1norm",
    "l2norm",
    "dropout",
    "reduce_log_sum_exp",
    "celu",
    "elu",
    "hard",
)


def ours(name: str) -> bool:
    return any(name.removeprefix("test_").startswith(o) for o in OURS) and "uint2" not in name


KERNELS = sorted(n for n in node_tests() if ours(n))
OTHERS = sorted(n for n in node_tests() if not ours(n))[::8]


@pytest.mark.parametrize("group", range(8))
def test_expected_outputs_of_node_tests(group: int) -> None:
    """Every node test of an operator with a kernel of ours, and a sample of the rest."""
    ran = 0
    for name in [*KERNELS, *OTHERS][group::8]:
        if name in DISPUTED | OTHER:
            continue
        case = node_tests()[name]
        inputs, outputs = data_of(case)
        try:
            shared = read(case.model)
            got = run(shared, dict(zip([v.name for v in shared.graph.inputs], inputs, strict=True)))
        except Unsupported as error:
            assert str(error), name  # noqa: PT017
            continue
        for value, wanted in zip(got.values(), outputs, strict=True):
            assert_same(value, wanted, 5e-4 if name in ROUNDED else 2e-5)
        ran += 1
    assert ran > 50


@pytest.mark.parametrize("group", range(4))
def test_nothing_rounds_to_float32(group: int) -> None:
    """A change of 1e-10 in the inputs changes the widened outputs, and by no more than a float32 step would."""
    ran = 0
    rng = np.random.default_rng(group)
    for name in [n for n in [*KERNELS, *OTHERS][group::4] if not any(s in n for s in STEPS)]:
        case = node_tests()[name]
        inputs, outputs = data_of(case)
        if not any(isinstance(o, np.ndarray) and o.dtype.kind == "f" and o.size for o in outputs):
            continue
        try:
            twin = widen_model(read(case.model))
        except Unsupported:
            continue
        feeds = dict(zip([v.name for v in twin.graph.inputs], inputs, strict=True))
        floating = [n for n, v in feeds.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f" and v.size]
        if not floating:
            continue
        wide = {n: v.astype(np.float64) if n in floating else v for n, v in feeds.items()}
        moved = {n: v * (1 + 1e-10 * rng.uniform(0.5, 1, v.shape)) if n in floating else v for n, v in wide.items()}
        try:
            one, two = run(twin, wide), run(twin, moved)
        except Unsupported:
            continue
        moves = []
        for a, b in zip(one.values(), two.values(), strict=True):
            if isinstance(a, np.ndarray) and a.dtype.kind == "f" and np.isfinite(a).all() and a.any():
                assert a.dtype == np.float64, name
                moves.append(np.abs(a - b).max() / np.abs(a).max())
        assert not moves or (max(moves) > 0 and max(moves) < 1e-8), (name, moves)
        ran += 1
    assert ran > 40


def ort_case(nodes: list[onnx.NodeProto], feeds: dict[str, np.ndarray], constants: list[onnx.TensorProto]) -> None:
    inputs = [info(n, v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for n, v in feeds.items()]
    proto = model(nodes, inputs, [info("y", None)], constants)
    assert_same(run(read(proto), feeds)["y"], run_ort(proto, feeds)[0], 2e-5)


RNG = np.random.default_rng(3)
IMAGE = RNG.normal(size=(2, 6, 11, 9)).astype(np.float32)


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [1, 0, 2, 1]},
        {"strides": [2, 3]},
        {"dilations": [2, 1], "pads": [2, 1, 2, 1]},
        {"group": 2},
        {"group": 6},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
        {"auto_pad": "VALID"},
    ],
)
def test_conv(attributes: dict[str, Any]) -> None:
    group = attributes.get("group", 1)
    w = array("w", RNG.normal(size=(12, 6 // group, 3, 2)))
    b = array("b", RNG.normal(size=12))
    ort_case([helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], {"x": IMAGE}, [w, b])


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3]},
        {"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 1]},
        {"group": 3},
        {"dilations": [2, 2], "strides": [3, 1]},
        {"strides": [3, 2], "output_shape": [33, 18]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ],
)
def test_conv_transpose(attributes: dict[str, Any]) -> None:
    w = array("w", RNG.normal(size=(6, 4, 3, 3)))
    ort_case([helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)], {"x": IMAGE}, [w])


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2], "ceil_mode": 1},
        {"pads": [1, 1, 0, 1], "strides": [2, 2]},
        {"pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1},
        {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
        {"dilations": [2, 1]},
    ],
)
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "AveragePool pad"])
def test_pools(operator: str, attributes: dict[str, Any]) -> None:
    more = {"count_include_pad": 1} if "pad" in operator else {}
    node = helper.make_node(operator.split()[0], ["x"], ["y"], kernel_shape=[3, 3], **attributes, **more)
    ort_case([node], {"x": IMAGE}, [])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("sizes", [[2, 6, 22, 20], [2, 6, 7, 5]])
def test_resize(mode: str, coordinates: str, sizes: list[int]) -> None:
    node = helper.make_node(
        "Resize",
        ["x", "", "", "s"],
        ["y"],
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor" if coordinates == "asymmetric" else "round_prefer_floor",
    )
    ort_case([node], {"x": IMAGE}, [array("s", sizes, np.int64)])


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "GRU after", "LSTM", "LSTM peepholes"])
def test_recurrent(operator: str, direction: str) -> None:
    kind, gates = operator.split()[0], {"RNN": 1, "GRU": 3, "LSTM": 4}[operator.split()[0]]
    directions, hidden = 2 if direction == "bidirectional" else 1, 5
    constants = [
        array("w", RNG.normal(size=(directions, gates * hidden, 4))),
        array("r", RNG.normal(size=(directions, gates * hidden, hidden))),
        array("b", RNG.normal(size=(directions, 2 * gates * hidden))),
        array("n", [7, 3, 5], np.int32),
        array("h", RNG.normal(size=(directions, 3, hidden))),
    ]
    names = ["x", "w", "r", "b", "n", "h"]
    attributes: dict[str, Any] = {"linear_before_reset": 1} if "after" in operator else {}
    if "peepholes" in operator:
        constants += [
            array("c", RNG.normal(size=(directions, 3, hidden))),
            array("p", RNG.normal(size=(directions, 3 * hidden))),
        ]
        names += ["c", "p"]
    node = helper.make_node(kind, names, ["y"], hidden_size=hidden, direction=direction, **attributes)
    ort_case([node], {"x": RNG.normal(size=(7, 3, 4)).astype(np.float32)}, constants)


# -- widening ---------------------------------------------------------------------------------------------------------


def test_gather_elements_along_an_axis_of_many() -> None:
    indices = array("i", RNG.integers(-70, 70, (2, 9)), np.int64)
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    ort_case([node], {"x": RNG.normal(size=(2, 70)).astype(np.float32)}, [indices])


def test_widening_reaches_everything() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["c"], value_float=0.1),
            helper.make_node("Cast", ["c"], ["half"], to=onnx.TensorProto.FLOAT16),
            helper.make_node("Cast", ["half"], ["back"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", ["h", "back"], ["out"]),
            helper.make_node("Cast", ["out"], ["count"], to=INT64),
            helper.make_node("Identity", ["go"], ["again"]),
        ],
        "body",
        [info("i", [], INT64), info("go", [], onnx.TensorProto.BOOL), info("h", [2])],
        [info("again", [], onnx.TensorProto.BOOL), info("out", [2]), info("count", [2], INT64)],
    )
    nodes = [
        helper.make_node("ConstantOfShape", ["two"], ["zeros"]),
        helper.make_node("Add", ["x", "zeros"], ["h0"]),
        helper.make_node("Loop", ["trips", "", "h0"], ["y", "counts"], body=body),
    ]
    proto = model(
        nodes,
        [info("x", [2])],
        [info("y", [2]), info("counts", [3, 2], INT64)],
        [array("two", [2], np.int64), array("trips", 3, np.int64)],
    )
    shared = read(proto)
    twin = widen_model(shared)
    x = np.array([1000.0, -2000.0], np.float32)
    got = run(twin, {"x": x})
    assert got["y"].dtype == np.float64
    assert got["counts"].dtype == np.int64
    factor = float(np.float32(0.1))  # the file holds a float32
    np.testing.assert_allclose(got["y"], x.astype(np.float64) * factor**3, rtol=1e-14)
    assert got["counts"].tolist() == [[100, -200], [10, -20], [1, -2]]
    narrow = run(shared, {"x": x})
    assert narrow["y"].dtype == np.float32
    assert {v.dtype for v in shared.graph.outputs} == {ir.DataType.FLOAT, ir.DataType.INT64}
    dtypes = {o.dtype for graph in twin.graphs() for n in graph for o in n.outputs}
    assert not dtypes & {ir.DataType.FLOAT, ir.DataType.FLOAT16}


def test_numbers_of_the_source_are_not_rounded_in_the_twin() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [3])
    g.output(g.LeakyRelu(g.Mul(x, 0.1), alpha=0.3), "y")
    x64 = np.array([-1.0, 2.0, -3.0])
    got = run(widen_model(g.model()), {"x": x64})["y"]
    np.testing.assert_allclose(got, np.where(x64 > 0, x64 * 0.1, x64 * 0.1 * 0.3), rtol=1e-15)


def test_defaults_are_the_decimals_that_they_are_written_as() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [1])
    g.output(g.LeakyRelu(x), "a")
    g.output(g.HardSigmoid(x), "b")
    got = run(widen_model(g.model()), {"x": np.array([-1.0])})
    assert got["a"] == [-0.01]
    assert got["b"] == [0.3]


def test_quantisation_keeps_its_integers() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    proto = model(
        nodes,
        [info("x", [64])],
        [info("q", [64], onnx.TensorProto.UINT8), info("y", [64])],
        [array("s", 0.037), array("z", 128, np.uint8)],
    )
    x = RNG.normal(size=64).astype(np.float32)
    got = run(widen_model(read(proto)), {"x": x})
    wanted = run_ort(proto, {"x": x})
    assert got["q"].dtype == np.uint8
    assert np.array_equal(got["q"], wanted[0])
    assert got["y"].dtype == np.float64
    np.testing.assert_allclose(got["y"], wanted[1], rtol=1e-6)


# -- the executor -----------------------------------------------------------------------------------------------------


def chain(length: int) -> Graph:
    g = Graph()
    value = g.input("x", ir.DataType.DOUBLE, ["n"])
    for _ in range(length):
        value = g.Neg(value)
    g.output(value, "y")
    return g


def test_values_are_freed_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    from convert.reference import executor

    alive: list[weakref.ref[Any]] = []
    most = 0
    store = executor.Executor._store

    def counted(self: Any, value: ir.Value, content: Any) -> None:
        nonlocal most
        store(self, value, content)
        alive.append(weakref.ref(content))
        most = max(most, sum(r() is not None for r in alive))

    monkeypatch.setattr(executor.Executor, "_store", counted)
    run(chain(20).model(), {"x": np.ones(1000)})
    assert len(alive) == 21
    # The feed itself, the value that is read and the one that is made.
    assert most <= 3


def test_any_value_can_be_asked_for() -> None:
    shared = chain(3).model()
    names = [n.outputs[0].name for n in shared.graph]
    x = np.arange(3.0)
    assert list(run(shared, {"x": x}, outputs=[names[1], names[0]])) == [names[1], names[0]]
    everything = run(shared, {"x": x}, every=True)
    assert set(everything) == {"x", *names}
    assert np.array_equal(everything[names[0]], -x)
    with pytest.raises(UsageError):
        run(shared, {"x": x}, outputs=["absent"])


def test_wrong_inputs_and_operators_without_kernel() -> None:
    shared = chain(1).model()
    for feeds in ({}, {"x": np.ones(1), "z": np.ones(1)}):
        with pytest.raises(UsageError):
            run(shared, feeds)
    proto = model(
        [helper.make_node("Magic", ["x"], ["y"], domain="mine", name="here")],
        [info("x", [2])],
        [info("y", [2])],
        domains=["mine"],
    )
    with pytest.raises(Unsupported, match=r"mine::Magic.*here"):
        run(read(proto), {"x": np.ones(2, np.float32)})
    for operator in ("RandomNormalLike", "Bernoulli"):
        proto = model([helper.make_node(operator, ["x"], ["y"])], [info("x", [2])], [info("y", [2])])
        with pytest.raises(Unsupported, match="random"):
            run(read(proto), {"x": np.ones(2, np.float32)})


def test_a_failing_node_is_named() -> None:
    proto = model(
        [helper.make_node("MatMul", ["x", "x"], ["y"], name="product")], [info("x", ["a", "b"])], [info("y", None)]
    )
    with pytest.raises(ConvertError, match=r"MatMul, node 'product'.*mismatch"):
        run(read(proto), {"x": np.ones((2, 3), np.float32)})


# -- the runner -------------------------------------------------------------------------------------------------------


def matmul() -> onnx.ModelProto:
    w = array("w", np.random.default_rng(0).normal(size=(2000, 3)))
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", ["n", 2000])], [info("y", ["n", 3])], [w])


def test_runner_in_both_precisions(tmp_path: Any) -> None:
    proto = matmul()
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    x = RNG.normal(size=(4, 2000)).astype(np.float32)
    exact = x.astype(np.float64) @ onnx.numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float64)
    for source in (Source("onnx", path), Source("onnx-object", model=proto), Source("onnx-object", model=read(proto))):
        (single,) = runner.run(source, [{"x": x}], precision="float32", options=Options())
        (double,) = runner.run(source, [{"x": x}], precision="float64", options=Options())
        assert single["y"].dtype == np.float32
        assert double["y"].dtype == np.float64
        np.testing.assert_allclose(double["y"], exact, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(single["y"], exact, rtol=1e-3, atol=1e-3)
    assert runner.available() == ""


def test_runner_says_why_a_model_does_not_load() -> None:
    proto = model(
        [helper.make_node("Magic", ["x"], ["y"], domain="mine")], [info("x", [2])], [info("y", [2])], domains=["mine"]
    )
    with pytest.raises(ConvertError, match=r"onnxruntime does not load.*Magic"):
        runner.run(Source("onnx-object", model=proto), [{"x": np.ones(2)}], precision="float32", options=Options())
    with pytest.raises(UsageError, match="no input 'z'"):
        runner.run(Source("onnx-object", model=matmul()), [{"z": np.ones(2)}], precision="float32", options=Options())
