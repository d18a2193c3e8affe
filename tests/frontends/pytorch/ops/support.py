"""Runs one rule of the PyTorch frontend: ATen calls on arrays, in PyTorch and as the graph that the rule builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.frontends.pytorch import ops  # noqa: F401  (fills the table)
from convert.frontends.pytorch.common.values import mark_scalar, onnx_dtype
from convert.frontends.pytorch.dispatch import call
from convert.frontends.pytorch.export.capture.prepare import PYTHON
from convert.frontends.pytorch.releases import RELEASE
from convert.frontends.pytorch.rules import torch_op
from onnx.reference import ReferenceEvaluator

from convert.errors import Location, Unsupported
from convert.graph import Graph
from tests.support.cases import Case

NEVER = (99, 0)
REMOVED = {"qr": (2, 14), "cholesky": (2, 14)}
"""Operators that have a rule and that PyTorch has removed, each with the first release without it."""

SINCE = {
    ("clamp", "NaN"): (2, 12),
    ("linalg_inv_ex", "singular"): (2, 11),
    ("linalg_solve_ex", "singular"): (2, 11),
    ("special_chebyshev_polynomial_t", "ends 2"): (2, 13),
}
"""Rows on special values that PyTorch computes otherwise in earlier releases, by operator and label.

A bound of NaN was none, NaN stood in other places of what a singular matrix gives, and T_2 of NaN was a number of
the memory.
"""

_FUNCTIONS = {key: function for function, key in PYTHON.items()}


def layers(*rows: Case) -> list[Case]:
    """Return rows whose inputs after the first are weights, with static sizes in every model."""
    return [replace(row, dynamic_inputs=1) for row in rows]


def check(row: Case) -> None:
    """Assert that the graph of the rule gives PyTorch's results, including dtypes and shapes."""
    if SINCE.get((row.operator, row.label), (0, 0)) > RELEASE:
        pytest.skip(f"PyTorch {torch.__version__} computes special values otherwise; the rule is for later ones")
    want = expected(row)
    model, kept = lowered(row)
    got = run(model, row)
    assert kept
    for i, result in zip(kept, got, strict=True):
        compare(np.asarray(result), want[i])


def check_unknown_sizes(row: Case) -> None:
    """Assert the same for a graph whose inputs have unknown dims, or that the rule reports which one it needs."""
    want = expected(row)
    try:
        model, kept = lowered(row, dynamic=row.dynamic_inputs)
    except Unsupported as error:
        said = str(error)
        model = None
    if model is None:
        assert "known" in said or "unknown" in said
        return
    for i, result in zip(kept, run(model, row), strict=True):
        compare(np.asarray(result), want[i])


def check_other_sizes(row: Case, *inputs: Sequence[Any]) -> None:
    """Assert that a graph with unknown dims gives PyTorch's results for other sizes than those of the row.

    Each of `inputs` replaces the first arguments of the row; by default the first one is lengthened.
    """
    model, kept = lowered(row, dynamic=row.dynamic_inputs)
    given = inputs or [[resized(row.inputs[0], more)] for more in (0, 1, 3, 8)]
    for others in given:
        other = replace(row, inputs=(*others, *row.inputs[len(others) :]))
        want = expected(other)
        assert kept
        for i, result in zip(kept, run(model, other), strict=True):
            compare(np.asarray(result), want[i])


def resized(array: np.ndarray, more: int, keep: int = 0) -> np.ndarray:
    """Return the array with dims enlarged by `more`, its elements repeated.

    Dims of 0 and 1 stay, as in a graph, and so do the first `keep` dims.
    """
    return np.resize(array, [n + more if i >= keep and n > 1 else n for i, n in enumerate(array.shape)])


def compare(got: np.ndarray, want: np.ndarray) -> None:
    """Assert equal dtype and shape; integers and booleans exact, floats to a few roundings."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(got, want)


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """The arrays in nested lists of arguments."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays_in(item)


