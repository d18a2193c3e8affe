"""Runs packages in Core ML, on the CPU of a Mac, in float32."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from convert.errors import BadInput, ConvertError, Unsupported, UsageError
from convert.request.options import Options
from convert.request.source import Source

from . import missing_reason

KINDS: Sequence[str] = ("coreml",)


def available() -> str:
    """Return an empty string if Core ML runs here, else what is missing."""
    return "Core ML runs on macOS only" if sys.platform != "darwin" else missing_reason()


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Return outputs by name for each dict of inputs, computed on the CPU, because other units compute in float16.

    Raises `Unsupported` for float64 and for integers of more than 32 bits, `BadInput` for a package that Core ML does
    not load, and `UsageError` for unknown inputs.
    """
    if precision != "float32":
        raise Unsupported("Core ML does not compute in float64")
    import coremltools

    try:
        model = coremltools.models.MLModel(str(source.file), compute_units=coremltools.ComputeUnit.CPU_ONLY)
    except Exception as error:  # any error: Core ML passes its own errors through
        raise BadInput(f"Core ML cannot load {source.file.name}: {_one_line(error)}") from error
    description = model.get_spec().description
    names = [value.name for value in description.input]
    outputs = [value.name for value in description.output]
    found = []
    for feed in feeds:
        given = _given(feed, names)
        try:
            answer: Mapping[str, Any] = model.predict(given)
        except Exception as error:  # any error: Core ML passes its own errors through
            raise ConvertError(f"Core ML failed to run {source.file.name}: {_one_line(error)}") from error
        found.append({name: np.array(answer[name]) for name in outputs})
    return found


def _given(feed: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return a feed in dtypes that Core ML supports: integers and booleans become int32."""
    if unknown := [name for name in feed if name not in names]:
        raise UsageError(f"the model has no input {unknown[0]!r}", hint=f"inputs: {', '.join(names)}")
    found = {}
    for name, array in feed.items():
        narrow = array.astype(np.int32) if array.dtype.kind in "iub" else array
        if not np.array_equal(narrow, array, equal_nan=array.dtype.kind == "f"):
            raise Unsupported(f"Core ML has integers of 32 bits, and {name} holds larger ones")
        found[name] = np.ascontiguousarray(narrow)
    return found


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[-500:]
