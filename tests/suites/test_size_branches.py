"""Run a sample of `size_branches.py`, all of it with -m slow: other sizes give PyTorch's numbers or an error."""

from __future__ import annotations

import pytest

from tests.suites.size_branches import NUMBERS, ONE, TWO, outcome
from tests.support.marks import slow_but

FOUND = (
    "longest", "cut and grown", "sliced", "a sum that fails", "contiguous", "counted columns",
    "a whole shape", "least above two", "a view in fours that fails", "a key with the size", "halves", "as long",
    "new_tensor", "as_tensor", "pad value", "isclose", "min",
)  # fmt: skip


@pytest.mark.parametrize("name", slow_but([*ONE, *NUMBERS, *TWO], *FOUND))
def test_no_size_is_silent(name: str) -> None:
    assert not outcome(name).silent
