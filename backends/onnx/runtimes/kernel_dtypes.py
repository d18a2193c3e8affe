"""The dtypes that the installed onnxruntime has kernels for, and the note about a model that it cannot load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import onnx_ir as ir

from convert.errors import ConvertError
from convert.outcome.report import Report
from convert.runtimes.onnx import import_onnxruntime


@cache
def _kernels() -> Mapping[str, frozenset[str]]:
    """Return the dtypes of the installed onnxruntime's kernels, by operator; a domain stands before its name."""
    import_onnxruntime()
    from onnxruntime.capi import _pybind_state

    kernels = _pybind_state.get_all_opkernel_def() if hasattr(_pybind_state, "get_all_opkernel_def") else []
    found: dict[str, set[str]] = {}
    for kernel in kernels:
        dtypes = {dtype for constraint in kernel.type_constraints.values() for dtype in constraint}
        found.setdefault(_full_name(kernel.op_name, kernel.domain), set()).update(dtypes)
    return {name: frozenset(dtypes) for name, dtypes in found.items()}


def has_kernel(operator: str, dtype: ir.DataType, domain: str = "") -> bool:
    """Return whether there is a kernel; True if onnxruntime does not list kernels, and for functions made of other
    operators. Raises `ConvertError` if it is not installed.
    """
    known = _kernels().get(_full_name(operator, domain))
    return known is None or f"tensor({dtype.name.lower()})" in known


@cache
def slot_dtypes(operator: str, domain: str) -> tuple[Sequence[frozenset[str]], Sequence[frozenset[str]]]:
    """Return the dtypes that the inputs and the outputs of onnxruntime's own operator may have.

    The last of them stands for all further ones. Both are empty if onnxruntime does not know the operator.
    """
    import_onnxruntime()
    from onnxruntime.capi import _pybind_state

    listed = _pybind_state.get_all_operator_schema() if hasattr(_pybind_state, "get_all_operator_schema") else []
    schema = next((s for s in listed if (s.name, s.domain) == (operator, domain)), None)
    if schema is None:
        return (), ()
    allowed = {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints}
    inputs, outputs = (
        [allowed.get(slot.typeStr, frozenset({slot.typeStr})) for slot in slots]
        for slots in (schema.inputs, schema.outputs)
    )
    return inputs, outputs


def _full_name(operator: str, domain: str) -> str:
    return f"{domain}::{operator}" if domain else operator


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
