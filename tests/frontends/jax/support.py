"""Rows of JAX functions: exported, read, run by ONNX Runtime, and compared with JAX itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends import onnx as onnx_backend
from convert.frontends import jax as frontend
from jax import export

from convert.outcome.report import Report
from convert.reference.executor import run as run_graph_here
from convert.request.options import Options
from convert.request.source import Source


@dataclass(frozen=True)
class Row:
    """A function with inputs. `dims`: names of dims, "b,3" for each input, if a size is dynamic."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    dims: tuple[str, ...] = ()
    reason: str = ""
    tolerance: float = 2e-5
    operators: tuple[str, ...] = ()
    """Operators that the graph has to have, no others."""

    def refused(self, reason: str) -> Row:
        """Return the same row, to be refused with a message that contains `reason`."""
        return replace(self, reason=reason)


def row(name: str, function: Callable[..., Any], *inputs: Any, dims: Sequence[str] = (), **options: Any) -> Row:
    """A row of the table."""
    return Row(name, function, inputs, tuple(dims), **options)


def params(rows: Sequence[Row], quick: Sequence[str] = ()) -> list[Any]:
    """Return the rows as pytest parameters: all except the `quick` ones are slow."""
    return [pytest.param(r, id=r.name, marks=[] if r.name in quick else [pytest.mark.slow]) for r in rows]


UNSTABLE = [
    export.DisabledSafetyCheck.custom_call(f"lapack_{name}_ffi") for name in ("sormqr", "dormqr", "sgesvd", "dgesvd")
]
"""Custom calls that jax.export writes only if it is told to."""


def exported(row: Row) -> Any:
    """Return the function exported by jax.export, with 64 bits if an input has them."""
    with jax.enable_x64(True):
        scope = export.SymbolicScope()
        specs = [
            jax.ShapeDtypeStruct(
                export.symbolic_shape(row.dims[i], scope=scope) if i < len(row.dims) else x.shape, x.dtype
            )
            for i, x in enumerate(map(np.asarray, row.inputs))
        ]
        return export.export(jax.jit(row.function), platforms=["cpu"], disabled_checks=UNSTABLE)(*specs)


def read(program: Any) -> ir.Model:
    """The shared graph of an `Exported`."""
    return frontend.read(Source("jax-export-object", model=program), Options(), Report("convert"))


def run_graph(model: ir.Model, feeds: dict[str, np.ndarray], folder: Any) -> dict[str, np.ndarray]:
    """Return outputs by ONNX Runtime, or by the project's own executor if that has no kernel."""
    path = folder / "model.onnx"
    clone = model.clone()
    onnx_backend.write(model, path, "onnx", Options(), Report("convert"))
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    feeds = {name: array for name, array in feeds.items() if name in {v.name for v in proto.graph.input}}
    if ir.DataType.BFLOAT16 in {v.dtype for v in [*clone.graph.inputs, *clone.graph.outputs]}:
        # onnxruntime's Python takes and returns no arrays of bfloat16
        return run_graph_here(clone, feeds)
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return run_graph_here(clone, feeds)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def check(row: Row, folder: Any) -> None:
    """Assert that a function's graph gives JAX's results, at the sizes of the row and, if dynamic, at others."""
    program = exported(row)
    model = read(program)
    if row.operators:
        assert [n.op_type for n in model.graph] == list(row.operators)
    names = [v.name for v in model.graph.inputs]
    variants = [list(map(np.asarray, row.inputs))]
    if row.dims:
        variants.append(
            [_longer(x, d) for x, d in zip(variants[0], row.dims, strict=False)] + variants[0][len(row.dims) :]
        )
    for arrays in variants:
        with jax.enable_x64(True):
            expected = [_shown(x) for x in jax.tree_util.tree_leaves(program.call(*arrays))]
        found = list(run_graph(model.clone(), dict(zip(names, map(_shown, arrays), strict=True)), folder).values())
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype, (one.dtype, other.dtype)
            assert one.shape == other.shape, (one.shape, other.shape)
            if other.dtype.kind in "fV":
                one, other = one.astype(np.float64), other.astype(np.float64)
                np.testing.assert_allclose(one, other, rtol=row.tolerance, atol=row.tolerance)
            else:
                np.testing.assert_array_equal(one, other)


def _shown(value: Any) -> np.ndarray:
    """Return an array in the form of the graph: complex numbers as pairs, in a last dim of 2."""
    array = np.asarray(value)
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _longer(array: np.ndarray, dims: str) -> np.ndarray:
    """Return the array with three times the elements along each named dim."""
    for axis, dim in enumerate(d.strip() for d in dims.split(",") if d.strip()):
        if not dim.isdigit():
            array = np.concatenate([array, array[::-1], array], axis)
    return array
