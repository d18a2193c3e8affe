"""The numbers of a comparison, on arrays with known errors: bounds, noise floors, outliers, constant outputs."""

from __future__ import annotations

import numpy as np
import pytest

from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.compare.narrow import NarrowOutput, compare_narrow
from convert.parity.compare.outputs import argmax_agreement, compare, float64_error, vacuous_reason
from convert.parity.magnitudes import rms

SIZE = 4096
EXACT = np.linspace(-3, 3, SIZE) + 0.1
SIGNS = np.where(np.arange(SIZE) % 2, 1.0, -1.0)


def noisy(share: float) -> np.ndarray:
    """Return the exact numbers in float32, moved by `share` of their root mean square, alternately up and down."""
    return (EXACT + SIGNS * share * rms(EXACT)).astype(np.float32)


@pytest.mark.parametrize(("times", "status"), [(0.5, PASS), (3.9, PASS), (4.1, FAIL), (100.0, FAIL)])
def test_the_error_may_be_four_times_the_sources(times: float, status: str) -> None:
    row = compare("y", [EXACT, 0.5 * EXACT], [noisy(1e-4), 0.5 * noisy(1e-4)], [noisy(times * 1e-4), 0.5 * noisy(1e-4)])
    assert row.status == status
    if status == FAIL:
        assert row.reason.startswith(f"error {times * 1e-4:.2e} is {times:.1f} times the noise floor 1.00e-04")
    assert max(s.error for s in row.sets) == pytest.approx(max(times, 1 if len(row.sets) > 1 else 0) * 1e-4, rel=1e-2)
    assert row.floor == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize(("share", "status"), [(15 * 2.0**-24, PASS), (18 * 2.0**-24, FAIL)])
def test_an_exact_source_has_a_floor_of_four_roundings(share: float, status: str) -> None:
    """The bound is then 16 roundings of float32, measured in numbers that float32 holds exactly."""
    exact = np.where(np.arange(64) % 2, 1.0, -1.0)
    target = (exact * (1 + share)).astype(np.float32)
    off = rms(target.astype(np.float64) - exact)
    row = compare("y", [exact, 2 * exact], [exact.astype(np.float32), (2 * exact).astype(np.float32)],
                  [target, (2 * exact).astype(np.float32)])  # fmt: skip
    assert row.status == status, off * 2**24


@pytest.mark.parametrize(("dtype", "roundoff"), [(np.float16, 2.0**-11), (np.float64, 2.0**-53)])
def test_the_least_floor_is_of_the_dtype(dtype: type, roundoff: float) -> None:
    exact = SIGNS[:64]
    row = compare("y", [exact, exact * 0.5], *[[exact.astype(dtype), (exact * 0.5).astype(dtype)]] * 2)
    assert row.status == PASS
    assert row.floor == pytest.approx(4 * roundoff)
    assert (row.error, row.worst) == (0, 0)


@pytest.mark.parametrize(("times", "status"), [(15.0, PASS), (17.0, FAIL)])
def test_one_element_may_be_sixteen_times_the_sources_worst(times: float, status: str) -> None:
    target = noisy(1e-4).astype(np.float64)
    target[7] = EXACT[7] + times * 1e-4 * rms(EXACT)
    row = compare("y", [EXACT, 0.5 * EXACT], [noisy(1e-4), (0.5 * EXACT).astype(np.float32)],
                  [target.astype(np.float32), (0.5 * EXACT).astype(np.float32)])  # fmt: skip
    assert row.status == status
    if status == FAIL:
        assert row.reason.startswith(f"an element is off by {times * 1e-4:.2e}, against 1.00e-04 in the source")
        assert row.worst == pytest.approx(times * 1e-4, rel=1e-2)


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (np.float32([1, 2]), np.float64([1, 2]), "dtype float64 where the source has float32"),
        (np.float32([1, 2]), np.float32([[1, 2]]), "shape [1, 2] where the source has [2]"),
        (np.float32([1, np.nan]), np.float32([1, 2]), "NaN or infinity on one side only (0 in the target, 1 in the"),
        (np.float32([1, 2]), np.float32([np.inf, np.nan]), "NaN or infinity on one side only (2 in the target, 0 in"),
        (np.float32([1, np.inf]), np.float32([1, -np.inf]), "NaN or infinity on one side only (1 in the target, 1 in"),
        (np.array([1, 2, 3]), np.array([1, 0, 0]), "2 of 3 elements differ"),
        (np.array([True, False]), np.array([True, True]), "1 of 2 elements differ"),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), "1 of 2 elements differ"),
    ],
)
def test_other_dtypes_shapes_and_kinds_of_numbers_fail(source: np.ndarray, target: np.ndarray, reason: str) -> None:
    row = compare("y", [source], [source], [target])
    assert row.status == FAIL
    assert row.reason.startswith(reason)


