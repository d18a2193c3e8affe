"""Inputs and weights moved by one unit in the last place."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from convert.parity.inputs import Feed
from convert.parity.moves import moved_array, run_moved
from tests.support.onnx_support import array, info, model, read


def test_weights_stay_where_a_size_is_computed_from_one() -> None:
    """20 that is moved may be less, of which no whole number of columns fits."""
    nodes = [
        helper.make_node("Floor", ["size"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["columns"], to=onnx.TensorProto.INT64),
        helper.make_node("Concat", ["rows", "columns"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    weights = [array("size", [20.0]), numpy_helper.from_array(np.array([-1]), "rows")]
    graph = read(model(nodes, [info("x", [3, 40])], [info("y", ["n", "m"])], weights))
    x = np.random.default_rng(0).uniform(1, 2, (3, 40)).astype(np.float32)
    for seed in range(4):
        (moved,) = run_moved(graph, [Feed("one", {"x": x})], seed=seed)
        np.testing.assert_array_equal(moved["y"], x.reshape(-1, 20))


def test_weights_are_moved_by_the_seed_that_is_told_or_the_thirteenth() -> None:
    weights = np.linspace(1, 2, 40).astype(np.float32)
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    graph = read(model(nodes, [info("x", [3, 40])], [info("y", [3, 40])], [numpy_helper.from_array(weights, "w")]))
    feeds = [Feed("one", {"x": np.ones((3, 40), np.float32)})]
    for given, seed in (({}, 13), ({"seed": 2}, 2)):
        (found,) = run_moved(graph, feeds, **given)
        wanted = moved_array(weights, np.random.default_rng(seed))
        np.testing.assert_array_equal(found["y"], np.broadcast_to(wanted, (3, 40)))
