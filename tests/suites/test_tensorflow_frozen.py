"""Test frozen graphs of small functions (`tensorflow_frozen.py`): a sample by default, all of them with `long`."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow makes the graphs, and is the oracle")

from tests.suites.tensorflow_frozen import difference, outcome, rows

GRAPHS = {f"{topic}-{made.name}-{form}": (made, form) for topic, made, form in rows()}

# One quick row of each topic and kind.
CHOSEN = (
    "numbers-range_of_three_scalars-old",
    "numbers-one_hot_of_a_depth-open",
    "axes-sum_along_fed_kept-static",
    "axes-split_by_fed_rest-open",
    "shapes-padded_by_computed-old",
    "control-cond_in_while-old",
    "control-cond_of_other_dims-open",
    "text-lookup_to_text-old",
    "text-hash_buckets-open",
    "images-conv_same_2-old",
)


def test_the_tables_are_large_and_names_are_given_once() -> None:
    counts = Counter(form for _, _, form in rows())
    assert sum(counts.values()) == len(GRAPHS) >= 250
    assert min(counts.values()) >= 25


@pytest.mark.parametrize("name", CHOSEN)
def test_a_graph_gives_what_tensorflow_gives(name: str) -> None:
    made, form = GRAPHS[name]
    status, said = outcome(made, form)
    assert status == ("gap" if made.declared(form) else "right"), said


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in CHOSEN])
def test_every_graph(name: str) -> None:
    made, form = GRAPHS[name]
    status, said = outcome(made, form)
    assert status == ("gap" if made.declared(form) else "right"), said


OTHERS = [
    (np.float32([1, 2]), np.float32([[1, 2]])),
    (np.float32([1, 2]), np.float64([1, 2])),
    (np.int32([1, 2]), np.int32([1, 3])),
    (np.float32([1, 2]), np.float32([1, 2.001])),
    (np.float32([1, np.nan]), np.float32([1, 2])),
    (np.float32([1, np.inf]), np.float32([1, -np.inf])),
    (np.array(["a"], object), np.array([b"b"], object)),
]


@pytest.mark.parametrize(("got", "want"), OTHERS)
def test_the_suite_tells_other_results(got: np.ndarray, want: np.ndarray) -> None:
    assert difference(got, want)
    assert not difference(want, want)
