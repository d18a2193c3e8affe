"""Outputs of few elements: one draw of a rounding error is no noise floor, and a defect is no rounding error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from convert import plugin
from convert.options import Options
from convert.parity.draws import DRAWS, group_draws, more_draws, unsettled_feeds
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, VerifyMethod, judge, settle_verdict
from convert.report import Report
from convert.source import Source
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict

WEIGHTS = np.random.default_rng(1000).standard_normal(300)


def graph(dtype: int = TensorProto.FLOAT) -> ir.Model:
    """One number out of 300: what it computes is not asked here."""
    nodes = [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)]
    ends = [[helper.make_tensor_value_info("x", dtype, [300])], [helper.make_tensor_value_info("y", dtype, [])]]
    proto = helper.make_model(helper.make_graph(nodes, "net", *ends), opset_imports=[helper.make_opsetid("", 23)])
    return plugin.frontends()["onnx"].read(Source("onnx-object", model=proto), Options(), Report("read"))


def product(x: np.ndarray, dtype: type, order: np.ndarray) -> np.ndarray:
    """The product of x and the weights, summed from left to right in the order given."""
    terms = (x.astype(dtype) * WEIGHTS.astype(np.float32).astype(dtype))[order]
    return np.asarray(np.cumsum(terms, dtype=dtype)[-1])


def verdict_of(x: np.ndarray, offset: float) -> tuple[str, list[str]]:
    """The verdict on a target that sums in another order, and adds `offset`."""
    model, feeds = graph(), [Feed("one", {"x": x}, edge=True)]
    forth, back = np.arange(300), np.random.default_rng(3).permutation(300)

    def run(feeds: Sequence[Feed]) -> RunOutputs:
        assert len(feeds) == 1 or not any(f.edge for f in feeds), "none may be left out now"
        xs = [f.arrays["x"] for f in feeds]
        exact = [{"y": product(x, np.float64, forth)} for x in xs]
        plain = [{"y": product(x, np.float32, forth)} for x in xs]
        target = [{"y": product(x, np.float32, back) + np.float32(offset)} for x in xs]
        return RunOutputs({"float32": plain, "float64": exact}, target, exact)

    runs = run(feeds)
    found = settle_verdict(judge(model, feeds, runs, VerifyMethod()), model, feeds, runs, run, VerifyMethod())
    return found.status, found.feeds


def test_no_false_alarm_over_many_inputs_and_no_miss() -> None:
    """The same products in two orders, 40 times; an offset beyond their rounding errors is found each time."""
    first = again = 0
    for seed in range(40):
        x = np.random.default_rng(seed).standard_normal(300).astype(np.float32)
        status, feeds = verdict_of(x, 0.0)
        again += "more draws" in feeds[0]
        first += status != PASS
        # Errors of a sum of 300 such terms are about 6e-6: fifteen times that is a defect.
        assert verdict_of(x, 1e-4)[0] == FAIL
    assert first == 0
    assert again > 2, "single draws would have failed"


def test_floats_become_a_little_smaller_and_zero_stays_zero() -> None:
    x = np.array([0.0, 1.0, -2.0, np.inf], np.float32)
    drawn = more_draws(graph(), Feed("one", {"x": x, "ids": np.arange(4)}))
    assert len(drawn) == DRAWS
    for feed in drawn:
        got = feed.arrays["x"]
        assert got.dtype == np.float32
        assert got[0] == 0
        assert np.isinf(got[3])
        assert 0.96 < got[1] <= 1
        assert -2 <= got[2] < -1.92
        np.testing.assert_array_equal(feed.arrays["ids"], np.arange(4))
    assert len({f.arrays["x"].tobytes() for f in drawn}) == DRAWS


def test_integers_change_places_unless_their_range_was_noted() -> None:
    model = graph(TensorProto.INT64)
    drawn = more_draws(model, Feed("one", {"x": np.arange(300)}))
    assert all(sorted(f.arrays["x"]) == list(range(300)) for f in drawn)
    assert len({f.arrays["x"].tobytes() for f in drawn}) == DRAWS
    model.graph.inputs[0].metadata_props["convert.range"] = '[1, 300, "descending"]'
    assert more_draws(model, Feed("one", {"x": np.arange(300)})) == []


def test_a_single_integer_becomes_one_that_the_input_has_elsewhere() -> None:
    model, one = graph(TensorProto.INT64), Feed("one", {"x": np.array([[3]])})
    feeds = [one, Feed("two", {"x": np.array([5, 7, 7])})]
    drawn = more_draws(model, one, feeds)
    assert {int(f.arrays["x"].item()) for f in drawn} == {3, 5, 7}
    assert all(f.arrays["x"].shape == (1, 1) and f.arrays["x"].dtype == np.int64 for f in drawn)
    assert more_draws(model, one, [one]) == []
    model.graph.inputs[0].metadata_props["convert.range"] = '[1, 300, "descending"]'
    assert more_draws(model, one, feeds) == []


def test_draws_belong_to_the_feed_that_they_were_made_from() -> None:
    feeds = [Feed("a", {}), Feed("b", {}), Feed("a", {}, draw_of="a"), Feed("b", {}, draw_of="b"),
             Feed("a", {}, draw_of="a")]  # fmt: skip
    assert group_draws(feeds) == [[0, 2, 4], [1, 3]]


@pytest.mark.parametrize(("source", "status"), [(4, PASS), (3, INCONCLUSIVE)])
def test_rounding_that_decides_the_number_of_elements_proves_nothing(source: int, status: str) -> None:
    rng = np.random.default_rng(0)
    exact, found = rng.standard_normal(4), rng.standard_normal(source).astype(np.float32)
    found = exact.astype(np.float32) if source == 4 else found
    runs = RunOutputs({"float32": [{"y": found}], "float64": [{"y": exact}]}, [{"y": found}], [{"y": exact}])
    assert judge(graph(), [Feed("one", {"x": exact})], runs, VerifyMethod()).status == status


@pytest.mark.parametrize(
    ("shape", "times", "chance"),
    [
        # A thousand floors for one row, the thousandth's root for more: the elements of a row go together.
        ((), 3000.0, True),
        ((3,), 3000.0, True),
        ((3,), 5000.0, False),
        ((1, 3), 3000.0, True),
        ((3, 1), 30.0, True),
        ((3, 1), 50.0, False),
        ((2, 2), 100.0, True),
        ((2, 2), 150.0, False),
        # Of more elements twice the bound, where the number of rows allows that, up to 65,536.
        ((257,), 7.9, True),
        ((257,), 8.5, False),
        ((50, 6), 4.5, True),
        ((50, 6), 5.0, False),
        ((2**16,), 7.9, True),
        ((2**16 + 1,), 5.0, False),
        ((0, 3), 5.0, False),
    ],
)
def test_how_far_beyond_its_floor_an_error_may_be_chance(shape: tuple[int, ...], times: float, chance: bool) -> None:
    """The floor is four roundings, 2**-22; four floors are the bound, and `times` of them the error."""
    exact = np.ones(shape)
    feed = Feed("one", {"x": exact})
    target = exact + times * 2.0**-22
    row = OutputVerdict("y", FAIL, "by its bound")
    found = unsettled_feeds(Verdict(FAIL, outputs=[row]), [feed], [([exact], [exact.astype(np.float32)],
                                                                   [target.astype(np.float32)])])  # fmt: skip
    assert found == ([feed] if chance else [])


def test_what_another_reason_decided_is_not_drawn_again() -> None:
    exact = np.ones((2, 2))
    near = (exact + 5 * 2.0**-22).astype(np.float32)
    feeds = [Feed("one", {"x": exact}), Feed("two", {"x": exact})]
    verdict = Verdict(FAIL, outputs=[OutputVerdict("y", FAIL, "why")])
    single = exact.astype(np.float32)
    both = ([exact, exact], [single, single], [near, near])
    assert unsettled_feeds(verdict, feeds, [both]) == feeds
    far = (exact + 1.0).astype(np.float32)
    for wrong in (far, near.astype(np.float64), near[:1], np.full((2, 2), np.nan, np.float32)):
        assert unsettled_feeds(verdict, feeds, [(*both[:2], [near, wrong])]) == []
    whole = [[a.astype(int)] * 2 for a in (exact, exact, far)]
    assert unsettled_feeds(verdict, feeds, [(whole[0], whole[1], whole[2])]) == []
    passed = Verdict(PASS, outputs=[OutputVerdict("y")])
    assert unsettled_feeds(passed, feeds, [(*both[:2], [single, single])]) == []


@pytest.mark.parametrize(
    ("size", "error", "again"), [(1, 5e-7, False), (1, 2e-6, True), (2, 2e-6, True), (3, 2e-6, False)]
)
def test_one_or_two_numbers_that_pass_with_an_error_are_drawn_again(size: int, error: float, again: bool) -> None:
    """Sixteen roundings of float32, 9.5e-7, pass whatever the source does: no error that chance has made smaller."""
    exact = np.ones(size)
    single = [exact.astype(np.float32)]
    verdict = Verdict(PASS, outputs=[OutputVerdict("y", error=error)])
    feed = Feed("one", {"x": exact})
    assert unsettled_feeds(verdict, [feed], [([exact], single, single)]) == ([feed] if again else [])
