"""What all tests share: quiet frameworks, one thread each, and the fixtures' folder."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

# Before any framework is imported. Two test processes on two cores: one thread each is fastest.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder with the trained models."""
    return ROOT / "fixtures"


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


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Modules draw example inputs while they are imported."""
    _seed()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests draw the same numbers alone as in the suite."""
    _seed()
