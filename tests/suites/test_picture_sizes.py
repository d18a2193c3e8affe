"""The image networks of `picture_sizes.py` give PyTorch's numbers at ten sizes, or raise an error."""

from __future__ import annotations

import pytest

from tests.suites.picture_sizes import OWN, TIMM, outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OWN, *TIMM])
def test_every_size_is_right(name: str) -> None:
    found = outcome(name)
    assert (found.right, found.silent, found.why) == (10, (), "")
