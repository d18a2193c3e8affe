"""The dtypes that the installed onnxruntime has kernels for, and the note about a model that it cannot load."""

from __future__ import annotations

from functools import cache

import onnx_ir as ir

from convert.errors import ConvertError
from convert.outcome.report import Report
from convert.runtimes.onnx import import_onnxruntime


@cache
def _kernels() -> frozenset[tuple[str, str]]:
    """Return pairs of ONNX operator and dtype that the installed onnxruntime has kernels for."""
    import_onnxruntime()
    from onnxruntime.capi import _pybind_state

    found = _pybind_state.get_all_opkernel_def() if hasattr(_pybind_state, "get_all_opkernel_def") else []
    return frozenset(
        (kernel.op_name, dtype) for kernel in found if not kernel.domain for dtypes in kernel.type_constraints.values()
        for dtype in dtypes
    )  # fmt: skip


def has_kernel(operator: str, dtype: ir.DataType) -> bool:
    """Return whether there is a kernel; True if onnxruntime does not list kernels, and for functions made of other
    operators. Raises `ConvertError` if it is not installed.
    """
    known = _kernels()
    names = {name for name, _ in known}
    return not known or operator not in names or (operator, f"tensor({dtype.name.lower()})") in known


def note_lacking_kernels(model: ir.Model, report: Report) -> None:
    """Add a note if onnxruntime cannot load a lowered bfloat16 model. It inserts casts for float16 itself."""
    dtype = ir.DataType.BFLOAT16
    nodes = [n for n in model.graph.all_nodes() if not n.domain and any(v.dtype == dtype for v in _values(n))]
    if not nodes:
        return
    try:
        lacking = sorted({n.op_type for n in nodes if not has_kernel(n.op_type, dtype)})
    except ConvertError:  # it is not installed
        return
    if lacking:
        report.note(
            f"onnxruntime on the CPU has no kernels in bfloat16 for {', '.join(lacking)} and does not load the file: "
            "it loads what --dtype bfloat16 writes of the model in float32",
            code="missing-kernels",
        )


def _values(node: ir.Node) -> list[ir.Value]:
    return [v for v in (*node.inputs, *node.outputs) if v is not None]
