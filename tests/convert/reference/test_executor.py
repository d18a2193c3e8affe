"""The reference executor: when it frees values, which outputs can be requested, and how it fails."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from convert.errors import ConvertError, Unsupported, UsageError
from convert.graph import Graph
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from tests.support.onnx_support import info, model, read


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
    # The feed itself, the value that is read, and the value that is computed.
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


# Operator, its input, its attributes, then mean and standard deviation of its samples.
DRAWN = [
    ("RandomNormal", None, {"shape": [40, 50], "mean": 2.0, "scale": 0.5}, 2, 0.5),
    ("RandomNormalLike", 0.0, {"mean": -1.0, "scale": 2.0}, -1, 2),
    ("RandomUniform", None, {"shape": [40, 50], "low": 1.0, "high": 3.0}, 2, 2 / 12**0.5),
    ("RandomUniformLike", 0.0, {"low": -1.0}, 0, 2 / 12**0.5),
    ("Bernoulli", 0.25, {}, 0.25, 0.1875**0.5),
    ("Multinomial", 0.0, {"sample_size": 40}, 24.5, (2499 / 12) ** 0.5),
]


@pytest.mark.parametrize(("operator", "filled", "attributes", "mean", "deviation"), DRAWN)
def test_random_numbers_are_of_their_distribution_and_new_in_each_run(
    operator: str, filled: float | None, attributes: dict[str, Any], mean: float, deviation: float
) -> None:
    node = helper.make_node(operator, [] if filled is None else ["x"], ["d"], **attributes)
    nodes = [node, helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Identity", ["x"], ["z"])]
    graph = model(nodes, [info("x", [40, 50])], [info("y", None), info("z", None)])
    x = np.full((40, 50), filled or 0.0, np.float32)
    first, second = (run(widen_model(read(graph)), {"x": x})["y"] for _ in range(2))
    assert first.size in (2000, 1600)
    assert not np.array_equal(first, second)
    # Six standard errors of this many numbers.
    assert abs(first.mean() - mean) < 6 * deviation / first.size**0.5
    assert abs(first.std() - deviation) < 0.15 * deviation


def test_dropout_in_training_keeps_the_mean() -> None:
    ratio, yes = numpy_helper.from_array(np.float32(0.25), "ratio"), numpy_helper.from_array(np.array(True), "yes")
    graph = model(
        [helper.make_node("Dropout", ["x", "ratio", "yes"], ["y", "kept"])], [info("x", [40, 50])],
        [info("y", [40, 50]), helper.make_tensor_value_info("kept", TensorProto.BOOL, [40, 50])],
    )  # fmt: skip
    graph.graph.initializer.extend([ratio, yes])
    found = run(read(graph), {"x": np.full((40, 50), 3.0, np.float32)})
    np.testing.assert_allclose(found["y"][found["kept"]], 4.0, rtol=1e-6)
    assert not found["y"][~found["kept"]].any()
    assert abs(found["kept"].mean() - 0.75) < 0.06


def test_a_failing_node_is_named() -> None:
    proto = model(
        [helper.make_node("MatMul", ["x", "x"], ["y"], name="product")], [info("x", ["a", "b"])], [info("y", None)]
    )
    with pytest.raises(ConvertError, match=r"MatMul, node 'product'.*mismatch"):
        run(read(proto), {"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize("operator", ["ReduceSumSquare", "ReduceL1"])
def test_integers_have_the_dtype_that_the_graph_declares(operator: str) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.INT32, ["n", 3])
    g.output(g.node(operator, [x, np.array([1])]), "y")
    assert run(g.model(), {"x": np.array([[1, -2, 3]], np.int32)})["y"].dtype == np.int32
