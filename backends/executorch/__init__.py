"""The ExecuTorch backend: writes a PyTorch program, which ExecuTorch lowers to a .pte file."""

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

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

FORMATS = {
    "executorch": Format(
        "executorch",
        ".pte",
        False,
        "ExecuTorch .pte for XNNPACK, by ExecuTorch's own lowering (extra executorch)",
        kind="executorch",
        title="ExecuTorch",
        missing_dtypes=("bfloat16",),
        single_size_branch=True,
        names=TargetNames(),
        aliases=("pte",),
    )
}
SNIFF = (Kind("executorch", (".pte",), lambda path, head: head[4:8] == b"ET12"),)


def missing_reason() -> str:
    """Return an empty string if ExecuTorch is installed, else what is missing and how to install it."""
    found = importlib.util.find_spec("executorch")
    return "" if found else f"the package executorch is not installed ({install_command('executorch')})"


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise `Unsupported` for what the PyTorch backend lacks, and `UsageError` if ExecuTorch is missing or a dim has no
    bound.
    """
    from .lowering import dim_bounds

    _check_package()
    dim_bounds(model)
    plugin.backend_for("torch").check(model, "torch", options)


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write `path`.

    Raises `UsageError` if ExecuTorch is missing or a dim has no upper bound, and `Unsupported` for operators that
    PyTorch or ExecuTorch lacks.
    """
    from .lowering import lower_file

    _check_package()
    lower_file(model, path, options, report)


def _check_package() -> None:
    if missing_reason():
        raise UsageError(
            "--to executorch takes ExecuTorch's own lowering, the package executorch, which is not installed",
            hint=f"{install_command('executorch')}, or write torch, a .pt2 that ExecuTorch lowers elsewhere",
        )


def operators(format: str) -> Iterable[Operator]:
    """Return the operators that the PyTorch backend writes. ExecuTorch itself reports which of them it lacks."""
    return plugin.backend_for("torch").operators("torch")
