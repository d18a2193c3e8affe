"""Runs PyTorch models, as they are or with everything floating widened to float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from convert.extras import install_command
from convert.options import Options
from convert.source import Source

if TYPE_CHECKING:
    from convert.runners.generation import EncoderGeneration, Generation
    from convert.runners.trace import Trace

KINDS: Sequence[str] = (
    "torch-module", "torch-state-dict", "safetensors", "hf-folder", "torchscript", "torch-export",
    "torch-code", "torch-module-object", "torchscript-object", "torch-export-object",
)  # fmt: skip


def available() -> str:
    """Empty if PyTorch is installed, else what is missing."""
    return "" if importlib.util.find_spec("torch") else f"torch is not installed ({install_command('torch')})"


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Outputs by name for each dict of inputs; the module is left as it was.

    `precision` float64 runs a copy with everything floating widened.
    """
    from .run import run as run_source

    return run_source(source, feeds, precision, options)


def run_as_used(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], options: Options
) -> dict[str, list[dict[str, np.ndarray]]]:
    """Return the outputs of the artefact as those who load it run it.

    An exported program holds its conditions on sizes against what it is fed; TorchScript runs in the mode of its file.
    """
    from .run import run as run_source

    return {"": run_source(source, feeds, "float32", options, as_used=True)}


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    """One run in float64, operator by operator, with a summary of every value."""
    from .trace import trace as trace_source

    return trace_source(source, feed, options)


def generate(
    source: Source, how: Generation | EncoderGeneration, prompt: Mapping[str, np.ndarray], options: Options
) -> dict[str, np.ndarray]:
    """Greedy generation by transformers' `generate`. Raises `Unsupported` for models of others."""
    from .generate import generate as generate_source

    return generate_source(source, how.tokens, prompt, options)
