"""Shared by all tests: quiet frameworks, one thread each, and the folder of fixtures."""

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

# Set before any framework is imported. There are two test processes on two cores, so one thread each is fastest.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("CONVERT_CHECK_PASSES", "1")  # each pass of every test, in child processes too

# Helper modules with assertions, whose failures should show values too.
pytest.register_assert_rewrite("tests.support", "tests.frontends", "tests.backends")

ROOT = Path(__file__).resolve().parents[1]
pytest_plugins = ["tests.support.core_tests", "tests.support.samples", "tests.support.warm_children"]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Return the folder with the trained models."""
    return ROOT / "fixtures"


@pytest.fixture(scope="session")
def caffe2_nets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Nets:
    """Return the nets of this run's rows, each of which is written once.

    A test without a `row` concerns the whole table; other tests have rows of their own.
    """
    from tests.support.caffe2_support import Nets
    from tests.support.cases import rows_of_package

    users = [item for item in request.session.items if "caffe2_nets" in getattr(item, "fixturenames", ())]
    wanted = [getattr(item, "callspec", None) for item in users]
    rows = {id(call.params["row"]): call.params["row"] for call in wanted if call and "row" in call.params}
    if not all(call and "row" in call.params for call in wanted):
        rows |= {id(param.values[0]): param.values[0] for param in rows_of_package("tests.backends.caffe2.ops")}
    return Nets(list(rows.values()), Path(tmp_path_factory.mktemp("nets")))


@pytest.fixture(scope="session")
def caffe2_ends(caffe2_nets: Nets) -> Nets:
    """Return the same nets with their outcomes in the real Caffe2, which runs once, if it is available."""
    from tests.support.caffe2_support import needs_caffe2

    return caffe2_nets if needs_caffe2() else caffe2_nets.run()


@pytest.fixture
def caffe2_outcomes(caffe2_ends: Nets) -> Nets:
    """Return the nets with their outcomes; skip the test without a Caffe2."""
    from tests.support.caffe2_support import needs_caffe2

    if reason := needs_caffe2():
        pytest.skip(reason)
    return caffe2_ends


def _seed() -> None:
    """Seed every loaded random generator, so that failures are reproducible.

    torch.manual_seed also queues seeds for three kinds of devices, each with its call stack as text: 1 ms a test.
    """
    random.seed(0)
    seeds = {"numpy": "random.seed", "torch": "default_generator.manual_seed", "onnxruntime": "set_seed"}
    for framework, name in seeds.items():
        if (seed := sys.modules.get(framework)) is not None:
            for part in name.split("."):
                seed = getattr(seed, part)
            seed(0)
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.random.set_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Switch garbage collection off during the collection of tests, whose objects all stay alive."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # otherwise each garbage collection walks millions of objects that stay
        gc.enable()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Seed before a module is imported, because modules sample example inputs at import."""
    _seed()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed before each test, so that it samples the same numbers alone as in the suite."""
    _seed()
