"""What all tests share: quiet frameworks, one thread each, and the fixtures' folder."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.caffe2_support import Nets

# Before any framework is imported. Two test processes on two cores: one thread each is fastest.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

# Modules that hold what many tests assert: a failure shows the values there as well.
pytest.register_assert_rewrite("tests.support", "tests.frontends", "tests.backends")

ROOT = Path(__file__).resolve().parents[1]
pytest_plugins = ["tests.support.core_tests", "tests.support.samples", "tests.support.warm_children"]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder with the trained models."""
    return ROOT / "fixtures"


@pytest.fixture(scope="session")
def caffe2_nets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Nets:
    """The nets of the rows that tests of this run are about, each written once.

    A test without a `row` is about the whole table, besides which tests have rows of their own.
    """
    from tests.support.caffe2_support import write_rows
    from tests.support.cases import rows_of_package

    users = [item for item in request.session.items if "caffe2_nets" in getattr(item, "fixturenames", ())]
    wanted = [getattr(item, "callspec", None) for item in users]
    rows = {id(call.params["row"]): call.params["row"] for call in wanted if call and "row" in call.params}
    if not all(call and "row" in call.params for call in wanted):
        rows |= {id(param.values[0]): param.values[0] for param in rows_of_package("tests.backends.caffe2.ops")}
    return write_rows(list(rows.values()), Path(tmp_path_factory.mktemp("nets")))


@pytest.fixture(scope="session")
def caffe2_ends(caffe2_nets: Nets) -> Nets:
    """The same nets with what the real Caffe2 makes of them, if there is one: one start for all of them."""
    from tests.support.caffe2_support import needs_caffe2

    return caffe2_nets if needs_caffe2() else caffe2_nets.run()


@pytest.fixture
def caffe2_outcomes(caffe2_ends: Nets) -> Nets:
    """The nets with their outcomes; without a Caffe2 the test is skipped."""
    from tests.support.caffe2_support import needs_caffe2

    if reason := needs_caffe2():
        pytest.skip(reason)
    return caffe2_ends


def _seed() -> None:
    """Every generator that is loaded starts at the same place: what fails once must fail again."""
    random.seed(0)
    for framework, name in (("numpy", "random.seed"), ("torch", "manual_seed"), ("onnxruntime", "set_seed")):
        if (seed := sys.modules.get(framework)) is not None:
            for part in name.split("."):
                seed = getattr(seed, part)
            seed(0)
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.random.set_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Frameworks, tables and tests are all that is made here: nothing of it is garbage, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # else each search for garbage goes through millions of objects that stay
        gc.enable()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Modules draw example inputs while they are imported."""
    _seed()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests draw the same numbers alone as in the suite."""
    _seed()
