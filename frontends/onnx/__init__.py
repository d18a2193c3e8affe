"""The ONNX frontend: reads .onnx files of any opset, with weights left on disk, and ONNX models in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from convert.plugin import Operator
from convert.rules.listing import operator_rows

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options
    from convert.request.source import Source

KINDS = {
    "onnx": "ONNX file (.onnx), external data beside it",
    "onnx-object": "onnx.ModelProto or onnx_ir.Model (Python)",
}


READS: dict[str, tuple[str, ...]] = {"outputs": ("onnx", "onnx-object")}
FIXED_VALUES = "assigned"
"""Python numbers are example inputs; `n=3` fixes one."""


def claims(model: Any) -> str | None:
    """Return `onnx-object` for a ModelProto or an onnx_ir model, else None."""
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(model).__mro__}
    proto = type(model).__name__ == "ModelProto" and hasattr(model, "opset_import")
    return "onnx-object" if proto or "onnx_ir._core.Model" in names or "onnx_ir.Model" in names else None


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the model at the canonical opset with dtypes and shapes; weights stay on disk until they are written.

    Raises `BadInput` for a broken file or one that refers to files outside its folder, `Unsupported` for operators that
    the canonical opset cannot express, and `UsageError` for input specs that contradict the model.
    """
    from .reader import read_model

    return read_model(source, options, report)


def find_contradiction(source: Source) -> str:
    """Return what ONNX's own inference reports about a file on which a rule failed; "" if it reports nothing."""
    from .strict import find_contradiction as find

    return find(source)


def preload() -> None:
    """Import the modules needed for reading, without starting a thread, because warm workers fork afterwards."""
    from . import reader  # noqa: F401


def operators() -> Iterable[Operator]:
    """Yield every operator that the installed onnx defines, and those of ONNX Runtime that have a rule."""
    import onnx

    from . import ops  # noqa: F401  (fills the table)
    from .rules import runtime_op

    yield from operator_rows(runtime_op)

    for schema in sorted(onnx.defs.get_all_schemas(), key=lambda s: (s.domain, s.name)):
        if schema.domain in ("", "ai.onnx.ml") and not schema.deprecated:
            yield Operator(f"{schema.domain}::{schema.name}" if schema.domain else schema.name)
