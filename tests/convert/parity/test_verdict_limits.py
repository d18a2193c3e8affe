"""Limits of the verdict and of its inputs, at the limit and one beyond."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, UsageError
from convert.graph import Graph
from convert.outcome.verdict import FAIL, Finding, OutputVerdict
from convert.parity import verify as verification
from convert.parity.compare.declared_signature import _dims, _order
from convert.parity.inputs.cost import is_cheap
from convert.parity.inputs.feeds import Feed, smallest_feed
from convert.parity.inputs.size_search import _variants
from convert.parity.judge import _conclusion
from convert.parity.magnitudes import smaller_columns, smaller_parts
from convert.parity.pairing.counterparts import Counterparts, _pair, narrow_dims
from convert.parity.verify import verify
from convert.request.options import Options
from convert.runtimes.declared_signature import DeclaredTensor
from tests.convert.parity.input_models import plain
from tests.support.sides import SOURCE, TARGET, Side, Sides, graph, scaled

F = ir.DataType.FLOAT


@pytest.mark.parametrize(
    ("elements", "weights", "cheap"),
    [
        (1 << 19, 1 << 10, True),
        (1 << 19, (1 << 10) + 1, False),
        ((1 << 19) + 1, 0, False),
        ((1 << 19) - 1, 1 << 10, True),
        (1, 1 << 20, True),
    ],
)
def test_a_set_is_cheap_by_its_elements_and_their_products_with_weights(
    elements: int, weights: int, cheap: bool
) -> None:
    g = Graph()
    g.output(g.Abs(g.input("x", F, ["n"])), "y")
    if weights:
        g.output(g.Neg(np.zeros(weights, np.float32)), "z")
    arrays = {"a": np.zeros(1, np.float32), "b": np.zeros(elements - 1, np.float32)}
    assert is_cheap(g.model(), Feed("one", arrays)) is cheap


def test_zeros_have_a_part_of_their_own_beside_large_numbers_alone() -> None:
    large = np.full(4, 1e4)
    assert smaller_parts(large) == []
    assert smaller_parts(large * 0.999) == []
    (mask,) = smaller_parts(np.array([1e4, 0.0, 1e4, np.nan]))
    assert mask.tolist() == [False, True, False, False]
    assert smaller_parts(np.array([1e4, 1e4, np.nan, np.inf])) == []


@pytest.mark.parametrize("share", [1.0, 1 - 2.0**-20])
def test_numbers_below_the_least_of_float32_have_no_magnitude(share: float) -> None:
    """The limit is 2**-126; a runtime may treat smaller numbers as 0."""
    found = smaller_parts(np.array([share * 2.0**-126, 1.001e4 * 2.0**-126]))
    assert [mask.tolist() for mask in found] == ([[True, False]] if share == 1 else [])


def test_inputs_of_unknown_rank_have_no_dims_at_the_least() -> None:
    made = plain(shape=(2, 3))
    made.graph.inputs[0].shape = None
    feed = smallest_feed(made, 4)
    assert feed is not None
    assert (feed.label, feed.arrays["x"].shape) == ("seed 4, normal, number of dims=0", ())


@pytest.mark.parametrize("refused", [False, True])
def test_a_graph_has_to_take_the_usual_sets(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict's reason is the graph's error on one of the sets."""
    asked: list[int] = []
    real = verification.run_all

    def run_all(runner: Any, source: Any, arrays: Any, ways: Any, options: Options, optional: int) -> Any:
        asked.append(len(arrays) - optional)
        if refused:
            raise BadInput("not these")
        return real(runner, source, arrays, ways, options, optional)

    monkeypatch.setattr(verification, "run_all", run_all)
    Sides(monkeypatch, Side(float32=scaled(2.0), float64=scaled(2.0, np.float64)), Side(float32=scaled(2.0)))
    verdict = verify(SOURCE, TARGET, graph(), Options())
    assert asked[0] == 3, "the others are at the edge"
    if refused:
        assert (verdict.status, verdict.at_fault) == (FAIL, "frontend")
        assert verdict.reason == "the shared graph does not run: not these"


def test_the_first_output_that_fails_is_the_reason() -> None:
    rows = [OutputVerdict(name, FAIL, f"{name} is off") for name in "bc"]
    found = _conclusion([OutputVerdict("a"), *rows], [[np.arange(3.0)]] * 3, set())
    assert found == Finding(FAIL, "b: b is off")


def ends(*names: str) -> list[ir.Value]:
    return [ir.Value(name=n, type=ir.TensorType(F), shape=ir.Shape([2, 3])) for n in names]


