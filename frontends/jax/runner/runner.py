"""Runs programs in JAX on the CPU, unchanged or with all floating-point values in float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence

import numpy as np

from convert.outcome.extras import install_command
from convert.request.options import Options
from convert.request.source import Source

KINDS: Sequence[str] = (
    "jax-export", "stablehlo", "jax-export-object", "jax-function-object", "jax-module-object",
)  # fmt: skip


def available() -> str:
    """Return an empty string if JAX is installed, else what is missing."""
    return "" if importlib.util.find_spec("jax") else f"jax is not installed ({install_command('jax')})"


def environment(source: Source) -> dict[str, str]:
    """Return the environment variables of the child process, which keep JAX from looking for other devices."""
    return {"JAX_PLATFORMS": "cpu"}


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Return outputs by name for each dict of inputs. Raises `Unsupported` for float64 if the program reads bits."""
    from .run import run as run_source

    return run_source(source, feeds, precision, options)
