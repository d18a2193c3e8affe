"""Runs .pte files in ExecuTorch's runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from convert.errors import BadInput, ConvertError, Unsupported, UsageError
from convert.request.options import Options
from convert.request.source import Source

from . import missing_reason
from .child import NAMES

KINDS: Sequence[str] = ("executorch",)


def available() -> str:
    """Return an empty string if ExecuTorch is installed, else what is missing."""
    return missing_reason()


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Return outputs by name for each dict of inputs; the names are read from the file.

    Raises `Unsupported` for float64, `BadInput` for a file that the runtime cannot read or that has no names, and
    `UsageError` for unknown inputs.
    """
    if precision != "float32":
        raise Unsupported("an ExecuTorch program has the dtypes that it was lowered with, and no float64")
    from executorch.runtime import Runtime

    try:
        program = Runtime.get().load_program(source.file)
    except RuntimeError as error:
        raise BadInput(f"ExecuTorch cannot read {source.file.name}: {_one_line(error)}") from error
    if NAMES not in program.method_names:
        raise BadInput(f"{source.file.name} holds no names of its inputs and outputs", hint="write it with convert")
    (content,) = program.load_method(NAMES).execute([])
    names = json.loads(content.numpy().tobytes())
    method = program.load_method("forward")
    return [_outputs(method, feed, names) for feed in feeds]


def _outputs(method: Any, feed: Mapping[str, np.ndarray], names: Mapping[str, list[str]]) -> dict[str, np.ndarray]:
    import torch

    if unknown := [name for name in feed if name not in names["inputs"]]:
        raise UsageError(f"the model has no input {unknown[0]!r}", hint=f"inputs: {', '.join(names['inputs'])}")
    given = [torch.from_numpy(np.ascontiguousarray(feed[name])) for name in names["inputs"]]
    try:
        found = method.execute(given)
    except RuntimeError as error:
        raise ConvertError(f"ExecuTorch failed to run the program: {_one_line(error)}") from error
    return {name: value.numpy().copy() for name, value in zip(names["outputs"], found, strict=True)}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[-500:]
