"""Chains of operators that cancel out, on which TensorFlow's optimizer spends time quadratic in their length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow optimizes the graphs")

from convert.frontends.tensorflow.runner import optimizer, runner  # noqa: E402

from convert.request.options import Options  # noqa: E402
from convert.request.source import Source  # noqa: E402


@pytest.fixture(autouse=True)
def _usual_optimizer() -> Iterator[None]:
    yield
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": True})


def chain(path: Path, operator: str, length: int) -> Source:
    """Return a frozen graph with this many operators."""
    graph, last = tf.compat.v1.GraphDef(), "x"
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    graph.node[0].attr["shape"].shape.dim.add().size = 4
    for i in range(length):
        graph.node.add(name=(name := f"n{i}"), op=operator, input=[last]).attr["T"].type = 1
        last = name
    path.write_bytes(graph.SerializeToString())
    return Source("frozen-graph", path)


@pytest.mark.parametrize(
    ("operator", "length", "off"), [("Neg", 2000, True), ("Reciprocal", 2000, True), ("Neg", 1999, False),
                                    ("Tanh", 3000, False)]
)  # fmt: skip
def test_arithmetic_is_left_as_it_is_in_long_chains_alone(
    operator: str, length: int, off: bool, tmp_path: Path
) -> None:
    optimizer.keep_optimizer_short(chain(tmp_path / "m.pb", operator, length))
    options = optimizer.session_config().graph_options.rewrite_options
    assert (options.arithmetic_optimization == options.OFF) is off
    assert (tf.config.optimizer.get_experimental_options().get("arithmetic_optimization") is False) is off


@pytest.mark.slow
def test_a_chain_of_pairs_runs_right(tmp_path: Path) -> None:
    source = chain(tmp_path / "m.pb", "Neg", 10_001)
    feeds = [{"x": np.arange(4, dtype=np.float32)}]
    for found in (
        *runner.run_as_used(source, feeds, Options()).values(),
        runner.run(source, feeds, precision="float32", options=Options()),
    ):
        ((value,),) = (outputs.values() for outputs in found)
        np.testing.assert_array_equal(value, -np.arange(4, dtype=np.float32))
