"""The reference executor: what it frees, what it can be asked for, and how it fails."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from convert.errors import ConvertError, Unsupported, UsageError
from convert.graph import Graph
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
