"""The Core ML backend: writes a PyTorch program, which coremltools converts to an ML program."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from convert import plugin
from convert.errors import UsageError
from convert.outcome.extras import install_command
from convert.plugin import Format, Kind, Operator
from convert.request.naming import Naming, TargetNames

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

MANIFEST = "Manifest.json"
DATA = "Data/com.apple.CoreML"
MODEL = f"{DATA}/model.mlmodel"
WEIGHTS = f"{DATA}/weights/weight.bin"
_IDENTIFIER = Naming(r"[^A-Za-z0-9_]", r"[A-Za-z_]")
FORMATS = {
    "coreml": Format(
        "coreml",
        ".mlpackage",
        True,
        "Core ML package (ML program, iOS 17 and macOS 14 or newer), by coremltools (extra coreml)",
        kind="coreml",
        title="Core ML package",
        missing_dtypes=("bfloat16",),
        single_size_branch=True,
        folder_files=(MANIFEST, MODEL, WEIGHTS),
        names=TargetNames(_IDENTIFIER, _IDENTIFIER),
        aliases=("mlpackage", "mlprogram", "core-ml", "apple"),
    )
}


def _is_package(path: Path, head: bytes) -> bool:
    """Return whether a folder is a Core ML package with a model in it."""
    return path.is_dir() and (path / MANIFEST).is_file() and (path / MODEL).is_file()


SNIFF = (Kind("coreml", (".mlpackage",), _is_package),)


def missing_reason() -> str:
    """Return an empty string if coremltools is installed, else what is missing and how to install it."""
    found = importlib.util.find_spec("coremltools")
    return "" if found else f"the package coremltools is not installed ({install_command('coremltools')})"


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise an error that lists what Core ML and the PyTorch backend do not support; the model is not changed.

    Raises `UsageError` if coremltools is missing, or for a dim without a maximum size.
    """
    from .converting import check_io, described_inputs

    _check_package()
    described_inputs(model)
    check_io(model)
    plugin.backend_for("torch").check(model, "torch", options)


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write the folder `path`.

    Raises `UsageError` if coremltools is missing or for a dim without a maximum size, and `Unsupported` for operators
    that Core ML, PyTorch or coremltools lacks.
    """
    from convert.graph.names import rename_io

    from .converting import convert_file

    _check_package()
    rename_io(model, FORMATS[format].names, report)
    convert_file(model, path, options, report)


def _check_package() -> None:
    if missing_reason():
        raise UsageError(
            "--to coreml takes Apple's own converter, the package coremltools, which is not installed",
            hint=f"{install_command('coremltools')}, or write torch, a .pt2 that coremltools converts elsewhere",
        )


def operators(format: str) -> Iterable[Operator]:
    """Return the operators that the PyTorch backend writes. coremltools itself reports which of them it lacks."""
    return plugin.backend_for("torch").operators("torch")
