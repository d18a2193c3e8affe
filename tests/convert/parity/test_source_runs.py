"""The inputs that are tried next when a source refuses the sampled ones, with stand-in sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

import convert
from convert.errors import BadInput, BrokenPackage, ConvertError, NotLoaded, Unsupported
from convert.graph import Graph
from convert.parity.inputs.feeds import GIVEN, Feed, Spans, generate_feeds, given_feed
from convert.parity.method import VerifyMethod
from convert.parity.runs import source_runs
from convert.request.options import Options
from convert.request.source import Source

EXAMPLE = {"i": np.array([7, 5, 7])}
Takes = Callable[[np.ndarray], bool]


def model(dims: Sequence[int | str] = (3,)) -> ir.Model:
    g = Graph()
    g.output(g.Neg(g.input("i", ir.DataType.INT64, dims)), "y")
    return g.model()


def attempt(
    takes: Takes,
    *,
    examples: Mapping[str, Any] | None = None,
    graph: ir.Model | None = None,
    gives: Callable[[np.ndarray], np.ndarray] = np.negative,
    **method: Any,
) -> tuple[list[Feed], list[str]]:
    """Return the feeds on which the source finally ran, and the notes."""
    graph = graph or model()
    options = Options(examples=examples or {})

    def draw(sizes: Sequence[Mapping[str, int]], spans: Spans) -> list[Feed]:
        given = [given_feed(graph, options.examples)] if options.examples else []
        return [*given, *generate_feeds(graph, 3, sizes, spans)]

    def run(feeds: Sequence[Feed]) -> Any:
        if not all(takes(feed.arrays["i"]) for feed in feeds):
            raise BadInput("it does not like them")
        outputs = [{"y": gives(feed.arrays["i"])} for feed in feeds]
        return SimpleNamespace(refused="", target=list(feeds), source={"float32": outputs})

    found = source_runs.run_where_it_runs(
        run, draw, draw((), {}), Source("onnx-object"), graph, options, VerifyMethod(**method)
    )
    assert [id(feed) for feed in found[0].target] == [id(feed) for feed in found[1]]
    return found[1], found[2]


def test_what_runs_at_once_is_as_usual() -> None:
    feeds, notes = attempt(lambda i: True)
    assert (len(feeds), notes) == (3, [])


@pytest.mark.parametrize(("most", "limits"), [(9, "1 to 9"), (4, "1 to 1")])
def test_a_divisor_is_not_zero_and_a_place_may_have_to_be_near(most: int, limits: str) -> None:
    feeds, (note,) = attempt(lambda i: bool(((i > 0) & (i <= most)).all()), graph=model((50,)))
    assert len(feeds) == 3
    assert note.startswith(f"the source does not run on every integer: compared with i from {limits}")


def test_integers_are_drawn_from_those_of_the_example() -> None:
    feeds, (note,) = attempt(lambda i: bool((i >= 5).all() and (i <= 7).all()), examples=EXAMPLE)
    assert feeds[0].label == GIVEN
    assert len(feeds) == 4
    assert "i from 5 to 7" in note


def test_the_example_alone_is_left_where_nothing_else_runs() -> None:
    feeds, (note,) = attempt(lambda i: i.tolist() == [7, 5, 7], examples=EXAMPLE)
    assert [feed.label for feed in feeds] == [GIVEN]
    assert note.startswith("compared on the example alone: the source runs on no inputs that were drawn (it does not")


def test_the_example_keeps_its_integers_where_a_source_takes_no_others() -> None:
    g = Graph()
    g.output(g.Add(g.input("x", ir.DataType.FLOAT, ("batch", 3)), g.input("i", ir.DataType.FLOAT, (3,))), "y")
    graph = g.model()
    graph.graph.inputs[1].dtype = ir.DataType.INT64
    examples = {"x": np.ones((2, 3), np.float32), **EXAMPLE}
    feeds, (note,) = attempt(lambda i: i.tolist() == [7, 5, 7], graph=graph, examples=examples)
    assert [feed.label == GIVEN for feed in feeds] == [True, False, False, False]
    assert len({feed.arrays["x"].tobytes() for feed in feeds}) == 4
    assert {feed.arrays["x"].shape for feed in feeds} == {(2, 3)}
    assert note.startswith("the source runs on no integers that were drawn")


def test_sizes_that_were_found_and_are_refused_leave_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_runs, "search_sizes", lambda *given: [{"n": 7}])
    feeds, (note,) = attempt(lambda i: i.tolist() == [7, 5, 7], graph=model(("n",)), examples=EXAMPLE)
    assert [feed.label for feed in feeds] == [GIVEN]
    assert note.startswith("compared on the example alone")


def test_sizes_are_searched_for_with_the_usual_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_runs, "search_sizes", lambda *given: [{"n": 7}])
    feeds, (note,) = attempt(lambda i: len(i) == 7, graph=model(("n",)))
    assert len({int(n) for feed in feeds for n in feed.arrays["i"]}) > 3
    assert note.startswith("the source does not run at the sizes that are usual")


def test_sizes_are_searched_for_with_closer_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def search(*given: Any) -> Any:
        asked.append(given[-1])
        if not given[-1]:
            raise BadInput("at no size")
        return [{"n": 7}]

    monkeypatch.setattr(source_runs, "search_sizes", search)
    feeds, notes = attempt(lambda i: len(i) == 7 and bool((i == 1).all()), graph=model(("n",)))
    assert [len(feed.arrays["i"]) for feed in feeds] == [7, 7, 7]
    assert asked == [{}, {"i": (1, 1)}]
    assert [note.split(":")[0] for note in notes] == [
        "the source does not run on every integer",
        "the source does not run at the sizes that are usual",
    ]


@pytest.mark.parametrize(
    "error", [Unsupported("no"), BrokenPackage("no"), source_runs.RunFailure("backend", BadInput("no"))]
)
def test_what_is_not_the_inputs_fault_is_raised_at_once(error: ConvertError) -> None:
    def run(feeds: Sequence[Feed]) -> Any:
        raise error

    feeds = generate_feeds(model())
    with pytest.raises(type(error), match="no"):
        source_runs.run_where_it_runs(
            run, lambda *g: [], feeds, Source("onnx-object"), model(), Options(), VerifyMethod()
        )


def test_the_users_own_inputs_are_not_exchanged() -> None:
    with pytest.raises(BadInput, match="it does not like them"):
        attempt(lambda i: False, arrays={"i": np.array([1, 2, 3])})


def test_what_gives_nothing_at_the_usual_sizes_is_given_longer_inputs() -> None:
    """For example, a sound of 16 numbers has no frames: agreement on empty outputs proves nothing."""
    frames = lambda i: i[:, : i.shape[1] // 400]  # noqa: E731
    feeds, notes = attempt(lambda i: True, graph=model(("n", "t")), gives=frames)
    assert [feed.arrays["i"].shape for feed in feeds] == [(2, 1024), (1, 1024), (3, 1088)]
    assert notes == ["at the sizes that are usual no output has an element: compared at n=2, t=1024 and n=1, t=1024 "
                     "and n=3, t=1088"]  # fmt: skip
    for taken in (lambda i: i.shape[1] < 400, lambda i: True):
        gives = frames if taken(np.zeros((1, 500))) is False else (lambda i: i[:0])
        feeds, notes = attempt(taken, graph=model(("n", "t")), gives=gives)
        assert ([feed.arrays["i"].shape[1] for feed in feeds], notes) == ([16, 16, 17], [])


def test_a_model_that_no_runtime_loads_is_not_tried_at_other_sizes() -> None:
    """An unknown operator does not depend on sizes."""
    text = '<ir_version: 8, opset_import: ["": 17, "mine": 1]> g (float[n,3] x) => (float[n,3] y) { y = mine.Cube(x) }'
    with pytest.raises(NotLoaded, match="is not a registered function") as error:
        convert.verify(parser.parse_model(text), parser.parse_model(text))
    assert "--rules FILE.py" in error.value.hint
    assert "sizes" not in str(error.value)
