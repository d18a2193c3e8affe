"""Helpers of the ONNX tests: models in one line, ONNX's own node tests, and runs in onnxruntime."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from convert.frontends import onnx as frontend
from onnx import helper
from onnx.backend.test.case import node
from onnx.backend.test.case.utils import import_recursive

import convert
from convert import plugin
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def info(name: str, shape: Sequence[Any] | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    """Return a typed graph input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 20,
    ir_version: int = 9,
    domains: Sequence[str] = (),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Return a ModelProto; `domains` are imported at version 1."""
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def array(name: str, content: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    """Return an initializer."""
    return onnx.numpy_helper.from_array(np.asarray(content, dtype), name)


def read(thing: Any, options: Options | None = None, report: Report | None = None) -> ir.Model:
    """Read a path, a ModelProto or an onnx_ir model as the shared graph."""
    source = Source("onnx", path=thing) if isinstance(thing, Path) else Source("onnx-object", model=thing)
    return frontend.read(source, options or Options(), report or Report("test"))


def run_ort(thing: Path | onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Return onnxruntime's outputs; raise its error if it does not load the model."""
    return session(thing).run(None, feeds)


def run_converted(proto: onnx.ModelProto, to: str, folder: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert a model to a format and return its outputs by name, from the project's runner for the format."""
    written = plugin.formats()[to]
    path = folder / f"model{written.suffix}"
    convert.convert(proto, to, path, verify=False)
    runner = plugin.runner_for(written.kind)
    assert runner is not None
    (found,) = runner.run(Source(written.kind, path=path), [feeds], precision="float32", options=Options())
    return found


def session(thing: Path | onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return a quiet session with one thread, and exact products of 8-bit integers even with AVX2 only."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.add_session_config_entry("session.x64quantprecision", "1")  # without this option they saturate in 16 bits
    content = str(thing) if isinstance(thing, Path) else thing.SerializeToString()
    return onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])


def node_test(module: str, name: str) -> Any:
    """Return one of ONNX's node tests; importing its module creates it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    return next(case for case in node._NodeTestCases if case.name == name)


def made_node_tests() -> list[Any]:
    """Return all of ONNX's node tests; importing their modules creates them. onnx 1.21 has no public loader."""
    import_recursive(node)
    return node._NodeTestCases


@cache
def node_tests() -> dict[str, Any]:
    """Return ONNX's node tests by name; creating them takes twelve seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c.name: c for c in made_node_tests() if c.model is not None and c.data_sets}


def data_of(case: Any) -> tuple[list[Any], list[Any]]:
    """Return inputs and expected outputs of a node test."""

    def plain(value: Any) -> Any:
        return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value

    inputs, outputs = case.data_sets[0]
    return [plain(v) for v in inputs], [plain(v) for v in outputs]


def assert_same(got: Any, wanted: Any, rtol: float = 1e-5) -> None:
    """Assert equal shape and dtype, and content to the accuracy of float32, or of half precision."""
    if isinstance(wanted, list):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert_same(a, b, rtol)
        return
    if wanted is None:
        assert got is None
        return
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype or wanted.dtype.kind in "OUS"
    if wanted.dtype.kind in "OUS" or got.dtype.kind in "OUS":
        assert got.astype(str).tolist() == wanted.astype(str).tolist()
    elif wanted.dtype.kind in "iub":
        assert np.array_equal(got, wanted)
    else:
        half = wanted.dtype.itemsize <= 2
        a, b = (v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (got, wanted))
        finite = np.abs(b[np.isfinite(b)])
        scale = finite.max() if finite.size else 0.0
        np.testing.assert_allclose(a, b, rtol=1e-2 if half else rtol, atol=(1e-2 if half else rtol) * scale)
