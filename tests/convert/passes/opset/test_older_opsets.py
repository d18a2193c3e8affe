"""Operators that an older opset lacks are written out: onnxruntime computes the same as for the newest opset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from convert.errors import Unsupported
from convert.graph import Graph
from convert.passes.opset.convert import convert_opset

T = ir.DataType
RNG = np.random.default_rng(11)
Build = Callable[..., Any]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def answers(model: ir.Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    proto = ir.serde.serialize_model(model)
    proto.ir_version = 8
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)  # type: ignore[no-any-return]


CASES: list[tuple[str, list[np.ndarray], Build, tuple[int, ...]]] = []
"""Rows: name, inputs, the function that builds the graph, and the opsets to which it is lowered from opset 22."""


def case(name: str, inputs: list[np.ndarray], build: Build, *opsets: int) -> None:
    CASES.append((name, inputs, build, opsets))


for what, back in {
    "Flatten": lambda g, x: g.Flatten(x, axis=-2),
    "Flatten to a column": lambda g, x: g.Flatten(x, axis=3),
    "ArgMax": lambda g, x: g.ArgMax(x, axis=-2),
    "ArgMin": lambda g, x: g.ArgMin(x, axis=-1, keepdims=0),
    "Compress": lambda g, x: g.Compress(x, np.array([True, False, True]), axis=-2),
    "Concat": lambda g, x: g.Concat(x, x, axis=-3),
    "OneHot": lambda g, x: g.OneHot(g.ArgMax(x, axis=1), np.array([5]), np.array([0, 1], np.float32), axis=-2),
    "Split": lambda g, x: g.Split(x, np.array([1, 2]), axis=-2, outputs=2)[0],
}.items():
    case(
        f"{what}, counted from the end",
        [normal(2, 3, 4)],
        back,
        *((9, 10) if what in ("Compress", "OneHot") else (7, 10)),
    )
PLACES = np.array([[1], [3], [1], [0], [1], [3]])
ROWS = normal(6, 3)
for how in ("add", "mul", "max", "min"):
    case(
        f"ScatterND {how}",
        [normal(4, 3), PLACES, ROWS],
        lambda g, x, i, u, how=how: g.ScatterND(x, i, u, reduction=how),
        *(11, 13, 16),
    )
    case(
        f"ScatterElements {how}",
        [normal(4, 3), RNG.integers(-4, 4, (6, 2)), normal(6, 2)],
        lambda g, x, i, u, how=how: g.ScatterElements(x, i, u, axis=0, reduction=how),
        *(11, 16),
    )
case(
    "ScatterND add at constant places",
    [normal(4, 3), normal(2, 3)],
    lambda g, x, u: g.ScatterND(x, np.array([[2], [0]]), u, reduction="add"),
    11,
)
case(
    "ScatterND add at one place, counted from both ends",
    [normal(3, 3), normal(2, 3)],
    lambda g, x, u: g.ScatterND(x, np.array([[2], [-1]]), u, reduction="add"),
    11,
)
for mode, edge, corners in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
    case(
        f"GridSample {mode} {edge} {corners}",
        [normal(2, 3, 4, 5), RNG.uniform(-1.7, 1.7, (2, 6, 7, 2)).astype(np.float32)],
        lambda g, x, p, m=mode, e=edge, c=corners: g.GridSample(x, p, mode=m, padding_mode=e, align_corners=c),
        11,
    )
case(
    "GridSample of volumes",
    [normal(1, 2, 3, 4, 5), RNG.uniform(-1.2, 1.2, (1, 2, 3, 4, 3)).astype(np.float32)],
    lambda g, x, p: g.GridSample(x, p, mode="linear"),
    *(16, 18),
)
for mode in ("linear", "cubic"):
    case(
        f"Resize {mode} antialias",
        [normal(1, 2, 9, 8)],
        lambda g, x, m=mode: g.Resize(x, None, None, np.array([1, 2, 4, 5]), mode=m, antialias=1),
        *(9, 13),
    )
case("Resize nearest", [normal(1, 2, 3, 4)], lambda g, x: g.Resize(x, None, np.float32([1, 1, 2, 3])), *(7, 9, 10))
case("Resize linear", [normal(1, 2, 3, 4)], lambda g, x: g.Resize(x, None, np.float32([1, 1, 2, 0.5]), mode="linear"),
     *(7, 10))  # fmt: skip
case("Resize symmetric", [normal(1, 2, 7, 8)],
     lambda g, x: g.Resize(x, None, np.float32([1, 1, 0.6, 0.7]), mode="linear",
                           coordinate_transformation_mode="half_pixel_symmetric"), 13)  # fmt: skip
for kind in (np.int8, np.uint8, np.int32, np.uint64, np.int64):
    ends = np.iinfo(kind)
    pair = [RNG.integers(ends.min, ends.max, 20, dtype=kind, endpoint=True) for _ in range(2)]
    pair = [np.concatenate([x, np.array([ends.min, ends.max, 0], kind)]) for x in pair]
    for operator in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        case(f"{operator} {kind.__name__}", pair, lambda g, a, b, o=operator: g.node(o, [a, b]), *(9, 13))
    case(f"BitwiseNot {kind.__name__}", pair[:1], lambda g, a: g.BitwiseNot(a), 13)
case("CenterCropPad", [normal(5, 6, 7)], lambda g, x: g.CenterCropPad(x, np.array([3, 9]), axes=[0, 2]), *(9, 13))
case(
    "Col2Im",
    [normal(2, 12, 6)],
    lambda g, x: g.Col2Im(x, np.array([5, 6]), np.array([2, 3]), strides=[2, 2], pads=[0, 1, 0, 1]),
    *(11, 13),
)
case("ArgMax, the last", [np.float32([[1, 3, 3], [2, 2, 0]])],
     lambda g, x: g.ArgMax(x, axis=1, select_last_index=1, keepdims=0), *(10, 11))  # fmt: skip
case("Equal", [np.float32([1, np.nan, np.inf, -0.0]), np.float32([1, np.nan, np.inf, 0.0])],
     lambda g, a, b: g.Equal(a, b), *(7, 9))  # fmt: skip
case("Add of int8", [np.int8([100, -100, 3]), np.int8([100, -100, 4])], lambda g, a, b: g.Add(a, b), *(7, 13))
case("Where of an int8 product", [np.int8([100, -7]), np.int8([100, 4])],
     lambda g, a, b: g.Where(g.Less(a, b), g.Mul(a, b), b), *(9, 13))  # fmt: skip
case(
    "Slice back",
    [normal(5, 6)],
    lambda g, x: g.Slice(x, np.array([-1, 4]), np.array([-9, 0]), np.array([0, 1]), np.array([-2, -1])),
    *(7, 9),
)
case("LayerNormalization of float64", [normal(3, 6).astype(np.float64) + 1000],
     lambda g, x: g.LayerNormalization(x, np.linspace(1, 2, 6), outputs=3)[0], *(13, 16))  # fmt: skip
case("Slice", [normal(5, 6)], lambda g, x: g.Slice(x, np.array([1]), np.array([-1]), np.array([-1])), *(7, 9))
case("Clip", [normal(9)], lambda g, x: g.Clip(x, np.float32(-0.5), np.float32(0.5)), *(7, 9))
case("Clip by crossed bounds", [normal(9)], lambda g, x: g.Clip(x, np.float32(0.5), np.float32(-0.5)), *(7, 9))
case("Clip by computed bounds", [normal(9), np.float32(-0.3)], lambda g, x, low: g.Clip(x, low, None), *(8, 9))
case("Slice back from before the first", [normal(5, 6)],
     lambda g, x: g.Slice(x, np.array([-9, -8]), np.array([-99, 1]), np.array([0, 1]), np.array([-1, 1])),
     *(7, 9))  # fmt: skip
for operator in ("Max", "Min", "Sum", "Mean"):
    case(f"{operator} that broadcasts", [normal(2, 3), normal(3), normal(2, 1), normal()],
         lambda g, *xs, o=operator: g.node(o, xs), *(7, 8))  # fmt: skip
case("Max of integers and a number", [RNG.integers(-5, 5, (2, 3), dtype=np.int8)],
     lambda g, x: g.Max(x, np.int8(1)), *(7, 8))  # fmt: skip
case("Clip by bounds that broadcast", [normal(9), np.float32(-0.3), np.float32(0.4)],
     lambda g, x, low, high: g.Clip(x, low, high), *(7, 10))  # fmt: skip
case("Pad", [normal(2, 3)], lambda g, x: g.Pad(x, np.array([1, 2]), np.float32(3), np.array([-1])), *(7, 9))
case("the smallest", [normal(3, 5)], lambda g, x: g.TopK(x, np.array([2]), largest=0, outputs=2), *(7, 9, 10))
case("Gemm without a sum", [normal(2, 3), normal(3, 4)], lambda g, a, b: g.Gemm(a, b), *(7, 9))
case("DepthToSpace CRD", [normal(2, 8, 2, 3)], lambda g, x: g.DepthToSpace(x, blocksize=2, mode="CRD"), *(7, 9))
case("Squeeze and Unsqueeze", [normal(2, 1, 3)],
     lambda g, x: g.Unsqueeze(g.Squeeze(x, np.array([-2])), np.array([-1, 0])), *(7, 9))  # fmt: skip
case("MaxPool", [normal(1, 2, 6, 6)], lambda g, x: g.MaxPool(x, kernel_shape=[2, 2], dilations=[1, 1]), *(7, 9))
case(
    "MaxPool with every attribute",
    [normal(1, 2, 6, 6)],
    lambda g, x: g.MaxPool(
        x, kernel_shape=[2, 2], dilations=[1, 1], storage_order=0, ceil_mode=0, strides=[2, 2], auto_pad="NOTSET"
    ),
    *(7, 9),
)
ERRORS = np.concatenate([np.linspace(-6, 6, 401), 10.0 ** np.arange(-30, 0), [np.inf, -np.inf, np.nan, 0]])
for kind in (np.float32, np.float16):
    case(f"Erf {kind.__name__}", [ERRORS.astype(kind)], lambda g, x: g.Erf(x), *(7, 8))
for upper in (0, 1):
    for k in (-1, -(2**63), 2**63 - 1):
        case(f"Trilu {k} {upper}", [normal(2, 3, 4)],
             lambda g, x, k=k, upper=upper: g.Trilu(x, np.int64(k), upper=upper), *(11, 13))  # fmt: skip
case("ConstantOfShape", [normal(2, 3)], lambda g, x: g.Mul(g.ConstantOfShape(g.Shape(x)), x), *(7, 8))
case("ConstantOfShape of integers", [np.array([4, 2])],
     lambda g, shape: g.ConstantOfShape(shape, value=ir.tensor([7])), *(7, 8))  # fmt: skip

SLOW = ("GridSample cubic", "GridSample of volumes")
"""Beginnings of the names of slow rows."""


case(
    "Reshape with allowzero of as many as a condition leaves",
    [normal(2, 6), np.array([3, 1, 2]), np.array([False, True])],
    lambda g, x, shape, kept: g.Reshape(g.Compress(x, kept, axis=0), shape, allowzero=1),
    *(9, 13),
)
for what, given, wanted in (
    ("", (2, 6), [3, 4]),
    (", a dim left open", (2, 6), [3, -1]),
    (" of nothing", (2, 0), [0, 5, 0]),
    (" of nothing, a dim left open", (3, 0), [-1, 5]),
):
    case(
        f"Reshape with allowzero{what}",
        [normal(*given), np.array(wanted)],
        lambda g, x, shape: g.Reshape(x, shape, allowzero=1),
        *(7, 13),
    )


@pytest.mark.parametrize(
    "row",
    [pytest.param(r, id=r[0], marks=pytest.mark.slow if r[0].startswith(SLOW) else ()) for r in CASES],
)
def test_lowered(row: tuple[str, list[np.ndarray], Build, tuple[int, ...]]) -> None:
    _, inputs, build, opsets = row
    feeds = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs)}

    def model() -> ir.Model:
        g = Graph(opset=22)
        made = build(g, *(g.input(n, ir.DataType.from_numpy(x.dtype), x.shape) for n, x in feeds.items()))
        for y in made if isinstance(made, list) else [made]:
            g.output(y)
        return g.model()

    wanted = answers(model(), feeds)
    for opset in opsets:
        lowered = model()
        convert_opset(lowered, opset)
        for got, want in zip(answers(lowered, feeds), wanted, strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("operator", ["ArgMax", "Concat", "Flatten"])
def test_no_axis_is_counted_from_the_end_before_opset_11(operator: str) -> None:
    """The specifications allow negative axes from opset 11 on; that onnxruntime takes most of them earlier does not
    help other readers.
    """
    g = Graph(opset=22)
    x = g.input("x", T.FLOAT, (2, 3, 4))
    g.output(g.node(operator, [x, x] if operator == "Concat" else [x], {"axis": -1}))
    model = g.model()
    convert_opset(model, 10)
    assert [n.attributes.get_int("axis") for n in model.graph] == [2]


def test_batch_first_before_opset_14() -> None:
    """onnxruntime has no kernel for layout=1, so compare with the same weights and the steps first."""
    x, weights = normal(3, 5, 4), (normal(1, 24, 4), normal(1, 24, 6))

    def model(layout: int) -> ir.Model:
        g = Graph(opset=22)
        shape = x.shape if layout else (5, 3, 4)
        for y in g.LSTM(g.input("x", T.FLOAT, shape), *weights, hidden_size=6, layout=layout, outputs=3):
            g.output(y)
        return g.model()

    wanted = answers(model(0), {"x": x.transpose(1, 0, 2)})
    lowered = model(1)
    convert_opset(lowered, 13)
    orders = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))
    for got, want, order in zip(answers(lowered, {"x": x}), wanted, orders, strict=True):
        np.testing.assert_allclose(got, want.transpose(order), rtol=1e-6)


def test_erf_before_opset_9() -> None:
    """The error is at most 7 units in the last place (onnxruntime's own kernel: 1), and no result is above 1."""
    g = Graph(opset=22)
    x = np.concatenate([np.linspace(-5, 5, 20001), 10.0 ** np.linspace(-30, 0, 301)]).astype(np.float32)
    g.output(g.Erf(g.input("x", T.FLOAT, x.shape)))
    model = g.model()
    convert_opset(model, 8)
    (got,) = answers(model, {"x": x})
    true = np.array([math.erf(v) for v in x.tolist()])
    assert (np.abs(got - true) <= 7 * np.spacing(np.abs(true).astype(np.float32))).all()
    assert np.abs(got).max() == 1


@pytest.mark.parametrize("operator", ["Max", "Sum"])
def test_a_dynamic_dim_broadcasts_before_opset_8(operator: str) -> None:
    """The dims are known at run time, on each side: a shared name, a name that is broadcast, and a number."""

    def model() -> ir.Model:
        g = Graph(opset=22)
        shapes = {"x": ("n", 3, 1), "b": ("m",), "c": ("n", 1, 4)}
        g.output(g.node(operator, [g.input(n, T.FLOAT, shape) for n, shape in shapes.items()]))
        return g.model()

    lowered = model()
    convert_opset(lowered, 7)
    for m in (1, 4):
        feeds = {"x": normal(2, 3, 1), "b": normal(m), "c": normal(2, 1, 4)}
        np.testing.assert_array_equal(answers(lowered, feeds)[0], answers(model(), feeds)[0])


def test_norms_of_float64_keep_its_digits() -> None:
    """ONNX's function bodies round to float32, the default of `stash_type`."""
    x = normal(2, 4, 3).astype(np.float64) + 1000
    g = Graph(opset=23)
    value = g.input("x", T.DOUBLE, x.shape)
    g.output(g.GroupNormalization(value, np.ones(4), np.zeros(4), num_groups=2, epsilon=1e-5))
    g.output(g.RMSNormalization(value, np.ones(3), epsilon=1e-5))
    model = g.model()
    convert_opset(model, 20)
    grouped = x.reshape(2, 2, 6)
    centred = grouped - grouped.mean(-1, keepdims=True)
    normal_rows = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-5)
    by_power = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-5)
    for got, want in zip(answers(model, {"x": x}), (normal_rows.reshape(x.shape), by_power), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "by head"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("dim", [0, 4])
@pytest.mark.parametrize("opset", [22, 13, 11])
def test_rotary_embedding_by_constant_tables(opset: int, dim: int, interleaved: int, flat: bool) -> None:
    angles = np.arange(9.0, dtype=np.float32)[:, None] / 2.0 ** np.arange((dim or 8) // 2, dtype=np.float32)
    places = np.array([[0, 2, 1], [8, 2, 0]])
    x = normal(2, 3, 16) if flat else normal(2, 2, 3, 8)
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": dim, "num_heads": 2}

    def model() -> ir.Model:
        g = Graph(opset=23)
        value = g.input("x", T.FLOAT, ("batch", *x.shape[1:]))
        g.output(g.RotaryEmbedding(value, np.cos(angles), np.sin(angles), places, **attributes))
        return g.model()

    lowered = model()
    convert_opset(lowered, opset)
    (want,) = ReferenceEvaluator(ir.serde.serialize_model(model())).run(None, {"x": x})
    np.testing.assert_allclose(answers(lowered, {"x": x})[0], want, rtol=1e-5, atol=1e-6)


def test_a_function_that_depends_on_the_types_of_constants() -> None:
    """This is ONNX's body of RotaryEmbedding, for a head size that is known at run time only."""
    g = Graph(opset=23)
    x = g.input("x", T.FLOAT, (2, 2, 3, "size"))
    g.output(
        g.RotaryEmbedding(x, np.ones((3, 2), np.float32), np.zeros((3, 2), np.float32), np.zeros((2, 3), np.int64))
    )
    model = g.model()
    convert_opset(model, 20)
    x = normal(2, 2, 3, 4)
    np.testing.assert_array_equal(answers(model, {"x": x})[0], x)


def test_a_convolution_of_bfloat16_needs_no_bias() -> None:
    """Before opset 22, the convolution is written between casts. Missing inputs get no cast."""
    pixels = RNG.integers(-3, 4, (1, 2, 5, 5)).astype(np.float32)

    def model(dtype: ir.DataType) -> ir.Model:
        g = Graph(opset=22)
        x, kernel = g.Cast(g.input("x", T.FLOAT, pixels.shape), to=dtype), g.const(np.ones((3, 2, 2, 2)), dtype)
        g.output(g.Cast(g.Conv(x, kernel), to=T.FLOAT))
        return g.model()

    lowered = model(T.BFLOAT16)
    convert_opset(lowered, 20)
    np.testing.assert_array_equal(answers(lowered, {"x": pixels})[0], answers(model(T.FLOAT), {"x": pixels})[0])


def test_a_value_that_came_later_is_refused() -> None:
    g = Graph(opset=22)
    g.output(g.Pad(g.input("x", T.FLOAT, (5,)), np.array([2, 2]), mode="wrap"))
    for opset in (18, 13, 9):
        with pytest.raises(Unsupported, match="wrap"):
            convert_opset(g.model().clone(), opset)


def test_erf_of_float64_is_refused_before_opset_9() -> None:
    g = Graph(opset=22)
    g.output(g.Erf(g.input("x", T.DOUBLE, (3,))))
    with pytest.raises(Unsupported, match="opset 8 cannot express it for float64"):
        convert_opset(g.model(), 8)
