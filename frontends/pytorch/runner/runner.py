"""Runs PyTorch models in their own dtypes, or with everything floating widened to float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from convert.outcome.extras import install_command
from convert.request.options import Options
from convert.request.source import Source

if TYPE_CHECKING:
    from convert.runtimes.generation import EncoderGeneration, Generation
    from convert.runtimes.trace import Trace

KINDS: Sequence[str] = (
    "torch-module", "torch-state-dict", "safetensors", "hf-folder", "diffusers-folder", "torchscript", "torch-export",
    "torch-code", "torch-module-object", "torchscript-object", "torch-export-object",
)  # fmt: skip


def available() -> str:
    """Return an empty string if PyTorch is installed, else the name of what is missing."""
    return "" if importlib.util.find_spec("torch") else f"torch is not installed ({install_command('torch')})"


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Return the outputs for each dict of inputs; the module is left unchanged.

    The `precision` "float64" runs a copy with everything floating widened.
    """
    from .run import run as run_source

    return run_source(source, feeds, precision, options)


def run_as_used(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], options: Options
) -> dict[str, list[dict[str, np.ndarray]]]:
    """Return the outputs of the artefact, run as its users run it.

    An exported program checks its guards on the sizes of the inputs; TorchScript runs in the mode of its file.
    """
    from .run import run as run_source

    return {"": run_source(source, feeds, "float32", options, as_used=True)}


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    """Run the source once in float64, operator by operator; return a summary of every value."""
    from .trace import trace as trace_source

    return trace_source(source, feed, options)


def generate(
    source: Source, how: Generation | EncoderGeneration, prompt: Mapping[str, np.ndarray], options: Options
) -> dict[str, np.ndarray]:
    """Generate greedily by transformers' `generate`. Raises `Unsupported` for models of other libraries."""
    from .generate import generate as generate_source

    return generate_source(source, how.tokens, prompt, options)
