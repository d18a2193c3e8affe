"""The noise floor of outputs that are float64 as deployed: which are held to it, and to which of the sums."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import ConvertError, Unsupported
from convert.graph import Graph
from convert.parity import float64_noise
from convert.parity.float64_noise import _farthest, _is_far, _with_rounded_attributes, with_float64_noise
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs

D = ir.DataType.DOUBLE
LEAST = 16 * 2.0**-53
"""Four times four roundings."""


def graph(*names: str) -> ir.Model:
    g = Graph()
    x = g.input("x", D, ["n"])
    for name in names:
        g.output(g.Abs(x), name)
    return g.model()


def outputs(**arrays: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("others", "farthest"),
    [
        ([[1.5, 2.0]], [1.5, 2.0]),
        ([[1.5, 2.0], [0.25, 2.125]], [0.25, 2.125]),
        ([[1.5, 2.5], [0.75, 1.75]], [1.5, 2.5]),
        ([[1.5, 2.5], [0.5, 1.5]], [1.5, 2.5]),  # as far: the first of them
        ([[1.5, 2.0], [9.0]], [1.5, 2.0]),
        ([[9.0], [1.5, 2.0]], [9.0]),
        ([[[9.0, 9.0]], [[1.5, 2.0]]], [[9.0, 9.0]]),
    ],
)
def test_of_each_element_the_farthest(others: list[Any], farthest: Any) -> None:
    assert _farthest(np.array([1.0, 2.0]), [np.array(o) for o in others]).tolist() == farthest


def test_what_has_not_the_shape_of_the_output_is_not_compared_with_it() -> None:
    first, second = np.array([1.5, 2.0]), np.array([9.0, 9.0])
    assert _farthest(np.ones(1), [first, second]) is first
    assert _farthest(np.ones((2, 2)), [first, second]) is first


def far(
    target: float, own: float = 1.0, dtype: type = np.float64, others: Any = None, exact: float = 1.0, name: str = "y"
) -> bool:
    """Whether an output of 1 is far, of two feeds the second of which is as given."""
    one = outputs(y=np.ones(4))
    got = [one, outputs(**{name: np.full(4, target)})]
    single = [one, outputs(y=np.ones(4, dtype))]
    runs = RunOutputs({}, got, [], others={} if others is None else {"way": [one, outputs(y=np.full(4, others))]})
    right, mine = [one, outputs(y=np.full(4, exact))], [one, outputs(y=np.full(4, own))]
    return _is_far(0, "y", runs, single, right, mine)


def test_outputs_are_far_between_a_few_roundings_and_a_billionth() -> None:
    assert [far(1 + k * 2.0**-53) for k in (0, 16, 18)] == [False, False, True]
    assert [far(1 + off) for off in (0.99e-9, 1.01e-9)] == [True, False]
    assert [far(1 + 2.0**-40, own=1 + off) for off in (0.99e-9, 1.01e-9)] == [True, False]
    assert not far(1 + 2.0**-40, dtype=np.float32)
    assert not far(1 + 2.0**-40, name="z"), "another output"
    assert [far(1.0, others=1 + k * 2.0**-53) for k in (0, 16, 18)] == [False, False, True]


def test_a_way_that_is_run_on_the_first_set_alone_may_be_far_there() -> None:
    one, off = outputs(y=np.ones(4)), outputs(y=np.full(4, 1 + 2.0**-40))
    for first, found in ((one, False), (off, True)):
        runs = RunOutputs({}, [one, one], [], others={"way": [first]})
        assert _is_far(0, "y", runs, [one, one], [one, one], [one, one]) is found


def test_each_output_has_its_own_place() -> None:
    both = [outputs(a=np.ones(2), b=np.ones(2))]
    runs = RunOutputs({}, [outputs(a=np.ones(2), b=np.full(2, 1 + 2.0**-40))], [])
    assert [_is_far(place, name, runs, both, both, both) for place, name in enumerate("ab")] == [False, True]
    mixed = [outputs(a=np.ones(2, np.float32), b=np.ones(2))]
    assert _is_far(1, "b", runs, mixed, both, both)


def test_numbers_of_operators_are_rounded_and_whole_ones_stay() -> None:
    g = Graph()
    x = g.input("x", D, ["n", 4])
    y = g.LayerNormalization(x, np.ones(4), np.zeros(4), axis=-1, epsilon=1e-5)
    g.output(g.LeakyRelu(y, alpha=0.1), "y")
    made = g.model()
    found = {name: a.value for node in _with_rounded_attributes(made).graph for name, a in node.attributes.items()}
    assert (found["epsilon"], found["alpha"]) == (float(np.float32(1e-5)), float(np.float32(0.1)))
    assert found["axis"] == -1
    own = {name: a.value for node in made.graph for name, a in node.attributes.items()}
    assert (own["epsilon"], own["alpha"]) == (1e-5, 0.1)


def noisy(monkeypatch: pytest.MonkeyPatch, runs: RunOutputs, *sums: Any) -> tuple[RunOutputs, list[str]]:
    """With sums from the first number, and from the last, of the outputs a and b."""

    def one_by_one(model: ir.Model, arrays: Any, *, backwards: bool) -> dict[str, np.ndarray]:
        found = sums[int(backwards)]
        if isinstance(found, Exception):
            raise found
        return outputs(a=np.full(2, found), b=np.full(2, -found))

    monkeypatch.setattr("convert.reference.one_by_one.run_one_by_one", one_by_one)
    return with_float64_noise(graph("a", "b"), [Feed("one", {"x": np.ones(2)})], runs)


def both(a: float = 1.0, b: float = 1.0) -> list[dict[str, np.ndarray]]:
    return [outputs(a=np.full(2, a), b=np.full(2, b))]


OFF = 1 + 2.0**-40


def test_only_what_is_far_becomes_what_sums_give(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = RunOutputs({"float32": both(), "float64": both()}, both(b=OFF), both())
    found, (note,) = noisy(monkeypatch, runs, 1.5, 2.0)
    single = found.source["float32"]
    assert not isinstance(single, Unsupported)
    assert {name: array.tolist() for name, array in single[0].items()} == {"a": [1.0, 1.0], "b": [-2.0, -2.0]}
    assert found.source["float64"] is runs.source["float64"]
    assert note == "b: float64 as deployed, held to sums in another order and to attributes in float32"
    found, (note,) = noisy(monkeypatch, RunOutputs(runs.source, both(OFF, OFF), both()), 1.5, 2.0)
    assert note.startswith("a, b: ")
    # One of the two orders is enough, and none leaves all as it is.
    for sums, left in (((ConvertError("no"), 2.0), -2.0), ((1.5, ConvertError("no")), -1.5)):
        single = noisy(monkeypatch, runs, *sums)[0].source["float32"]
        assert not isinstance(single, Unsupported)
        assert single[0]["b"].tolist() == [left] * 2
    assert noisy(monkeypatch, runs, ConvertError("no"), ConvertError("no")) == (runs, [])


def test_without_runs_of_all_there_is_no_such_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    none, source = Unsupported("no"), {"float32": both(), "float64": both()}
    for runs in (
        RunOutputs({**source, "float32": none}, both(b=OFF), both()),
        RunOutputs({**source, "float64": none}, both(b=OFF), both()),
        RunOutputs(source, both(b=OFF), none),
        RunOutputs(source, both(b=OFF), both(), narrowed=SimpleNamespace()),  # type: ignore[arg-type]
        RunOutputs({**source, "float32": [outputs(b=np.ones(2))]}, both(b=OFF), both()),
        RunOutputs(source, both(), both()),
    ):
        assert noisy(monkeypatch, runs, 1.5, 2.0) == (runs, [])
    assert float64_noise._LEAST == LEAST


@pytest.mark.parametrize("extra", [{"b": np.ones(2), "c": np.ones(2)}, {}])
def test_a_source_with_more_or_fewer_outputs_is_left_to_the_judge(extra: dict[str, Any]) -> None:
    exact = [outputs(a=np.ones(2), **extra)]
    runs = RunOutputs({"float32": exact, "float64": exact}, [outputs(a=np.full(2, 1 + 2.0**-40), b=np.ones(2))],
                      [outputs(a=np.ones(2), b=np.ones(2))])  # fmt: skip
    assert with_float64_noise(graph("a", "b"), [Feed("one", {"x": np.ones(2)})], runs) == (runs, [])