def test_the_same_nan_and_infinity_pass() -> None:
    exact = np.array([1.0, np.nan, np.inf, -np.inf, 2.0])
    given = exact.astype(np.float32)
    row = compare("y", [exact, exact * 2], [given, given * 2], [given, given * 2])
    assert (row.status, row.error) == (PASS, 0)


def test_an_integer_that_the_source_itself_gets_otherwise_is_noise() -> None:
    reference, source = np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])
    assert compare("y", [reference], [source], [np.array([1, 2, 3, 4])]).status == PASS
    row = compare("y", [reference], [source], [np.array([1, 2, 0, 4])])
    assert (row.status, row.error, row.floor) == (FAIL, 0.25, 0.0)


@pytest.mark.parametrize(
    ("target", "status"),
    [([10, 250, 40], PASS), ([10, 200, 40], PASS), ([10, 230, 40], PASS), ([10, 400, 40], PASS), ([10, 150, 40], PASS),
     ([10, 401, 40], FAIL), ([10, -1000, 40], FAIL), ([10, 200, 41], FAIL)],
)  # fmt: skip
def test_an_undecided_integer_is_held_to_what_float32_makes_of_it(target: list[int], status: str) -> None:
    """200 in float64 and 250 in float32: up to four times that distance is rounding, and no more."""
    row = compare("y", [np.array([10, 200, 40])], [np.array([10, 250, 40])], [np.array(target)])
    assert row.status == status


def test_undecided_words_and_booleans_are_one_or_the_other() -> None:
    words = [np.array([w], object) for w in "abc"]
    assert [compare("y", [words[0]], [words[1]], [w]).status for w in words] == [PASS, PASS, FAIL]
    true, false = np.array([True]), np.array([False])
    assert [compare("y", [true], [false], [t]).status for t in (true, false)] == [PASS, PASS]
    assert compare("y", [np.array(7)], [np.array(8)], [np.array(800)]).status == FAIL, "of no dims"


def test_the_first_feed_that_fails_ends_it() -> None:
    row = compare("y", [EXACT] * 3, [noisy(1e-4)] * 3, [noisy(1e-4), noisy(1e-2), noisy(1.0)])
    assert row.status == FAIL
    assert len(row.sets) == 2
    assert row.error == pytest.approx(1e-2, rel=1e-2)


@pytest.mark.parametrize(
    ("rtol", "atol", "status"),
    [(0.011, None, PASS), (0.009, None, FAIL), (None, 0.011, PASS), (None, 0.009, FAIL), (0.006, 0.006, PASS)],
)
def test_tolerances_replace_the_bound(rtol: float | None, atol: float | None, status: str) -> None:
    source = np.float32([1.0, -1.0, np.nan, 0.5])
    target = np.float32([1.01, -1.0, np.nan, 0.5])
    row = compare("y", [source], [source], [target], rtol=rtol, atol=atol)
    assert row.status == status
    if status == FAIL:
        assert row.reason == f"1 of 4 elements are outside rtol={rtol}, atol={atol}"
    assert row.sets == []


def test_tolerances_do_not_loosen_dtypes_or_words() -> None:
    word = [np.array(["a"], object)]
    assert compare("y", word, word, [np.array(["b"], object)], rtol=1.0).reason == "strings differ"
    words = [*word, np.array(["b"], object)]
    assert compare("y", words, words, words, rtol=1.0).status == PASS
    ones = [np.ones(2, np.float32)]
    assert compare("y", ones, ones, [np.ones(2)], atol=9.0).status == FAIL


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ([np.zeros((0, 3))], "the output is empty"),
        ([np.full(3, np.nan)], "the output is NaN everywhere"),
        ([np.full(3, 2.5)], "the output has one value everywhere, 2.5"),
        ([np.zeros(2), np.zeros(2)], "the output has one value everywhere, 0.0"),
        ([np.array([1.0, 2.0])] * 2, "the output does not depend on the inputs"),
        ([np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-8])], "the output does not depend on the inputs"),
        ([np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-6])], ""),
        ([np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([1.0, 3.0])], ""),
        ([np.array([1.0, 2.0])], ""),
        ([np.array([2.0])], ""),
        ([np.array([1, 2])] * 2, "the output does not depend on the inputs"),
        ([np.array([1, 2]), np.array([1, 3])], ""),
        ([np.array([True, False])] * 2, "the output does not depend on the inputs"),
        ([np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0])], ""),
        ([np.array(["a", "a"], object)], "the output has one value everywhere, 'a'"),
        ([np.array(["a"], object), np.array(["a"], object)], "the output has one value everywhere, 'a'"),
        ([np.array(["a", "b"], object)] * 2, "the output does not depend on the inputs"),
        ([np.array(["a", "b"], object), np.array(["a", "c"], object)], ""),
        ([np.array([np.nan, 1.0]), np.array([np.nan, 2.0])], ""),
    ],
)
def test_what_would_prove_nothing(arrays: list[np.ndarray], reason: str) -> None:
    assert vacuous_reason(arrays) == reason
    singles = [a if a.dtype.kind in "Oib" else a.astype(np.float32) for a in arrays]
    row = compare("y", arrays, singles, singles)
    assert (row.status, row.reason) == ((INCONCLUSIVE, reason) if reason else (PASS, ""))


