"""The OpenVINO backend: writes ONNX, and has OpenVINO's own converter make its intermediate representation of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from convert import plugin
from convert.errors import UsageError
from convert.outcome.extras import install_command
from convert.plugin import Format, Kind, Operator
from convert.request.naming import TargetNames

from .differences import DIFFERENCES as DIFFERENCES

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

ENTRIES = ("model.xml", "model.bin")
FORMATS = {
    "openvino": Format(
        "openvino",
        ".openvino",
        True,
        "OpenVINO IR: model.xml and model.bin, by OpenVINO's own converter (extra openvino)",
        kind="openvino",
        title="OpenVINO IR",
        missing_dtypes=("bfloat16",),
        folder_files=ENTRIES,
        names=TargetNames(),
        aliases=("ov", "ir", "openvino-ir"),
    )
}


def _is_ir(path: Path, head: bytes) -> bool:
    """Return whether a folder holds an IR under the names that are written here."""
    return path.is_dir() and all((path / name).is_file() for name in ENTRIES)


SNIFF = (Kind("openvino", (".openvino",), _is_ir),)


def missing_reason() -> str:
    """Return an empty string if OpenVINO is installed, else what is missing and how to install it."""
    found = importlib.util.find_spec("openvino")
    return "" if found else f"the package openvino is not installed ({install_command('openvino')})"


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise what the ONNX backend lacks, and `UsageError` without OpenVINO; changes nothing."""
    _check_package()
    plugin.backend_for("onnx").check(model, "onnx", options)


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write the folder `path`.

    Raises `UsageError` without OpenVINO, `Unsupported` for what ONNX or OpenVINO's converter lacks.
    """
    from convert.graph.names import rename_io

    from .converting import convert_file

    _check_package()
    rename_io(model, FORMATS[format].names, report)
    convert_file(model, path, options, report)


def _check_package() -> None:
    if missing_reason():
        raise UsageError(
            "--to openvino takes OpenVINO's own converter, the package openvino, which is not installed",
            hint=f"{install_command('openvino')}, or write onnx, which OpenVINO reads as it is",
        )


def operators(format: str) -> Iterable[Operator]:
    """Return the operators that the ONNX backend writes. OpenVINO itself reports which of them it lacks."""
    return plugin.backend_for("onnx").operators("onnx")
