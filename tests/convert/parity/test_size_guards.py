"""Conditions on sizes: their values for given sizes, and sizes that meet them."""

from __future__ import annotations

import json

import onnx_ir as ir
import pytest

from convert.errors import BadInput
from convert.graph import Graph
from convert.parity.inputs import size_guards
from convert.parity.inputs.feeds import complete_sizes, generate_feeds
from convert.parity.inputs.size_guards import broken_guards, declared_size, evaluate, fit_sizes
from tests.support.work import at_most_calls


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*h + 1", 33),
        ("(h - 20)//3", -2),
        ("h % 8 == 0", True),
        ("h % 8 == 0 and w > 7", False),
        ("max(1, h, w) - abs(-w)", 9),
        ("not h == w", True),
        ("h == 1 or w == 7", True),
        ("h == 1 or w == 1", False),
        ("h == 16 and w == 7", True),
        ("h < 16 or h >= 17 or h != 16", False),
        ("h <= 16", True),
        ("min(h, w)*100 + Min(h, w)*10 + Max(h, w)", 786),
        ("-h", -16),
        ("h / 2 > 7.5 and w / 2 < 3.6", True),
        ("2 ** w + math.trunc(-w * 0.5)*1000 + math.floor(-w / 2)*10000", 128 - 3000 - 40000),
        ("math.ceil(w / 2)*100 + round(w / 2)*10 + math.trunc(math.sqrt(h))", 444),
        ("torch._sym_sqrt(torch.sym_float(h)) == 4.0", True),
    ],
)
def test_arithmetic(text: str, value: int) -> None:
    assert evaluate(text, {"h": 16, "w": 7}) == value


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "h.real", "[h]", "h if h else 1", "lambda: 1", "z + 1", "h / 2", "h // 0", "2 ** 65", "h +",
     "open('x')", "max(*h)", "'a'", "1.5", "(9**64)**64", "math.sqrt(-h) > 1", "(-h) ** 0.5 > 1", "math.exp(h) > 1",
     "os.trunc(h)", "h / 0 > 1"],
)  # fmt: skip
def test_nothing_else_is_evaluated(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        evaluate(text, {"h": 16})


@pytest.mark.parametrize(
    ("sizes", "guards", "found"),
    [
        ({"h": 16}, ["h % 8 == 0"], {"h": 16}),
        ({"h": 17}, ["h % 8 == 0"], {"h": 16}),
        ({"h": 1, "w": 1}, ["h % 4 == 0", "w == 2*h"], {"h": 4, "w": 8}),
        ({"h": 16, "w": 17}, ["h*w > 300", "w != 17"], {"h": 16, "w": 19}),
        ({"h": 16}, ["h == 1000"], {"h": 16}),
        ({"n": 2}, ["n // 0 == 1"], {"n": 2}),
        ({"h": 3, "w": 2}, ["h > w", "w > 2"], {"h": 4, "w": 3}),  # mending the second guard breaks the first
        ({"h": 2, "w": 5}, ["w > h + 1", "h % 4 == 0"], {"h": 4, "w": 6}),
        ({"h": 10, "w": 10}, ["h == 9 and abs(w - 10) == 1"], {"h": 9, "w": 11}),
        ({"h": 10, "w": 10}, ["h == 11 and abs(w - 10) == 1"], {"h": 11, "w": 9}),
    ],
)
def test_the_nearest_sizes_that_meet_the_guards(
    sizes: dict[str, int], guards: list[str], found: dict[str, int]
) -> None:
    assert fit_sizes(sizes, guards, {}) == found


def test_bounds_hold() -> None:
    found = fit_sizes({"h": 3}, ["h % 8 == 0"], {"h": [5, 100]})
    assert found == {"h": 8}
    assert fit_sizes({"h": 30}, ["h % 8 == 0"], {"h": [1, 31]}) == {"h": 24}
    # only the past of a decoder may be empty, by its bound
    assert fit_sizes({"past": 2, "new": 5}, ["past == 0 or new == 1"], {"past": [0, None]}) == {"past": 0, "new": 5}
    assert fit_sizes({"past": 2, "new": 5}, ["past == 0 or new == 1"], {"past": [None, 2]}) == {"past": 2, "new": 1}


def model(shapes: list[list[int | str]], **metadata: object) -> ir.Model:
    inputs = [
        ir.Value(name=f"x{i}", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
        for i, shape in enumerate(shapes)
    ]
    graph = ir.Graph(inputs, [], nodes=[])
    found = ir.Model(graph, ir_version=10)
    found.metadata_props.update({f"convert.{key}": json.dumps(value) for key, value in metadata.items()})
    return found


def sizes_tried(found: ir.Model) -> list[list[tuple[int, ...]]]:
    return [[array.shape for array in feed.arrays.values()] for feed in generate_feeds(found)]


def test_feeds_meet_guards_and_reach_the_bounds() -> None:
    guards = ["h % 8 == 0", "h != 16"]
    tried = sizes_tried(model([["batch", 3, "h"]], dims={"batch": [1, 8], "h": [1, None]}, guards=guards))
    assert {shapes[0][0] for shapes in tried} == {2, 1, 8}
    assert all(not broken_guards(guards, {"h": shapes[0][2]}) for shapes in tried)


def test_dims_that_others_determine_follow_them() -> None:
    tried = sizes_tried(model([["n", 4], ["2*n + 1"]]))
    assert all(b[0] == 2 * a[0] + 1 for a, b in tried)
    assert len({a[0] for a, _ in tried}) == 3


@pytest.mark.parametrize(
    ("size", "wanted", "bounds", "found"),
    [
        (2, 35, {}, 35),
        (2, 36, {}, 2),
        (50, 17, {}, 17),
        (50, 16, {}, 50),
        (2, 1, {}, 1),
        (2, 0, {}, 2),
        (2, 0, {"n": [0, None]}, 0),
        (5, 9, {"n": [1, 9]}, 9),
        (5, 9, {"n": [1, 8]}, 5),
        (5, 3, {"n": [4, None]}, 5),
    ],
)
def test_sizes_are_looked_for_as_far_as_33_and_within_bounds(
    size: int, wanted: int, bounds: dict[str, list[int | None]], found: int
) -> None:
    assert fit_sizes({"n": size}, [f"n == {wanted}"], bounds) == {"n": found}


@pytest.mark.slow
def test_few_sizes_are_tried_for_conditions_of_a_stranger() -> None:
    """All sizes of five dims around the example's would be a thousand million; those of forty dims would never end."""
    with at_most_calls(12_000_000):
        for count in (5, 40):
            sizes = {f"d{i}": 10 for i in range(count)}
            assert fit_sizes(sizes, [f"{'+'.join(sizes)} == 0"], {}) == sizes
            assert fit_sizes(sizes, [f"{'+'.join(sizes)} == {10 * count}"], {}) == sizes
        long = [f"n % {i + 2} == {i} + 9" for i in range(1000)]
        assert fit_sizes({"n": 10}, long, {}) == {"n": 10}


def test_several_dims_of_one_condition_are_fitted() -> None:
    found = fit_sizes({"a": 4, "b": 4, "c": 4, "d": 4}, ["a + b + c + d == 17"], {"a": (4, 4)})
    assert sum(found.values()) == 17
    assert found["a"] == 4


def test_a_size_that_is_no_number_is_the_fault_of_the_model() -> None:
    assert declared_size("n // (n - 2)", {"n": 3}) == 3
    for text in ("n // (n - 2)", "n % 0", "n / 4", "m", "n ** 999"):
        with pytest.raises(BadInput, match="is no number at n=2"):
            declared_size(text, {"n": 2})
    g = Graph()
    g.output(g.Neg(g.input("x", ir.DataType.FLOAT, ["n", "n // (n - 2)"])), "y")
    with pytest.raises(BadInput, match="is no number at n=2"):
        complete_sizes(g.model(), {"n": 2})


@pytest.mark.parametrize("count", range(1, 9))
def test_of_several_dims_fewer_sizes_each_are_put_in_order(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of combinations is at most that of three dims with 33 sizes each."""
    asked: list[int] = []
    monkeypatch.setattr(size_guards, "_nearby_sizes", lambda size, bounds, most: asked.append(most) or [size])
    names = [f"d{n}" for n in range(count)]
    fit_sizes(dict.fromkeys(names, 16), [f"{' + '.join(names)} == 0"], {})
    assert asked == [max(n for n in range(1, 67**3 + 1) if n**count <= 67**3)] * count


@pytest.mark.parametrize(("characters", "found"), [(70, 16), (69, 12)])
def test_of_long_conditions_fewer_sizes_are_tried(characters: int, found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 is the eighth size from 12 on, and the condition has ten characters: seven sizes and the first fit into 70."""
    monkeypatch.setattr(size_guards, "_MOST_CHARACTERS", characters)
    assert fit_sizes({"h": 12}, ["h % 8 == 0"], {}) == {"h": found}
