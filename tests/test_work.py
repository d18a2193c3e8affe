"""The bound on calls that other tests use ends what it bounds, and nothing else."""

import sys
from contextlib import suppress

import pytest

from tests.support.work import TooManyCalls, at_most_calls


def test_the_call_after_the_last_allowed_one_ends_the_code() -> None:
    done: list[int] = []

    def append_forever() -> None:
        while True:
            with suppress(Exception):
                done.append(len(done))

    with pytest.raises(TooManyCalls, match="more than 100 calls"), at_most_calls(100):
        append_forever()
    assert 0 < len(done) <= 100


def test_code_within_its_bound_ends_by_itself() -> None:
    before = sys.getprofile()
    with at_most_calls(100):
        assert sorted([3, 1, 2]) == [1, 2, 3]
    assert sys.getprofile() is before
