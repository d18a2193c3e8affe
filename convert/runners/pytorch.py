"""Runs PyTorch models, as they are or with everything floating widened to float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from convert import plugin
from convert.options import Options
from convert.source import Source

if TYPE_CHECKING:
    from convert.parity.trace import Trace

KINDS: Sequence[str] = (
    "torch-module", "torch-state-dict", "safetensors", "hf-folder", "torchscript", "torch-export",
    "torch-module-object", "torchscript-object", "torch-export-object",
)  # fmt: skip


def available() -> str:
    """Empty if PyTorch is installed, else what is missing."""
    return "" if importlib.util.find_spec("torch") else "torch is not installed"


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Outputs by name for each dict of inputs; the module is left as it was.

    The module is read by the PyTorch frontend, which also knows its names. `precision` float64 runs a widened copy.
    """
    frontend = plugin.frontends()["pytorch"]
    outputs: list[dict[str, np.ndarray]] = frontend.run(source, feeds, precision=precision, options=options)  # type: ignore[attr-defined]
    return outputs


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    """One run in float64, operator by operator, with a summary of every value."""
    frontend = plugin.frontends()["pytorch"]
    found: Trace = frontend.trace(source, feed, options)  # type: ignore[attr-defined]
    return found
