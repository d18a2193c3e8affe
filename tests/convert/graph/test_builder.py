"""The builder: constants, facts, subgraphs and names, judged by ONNX's checker and by onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from convert import limits
from convert.errors import Location, ResourceLimit
from convert.graph import Graph, location_of

F = ir.DataType.FLOAT


def run(g: Graph, **feeds: np.ndarray) -> list[np.ndarray]:
    model = ir.to_proto(g.model())
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def test_numbers_take_the_dtype_of_the_tensors_beside_them() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.INT32, [2])
    y = g.Add(x, 3)
    assert y.dtype == ir.DataType.INT32
    z = g.Mul(g.Cast(y, to=ir.DataType.DOUBLE), 0.5)
    g.output(z, "z")
    np.testing.assert_array_equal(run(g, x=np.array([1, 4], np.int32))[0], [2.0, 3.5])


def test_a_number_that_does_not_fit_is_refused() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.INT32, [2])
    with pytest.raises(ValueError, match="does not fit int32"):
        g.Add(x, 2**40)


def test_facts_keep_named_dims() -> None:
    g = Graph()
    x = g.input("x", F, ["batch", 3, 8, "w"])
    y = g.Conv(x, np.zeros((4, 3, 3, 3), np.float32), pads=[1, 1, 1, 1])
    assert y.dtype == F
    assert g.shape(y)[:3] == ("batch", 4, 8)
    assert g.shape(g.Reshape(x, [0, -1]))[0] == "batch"


def test_equal_small_constants_are_shared_and_weights_are_not() -> None:
    g = Graph()
    assert g.const([1, 2]) is g.const([1, 2])
    assert g.const([1, 2]) is not g.const(np.array([1, 2], np.int32))
    big = np.zeros(5000, np.float32)
    assert g.const(big) is not g.const(big)


def test_constants_wrap_without_a_copy() -> None:
    array = np.ones((512, 512), np.float32)
    value = Graph().const(array)
    assert value.const_value is not None
    assert np.shares_memory(value.const_value.numpy(), array)


def test_output_names_are_exact_even_when_taken() -> None:
    g = Graph()
    x = g.input("output", F, [2])
    y = g.Relu(x)
    g.output(y, "y")
    g.output(y, "again")
    g.output(x, "through")
    assert [v.name for v in g.graph.outputs] == ["y", "again", "through"]
    first, second, third = run(g, output=np.array([-1, 2], np.float32))
    np.testing.assert_array_equal(first, [0, 2])
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(third, [-1, 2])


def test_subgraphs_capture_outer_values() -> None:
    g = Graph()
    c, x = g.input("c", ir.DataType.BOOL, []), g.input("x", F, [2])
    then, other = g.body("then"), g.body("else")
    then.output(then.Add(x, 1.0), "t")
    other.output(other.Mul(x, g.const(np.array([2, 3], np.float32))), "e")
    y = g.If(c, then_branch=then, else_branch=other)
    g.facts(y, F, [2])
    g.output(y, "y")
    model = ir.to_proto(g.model())
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x_value = np.array([1, 5], np.float32)
    np.testing.assert_array_equal(session.run(None, {"c": np.array(True), "x": x_value})[0], [2, 6])
    np.testing.assert_array_equal(session.run(None, {"c": np.array(False), "x": x_value})[0], [2, 15])


def test_nodes_remember_where_they_came_from() -> None:
    g = Graph()
    x = g.input("x", F, [2])
    with g.at(Location("aten.relu", "layer1.relu", "layer1.relu", "net.py:7")):
        y = g.Relu(x)
    node = y.producer()
    assert node is not None
    assert location_of(node) == Location("Relu", "layer1.relu", "layer1.relu", "net.py:7")


def test_operands_that_onnx_refuses_raise() -> None:
    g = Graph()
    with pytest.raises(ValueError, match="does not accept"):
        g.MatMul(g.input("a", F, [2, 3]), g.input("b", F, [4, 5]))


@pytest.mark.parametrize("sizes", [[1 << 32, 1 << 32], [1 << 60, 16], [1 << 62, 2, "batch"]])
def test_sizes_whose_product_needs_more_than_64_bits_are_refused(sizes: list[int | str]) -> None:
    """ONNX's inference takes a product of 2^64 for 0, and says so about the target of the Reshape."""
    g = Graph()
    with g.at(Location("Tile")), pytest.raises(ResourceLimit, match="elements are more than any tensor has"):
        g.Reshape(g.input("x", F, sizes), [-1, 1])
    with pytest.raises(ResourceLimit, match=r"2e\+19 elements are more"):
        g.Tile(g.input("y", F, ["batch", 16]), [1, 1 << 60])
    g.Neg(g.input("z", F, [1 << 62, 0, 4]))


def test_one_operator_becomes_a_limited_number_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPERATOR_NODES", 10)
    g = Graph()
    x = g.input("x", F, [2])
    for _ in range(3):  # each operator counts alone, and so do nodes that no operator asked for
        with g.at(Location("Dilation2D", "d")):
            for _ in range(10):
                g.Neg(x)
            with g.at(Location("Add", "inner")):
                g.Neg(x)
        for _ in range(20):
            g.Neg(x)
    with g.at(Location("Dilation2D", "d")):
        body = g.body()
        for _ in range(10):
            body.Neg(x)
        with pytest.raises(ResourceLimit, match="Dilation2D, node 'd': one operator becomes more than 10 nodes"):
            body.Neg(x)
