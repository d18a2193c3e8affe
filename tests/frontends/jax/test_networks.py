"""Networks of JAX, Flax and Equinox in four targets, with a dynamic batch and the verdict on."""

from __future__ import annotations

from pathlib import Path

import pytest

import convert
from tests.frontends.jax.networks import NETWORKS

pytestmark = [pytest.mark.not_core, pytest.mark.long]

SUFFIXES = {"onnx": ".onnx", "tf": ".savedmodel", "tflite": ".tflite", "torch": ".pt2"}


@pytest.mark.parametrize("target", SUFFIXES)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, target: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    report = convert.convert(network.build(), target, tmp_path / f"net{SUFFIXES[target]}", inputs=network.inputs)
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