ROW, INDEPENDENT = np.array([[1.0, -2.0, 3.0]]), "the output does not depend on the inputs"


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ([ROW.repeat(2, 0), ROW, ROW.repeat(3, 0)], INDEPENDENT),
        ([ROW.repeat(2, 0), ROW * (1 + 2.0**-26), ROW.repeat(3, 0)], INDEPENDENT),
        ([ROW.repeat(2, 0), ROW * (1 + 2.0**-20)], ""),
        ([ROW.repeat(2, 0), np.concatenate([ROW, ROW, ROW * 2])], ""),
        ([ROW.T.repeat(2, 1), ROW.T.repeat(3, 1)], INDEPENDENT),
        ([ROW.repeat(2, 0), ROW.repeat(3, 0)[None]], ""),
        ([ROW.repeat(2, 0), np.zeros((0, 3)), ROW], INDEPENDENT),
        # A sequence whose positions differ, in batches and lengths of several sizes.
        ([np.tile(np.arange(n) ** 2.0 + 1, (b, 1)) for b, n in ((2, 5), (1, 4), (3, 7))], INDEPENDENT),
        ([np.tile(np.arange(n) ** 2.0 + b, (b, 1)) for b, n in ((2, 5), (1, 4), (3, 7))], ""),
        # The set of one step agrees with the others in its only position; their other positions vary.
        ([np.array([[0.0, 5.0], [0.0, 6.0]]), np.array([[0.0]]), np.array([[0.0, 7.0, 8.0]])], ""),
        # Masked and infinite elements are included.
        ([np.array([[-3.4e38, 1.0]] * 2), np.array([[-3.4e38, 2.0]])], ""),
        ([np.array([[-3.4e38, 1.0]] * 2), np.array([[-3.4e38, 1.0]])], INDEPENDENT),
        ([np.array([-np.inf, 1.0]), np.array([-np.inf, 2.0])], ""),
        ([np.array([-np.inf, 1.0, 2.0]), np.array([-np.inf, 1.0, 2.0])], INDEPENDENT),
        ([np.array([np.nan, 1.0, 2.0]), np.array([1.0, np.nan, 2.0])], ""),
        ([np.array([[1.0, 2.0]] * 2) > 1, np.array([[1.0, 2.0]]) > 1], INDEPENDENT),
        ([np.array([[1.0, 2.0]] * 2) > 1, np.array([[2.0, 1.0]]) > 1], ""),
        ([ROW[0].astype(np.float32)[None].repeat(n, 0) for n in (2, 1, 3)], INDEPENDENT),
    ],
)
def test_rows_that_are_the_same_whatever_the_input(arrays: list[np.ndarray], reason: str) -> None:
    assert vacuous_reason(arrays) == reason


def test_rounding_that_decides_on_sizes_proves_nothing() -> None:
    source = np.float32([1, 2, 3])
    row = compare("y", [np.array([1.0, 2.0])], [source], [source])
    assert row.status == INCONCLUSIVE
    assert row.reason == "rounding decides how many elements there are: [3] in float32, [2] in float64"


def test_numbers_that_float32_has_alone_are_compared_with_the_source() -> None:
    exact, single = np.array([np.nan, 1.0, 2.0]), np.float32([0.5, 1.0, 2.0])
    assert compare("y", [exact], [single], [np.float32([0.5003, 1.0, 2.0])]).status == PASS
    row = compare("y", [exact], [single], [np.float32([0.6, 1.0, 2.0])])
    assert row.status == INCONCLUSIVE
    assert row.reason == "1 elements are numbers in float32 and none in float64, and differ"


def test_a_decision_that_float32_takes_otherwise_hides_no_error_of_the_others() -> None:
    """One row of 1,000 differs in the source, which makes a noise floor of 3 %."""
    rng = np.random.default_rng(0)
    exact = rng.standard_normal((1000, 4))
    flipped = exact.copy()
    flipped[7] = rng.standard_normal(4)
    single = flipped.astype(np.float32)
    for factor, status in ((1.0, PASS), (1 + 1e-6, PASS), (1.01, FAIL), (0.999, FAIL)):
        row = compare("y", [exact], [single], [(factor * exact).astype(np.float32)])
        assert row.status == status, (factor, row.reason)
        assert row.floor > 0.01
    other = exact.copy()
    other[300:310] = rng.standard_normal((10, 4)) / 9
    assert compare("y", [exact], [single], [other.astype(np.float32)]).status == PASS, "it may decide others otherwise"
    noisy = [(exact * (1 + 0.01 * rng.standard_normal(exact.shape))).astype(np.float32) for _ in range(2)]
    assert compare("y", [exact], noisy[:1], noisy[1:]).status == PASS


