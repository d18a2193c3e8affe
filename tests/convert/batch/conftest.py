"""These tests are about processes, which must start as they do for users."""

import pytest


@pytest.fixture(autouse=True)
def processes_start_anew(new_interpreters: None) -> None:
    """See `tests/support/warm_children.py`."""