@pytest.mark.parametrize(
    ("right", "pairs"),
    [
        (["out_1", "out_0"], {"a": "out_0", "b": "out_1"}),
        (["other", "out_1", "out_0"], {"a": "out_0", "b": "out_1"}),
        (["out_1", "other"], {"a": "out_1", "b": "other"}),  # some are missing; the others are in order
    ],
)
def test_names_that_a_writer_gives_pair_where_all_are_there(right: list[str], pairs: dict[str, str]) -> None:
    lists = SimpleNamespace(error=lambda reason, hint="": UsageError(reason))
    made = {"a": "out_0", "b": "out_1"}
    found, notes = _pair("output", ends("a", "b"), ends(*right), {}, made, {}, lists)  # type: ignore[arg-type]
    assert found == pairs
    assert len(notes) == (2 if "out_0" in right else 1)


def test_an_input_of_unknown_rank_hides_no_size_of_the_next() -> None:
    def model(*shapes: Any) -> ir.Model:
        g = Graph()
        for number, shape in enumerate(shapes):
            g.output(g.Neg(g.input(f"x{number}", F, shape or [1])), f"y{number}")
            g.model().graph.inputs[number].shape = None if shape is None else ir.Shape(shape)
        return g.model()

    names = {f"x{n}": f"x{n}" for n in range(3)}
    pairs = Counterparts(names, {f"y{n}": f"y{n}" for n in range(3)}, ["y0", "y1", "y2"], [0, 1, 2])
    for left, right in (
        (model(None, ["n"], ["m", 3]), model(["k"], [5], [None, 3])),
        (model(["k"], ["n"], ["m", 3]), model(None, [5], [None, 3])),
    ):
        notes = narrow_dims(left, right, pairs, "", ("one", "two"))
        assert notes == ["compared at n = 5 only, which two is fixed to"]
        assert [list(v.shape.numpy()) if v.shape and v.shape.is_static() else None for v in left.graph.inputs][1] == [5]


@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 3, 4, 5), (9, 2, 3, 2, 3)])
@pytest.mark.parametrize("axis", [1, -1])
def test_small_channels_are_masked_along_the_second_and_the_last_axis(axis: int, shape: tuple[int, ...]) -> None:
    """Elements of the first channel are 1, and the others 1e5."""
    array = np.full(shape, 1e5)
    np.moveaxis(array, axis, 0)[0] = 1.0
    (mask,) = smaller_columns(array)
    np.testing.assert_array_equal(np.broadcast_to(mask, array.shape), array == 1.0)


def test_sizes_near_by_are_one_and_eight_and_32_more_twice_and_half() -> None:
    found = [sizes["t"] for sizes in _variants(plain(shape=(2, "t")), {"t": 48})]
    assert found[:5] == [49, 96, 56, 80, 24]
    assert set(found) == {49, 96, 56, 80, 24}
    one = [sizes["t"] for sizes in _variants(plain(shape=(2, "t")), {"t": 1})]
    assert one[:5] == [2, 2, 9, 33, 1]


@pytest.mark.parametrize("wanted", ["ab", "ba"])
@pytest.mark.parametrize("declared", ["ab", "ba", "a", "", "bca", "acb"])
def test_ends_have_to_be_in_the_order_of_the_graph(declared: str, wanted: str) -> None:
    """Only names on both sides are compared."""
    found = _order("inputs", list(wanted), [DeclaredTensor(name, "float", None) for name in declared])
    ours = declared.replace("c", "")
    right = len(ours) < 2 or ours == wanted
    text = f"has its inputs in the order {', '.join(ours)}, and the source in the order {', '.join(wanted)}"
    assert found == ([] if right else [text])


@pytest.mark.parametrize(
    ("dims", "right"), [((2, 3, 4), True), ((2, 4, 3), False), ((2, 3), False), ((2, 3, 4, 1), False), (None, True)]
)
def test_dims_are_declared_in_the_layout_of_the_file(dims: Any, right: bool) -> None:
    """Outputs have the graph's order here, [2, 4, 3]; in the file the last two dims are swapped."""
    found = _dims(DeclaredTensor("y", "float", dims), [(2, 4, 3)], {"y": (0, 2, 1)}, "y")
    assert (found == []) is right


@pytest.mark.parametrize(("size", "small"), [(0.01345, True), (0.0136, False), (0.1, False)])
def test_a_small_column_is_64_times_smaller_than_the_whole(size: float, small: bool) -> None:
    """With three columns of 1 next to it, the whole has a mean square of 3/4; its root divided by 64 is 0.01353."""
    array = np.ones((16, 4))
    array[:, 0] = size
    assert bool(smaller_columns(array)) is small