@pytest.mark.parametrize(("numbers", "sets"), [(1, 8), (2, 1), (2, 3), (3, 3), (10, 1)])
def test_few_narrow_numbers_are_judged_by_the_noise_of_all_sets(numbers: int, sets: int) -> None:
    """A classifier of two classes in 8 bits: its float32 rounding is no measure, and two numbers can be exact."""
    rng = np.random.default_rng(numbers)
    alarms = misses = 0
    for _ in range(100):
        exact = [rng.standard_normal((1, numbers)) for _ in range(sets)]
        rounded, target = (
            [(e + 0.01 * rng.standard_normal(e.shape)).astype(np.float32) for e in exact] for _ in range(2)
        )
        alarms += compare_narrow("y", NarrowOutput(exact, rounded, target, exact)).status == FAIL
        wrong = [2 * e for e in target]
        misses += compare_narrow("y", NarrowOutput(exact, rounded, wrong, exact)).status != FAIL
    assert alarms <= 6
    assert misses <= 6


@pytest.mark.parametrize(("numbers", "sets", "status"), [(1, 4, INCONCLUSIVE), (1, 5, PASS), (2, 3, PASS)])
def test_a_few_narrow_numbers_in_all_prove_nothing(numbers: int, sets: int, status: str) -> None:
    exact = [np.full((1, numbers), 1.0 + n) for n in range(sets)]
    near = [(e * 1.01).astype(np.float32) for e in exact]
    assert compare_narrow("y", NarrowOutput(exact, near, near, exact)).status == status


@pytest.mark.parametrize(("noise", "status"), [(0.24, PASS), (0.26, INCONCLUSIVE)])
def test_narrow_numbers_that_move_the_output_as_much_as_its_size_prove_nothing(noise: float, status: str) -> None:
    row = compare_narrow(
        "y", NarrowOutput([EXACT, EXACT * 2], [noisy(noise), noisy(noise) * 2], [noisy(noise), noisy(noise) * 2])
    )
    assert row.status == status
    if status == INCONCLUSIVE:
        assert row.reason == "narrower numbers alone move the output by 26% of its size"


@pytest.mark.parametrize(
    ("reference", "graph", "error"),
    [
        (np.array([3.0, -4.0]), np.array([3.0, -4.5]), 0.5 / np.sqrt(12.5)),
        (np.array([3.0, np.nan]), np.array([3.3, np.nan]), 0.1),
        (np.array([3.0, np.nan]), np.array([3.0, 1.0]), np.inf),
        (np.array([3.0, np.inf]), np.array([3.0, -np.inf]), np.inf),
        (np.array([np.nan]), np.array([np.nan]), 0.0),
        (np.array([1.0]), np.array([[1.0]]), np.inf),
        (np.array([1, 2]), np.array([1, 2]), 0.0),
        (np.array([1, 2]), np.array([1, 3]), np.inf),
        (np.array([3 + 4j]), np.array([3 + 3j]), 0.2),
        (np.zeros(2), np.zeros(2), 0.0),
    ],
)
def test_the_distance_of_the_graph_in_float64(reference: np.ndarray, graph: np.ndarray, error: float) -> None:
    assert float64_error(reference, graph) == pytest.approx(error)


def test_agreement_is_counted_in_rows_of_two_or_more() -> None:
    reference = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    target = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert argmax_agreement([reference, reference], [target, reference]) == 0.875
    assert argmax_agreement([reference[:, :1]], [target[:, :1]]) is None
    assert argmax_agreement([reference[0]], [target[0]]) is None
    assert argmax_agreement([reference.astype(int)], [target.astype(int)]) is None
    assert argmax_agreement([], []) is None


def test_root_mean_squares() -> None:
    with np.errstate(all="raise"):
        assert rms(np.array([3e300, -4e300])) == pytest.approx(np.sqrt(12.5) * 1e300)
    assert rms(np.array([np.inf, 1.0])) == np.inf
    assert rms(np.array([3.0, -4.0])) == pytest.approx(np.sqrt(12.5))
    assert rms(np.array([3 + 4j])) == 5
    assert rms(np.zeros(0)) == 0


@pytest.mark.parametrize("dtype", [np.int64, bool, np.float32])
def test_an_output_without_elements_proves_nothing(dtype: type) -> None:
    empty = np.zeros((0, 3), dtype)
    row = compare("y", [empty], [empty], [empty])
    assert (row.status, row.reason, row.error) == (INCONCLUSIVE, "the output is empty", 0)
