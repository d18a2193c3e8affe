"""Families of keras.applications through every pair, behind `long`: `keras_applications.py` as a test.

`test_keras_networks.py` is the sample in every run: a small ConvNeXt, a residual network and a vision transformer,
converted in the process of the tests.
"""

from __future__ import annotations

import keras_applications as suite
import pytest


@pytest.mark.long
@pytest.mark.parametrize("name", suite.NAMES)
def test_a_network_goes_through_every_pair(name: str) -> None:
    found = list(suite.outcomes([name]))
    assert [o.pair for o in found] == list(suite.PAIRS)
    assert [o for o in found if o.outcome not in (suite.PASS, suite.GAP, suite.SKIPPED)] == []


def test_no_family_is_left_out() -> None:
    import os
    import pkgutil

    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    applications = pytest.importorskip("keras").src.applications
    modules = {m.name for m in pkgutil.iter_modules(applications.__path__)}
    assert set(suite.FAMILIES) == {m for m in modules if not m.startswith("imagenet") and not m.endswith("test")}