def replaced(value: Any, items: Iterator[Any]) -> Any:
    """Return `value` with its arrays replaced by the next of `items`."""
    if isinstance(value, np.ndarray):
        return next(items)
    return [replaced(v, items) for v in value] if isinstance(value, (list, tuple)) else value


def torch_overload(case: Case) -> torch._ops.OpOverload | None:
    """Return the ATen overload that a case calls; None for Python's functions on sizes."""
    library, _, plain = case.operator.rpartition("::")
    library, (name, _, overload) = library or "aten", plain.partition(".")
    packet = getattr(getattr(torch.ops, library), name, None)
    if packet is None or (case.operator in _FUNCTIONS and name.startswith("sym_")):
        return None
    if overload and overload in packet.overloads():
        return getattr(packet, overload)
    args, kwargs = torch_arguments(case)
    return getattr(packet, torch._C._jit_resolve_packet(f"{library}::{name}", *args, **kwargs) or "default")


def torch_arguments(case: Case) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments with tensors in the place of arrays."""
    tensors = (torch.from_numpy(np.array(a)) for a in arrays_in([case.inputs, list(case.attributes.values())]))
    args = replaced(case.inputs, tensors)
    return args, {k: replaced(v, tensors) for k, v in case.attributes.items()}


def expected(case: Case) -> list[np.ndarray]:
    """Return PyTorch's outputs."""
    args, kwargs = torch_arguments(case)
    overload = torch_overload(case)
    if overload is None and REMOVED.get(case.operator, NEVER) <= RELEASE:
        pytest.skip(f"PyTorch {torch.__version__} no longer has aten::{case.operator}; its rule is for earlier ones")
    if overload is None:
        result = _FUNCTIONS[case.operator](*[a.item() if isinstance(a, torch.Tensor) else a for a in args])
        return [np.asarray(result)]
    with torch.no_grad():
        return [t.numpy() if isinstance(t, torch.Tensor) else np.asarray(t) for t in listed(overload(*args, **kwargs))]


def lowered(case: Case, dynamic: int = 0) -> tuple[ir.Model, list[int]]:
    """Return the graph of the rule applied to graph inputs, and which results it has.

    The dims of the first `dynamic` inputs are unknown, except dims of 0 and 1, which torch.export always fixes.
    """
    g = Graph()
    overload = torch_overload(case)
    values = []
    for i, array in enumerate(arrays_in([case.inputs, list(case.attributes.values())])):
        shape = [f"d{i}_{j}" if i < dynamic and n > 1 else n for j, n in enumerate(array.shape)]
        values.append(g.input(f"x{i}", onnx_dtype(torch.from_numpy(np.array(array)).dtype), shape))
        if overload is None:
            mark_scalar(values[-1])
    items = iter(values)
    args = replaced(case.inputs, items)
    kwargs = {k: replaced(v, items) for k, v in case.attributes.items()}
    at = Location(case.operator)
    if overload is None:
        result = torch_op.apply(g, case.operator, args, kwargs, at)
    else:
        result = call(g, overload._schema, args, kwargs, at)
    kept = []
    for i, value in enumerate(listed(result)):
        if value is not None:
            g.output(value if isinstance(value, ir.Value) else g.const(value), f"y{i}")
            kept.append(i)
    return g.model(), kept


def run(model: ir.Model, case: Case) -> list[np.ndarray]:
    """Return the outputs of onnxruntime, or of onnx's reference evaluator if onnxruntime has no kernel."""
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    feeds = {f"x{i}": np.array(a) for i, a in enumerate(arrays_in([case.inputs, list(case.attributes.values())]))}
    feeds = {k: v for k, v in feeds.items() if k in {i.name for i in proto.graph.input}}
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    except (
        onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented,
        onnxruntime.capi.onnxruntime_pybind11_state.Fail,
        onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph,
    ):
        return ReferenceEvaluator(proto).run(None, feeds)
    return session.run(None, feeds)


def listed(result: Any) -> list[Any]:
    """Return results as a list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]
