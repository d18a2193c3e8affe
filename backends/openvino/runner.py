"""Runs OpenVINO's IR on the CPU, in float32."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from convert.errors import BadInput, ConvertError, Unsupported, UsageError
from convert.request.options import Options
from convert.request.source import Source

from . import missing_reason

KINDS: Sequence[str] = ("openvino",)


def available() -> str:
    """Empty if OpenVINO is installed, else what is missing."""
    return missing_reason()


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Return outputs by name for each dict of inputs.

    The CPU plugin is asked for float32: on processors with AMX it computes in bfloat16 by itself. Raises `Unsupported`
    in float64, `BadInput` for a file that OpenVINO does not read, `UsageError` for inputs that it does not have.
    """
    if precision != "float32":
        raise Unsupported("OpenVINO's CPU plugin does not compute in float64")
    modules: dict[str, Any] = sys.modules
    modules.setdefault("openvino_telemetry", None)
    import openvino

    core = openvino.Core()
    try:
        model = core.read_model(str(source.file / "model.xml"))
    except RuntimeError as error:
        raise BadInput(f"OpenVINO cannot read {source.file.name}: {_one_line(error)}") from error
    try:
        compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        names = {_name(port): port.get_element_type().to_dtype() for port in compiled.inputs}
        return [_outputs(compiled, feed, names) for feed in feeds]
    except RuntimeError as error:
        raise ConvertError(f"OpenVINO failed to run {source.file.name}: {_one_line(error)}") from error


def _outputs(compiled: Any, feed: Mapping[str, np.ndarray], dtypes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if unknown := [name for name in feed if name not in dtypes]:
        raise UsageError(f"the model has no input {unknown[0]!r}", hint=f"inputs: {', '.join(dtypes)}")
    given = {name: np.ascontiguousarray(array, dtypes[name]) for name, array in feed.items()}
    found = compiled(given)
    return {_name(port): np.array(found[port]) for port in compiled.outputs}


def _name(port: Any) -> str:
    """Return the name of an input or output. In OpenVINO, an unnamed one has the name of its node."""
    names = sorted(port.get_names())
    return names[0] if names else str(port.get_node().get_friendly_name())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[-500:]
