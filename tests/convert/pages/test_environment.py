"""The versions and the machine that a report names."""

from __future__ import annotations

import platform
from importlib.metadata import version

import numpy as np
import pytest

from convert.pages import environment
from convert.pages.environment import environment_facts


def test_versions_platform_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    found = environment_facts()
    assert found["convert"] == version("convert-models")
    assert (found["Python"], found["platform"]) == (platform.python_version(), platform.platform())
    assert found["processor"].startswith(f"{platform.machine()}, ")
    assert found["numpy"] == np.__version__
    assert found["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert "ATEN_CPU_CAPABILITY" not in found


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(package: str) -> str:
        raise environment.PackageNotFoundError(package)

    monkeypatch.setattr(environment, "version", none)
    found = environment_facts()
    assert found["convert"] == "not installed"
    assert "numpy" not in found
