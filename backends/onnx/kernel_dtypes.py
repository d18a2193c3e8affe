"""Which dtypes the installed onnxruntime has kernels for, and what is said of a model that it will not load."""

from __future__ import annotations

from functools import cache

import onnx_ir as ir

from convert.errors import ConvertError
from convert.report import Report
from convert.runners.onnx import import_onnxruntime


@cache
def _kernels() -> frozenset[tuple[str, str]]:
    """The operators of ONNX that the installed onnxruntime has kernels for, with each dtype."""
    import_onnxruntime()
    from onnxruntime.capi import _pybind_state

    found = _pybind_state.get_all_opkernel_def() if hasattr(_pybind_state, "get_all_opkernel_def") else []
    return frozenset(
        (kernel.op_name, dtype) for kernel in found if not kernel.domain for dtypes in kernel.type_constraints.values()
        for dtype in dtypes
    )  # fmt: skip


def has_kernel(operator: str, dtype: ir.DataType) -> bool:
    """Whether there is a kernel; so is one where onnxruntime does not tell. A function of ONNX's is made of others."""
    known = _kernels()
    names = {name for name, _ in known}
    return not known or operator not in names or (operator, f"tensor({dtype.name.lower()})") in known


def note_lacking_kernels(model: ir.Model, report: Report) -> None:
    """Tell the user of a lowered model in bfloat16 that onnxruntime does not load; of float16 it casts by itself."""
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
