"""What all tests share: quiet frameworks, one thread each, and the fixtures' folder."""

from __future__ import annotations

import os
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
