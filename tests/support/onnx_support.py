"""What the ONNX tests share: models made in a line, ONNX's own node tests, and runs in onnxruntime."""

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
from convert.options import Options
from convert.report import Report
from convert.source import Source

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def info(name: str, shape: Sequence[Any] | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    """A typed graph input or output."""
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
    """A ModelProto; `domains` are imported at version 1."""
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def array(name: str, content: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    """An initializer."""
    return onnx.numpy_helper.from_array(np.asarray(content, dtype), name)


def read(thing: Any, options: Options | None = None, report: Report | None = None) -> ir.Model:
    """The shared graph of a path, a ModelProto or an onnx_ir model."""
    source = Source("onnx", path=thing) if isinstance(thing, Path) else Source("onnx-object", model=thing)
    return frontend.read(source, options or Options(), report or Report("test"))


def run_ort(thing: Path | onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Outputs of onnxruntime; raises where it does not load the model."""
    return session(thing).run(None, feeds)


def run_converted(proto: onnx.ModelProto, to: str, folder: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name of what a model becomes in a format, as the project runs it: every format has its runner."""
    written = plugin.formats()[to]
    path = folder / f"model{written.suffix}"
    convert.convert(proto, to, path, verify=False)
    runner = plugin.runner_for(written.kind)
    assert runner is not None
    (found,) = runner.run(Source(written.kind, path=path), [feeds], precision="float32", options=Options())
    return found


def session(thing: Path | onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A quiet session with one thread, whose products of bytes are exact on processors with AVX2 alone as well."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.add_session_config_entry("session.x64quantprecision", "1")  # else sums of two saturate in 16 bits there
    content = str(thing) if isinstance(thing, Path) else thing.SerializeToString()
    return onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])


def node_test(module: str, name: str) -> Any:
    """One of ONNX's node tests, which a module of theirs makes when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    return next(case for case in node._NodeTestCases if case.name == name)


def made_node_tests() -> list[Any]:
    """All of ONNX's node tests, which their modules make when they are imported. onnx 1.21 has no public loader."""
    import_recursive(node)
    return node._NodeTestCases


@cache
def node_tests() -> dict[str, Any]:
    """ONNX's node tests by name: it takes twelve seconds to make them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c.name: c for c in made_node_tests() if c.model is not None and c.data_sets}


def data_of(case: Any) -> tuple[list[Any], list[Any]]:
    """Inputs and expected outputs of a node test."""

    def plain(value: Any) -> Any:
        return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value

    inputs, outputs = case.data_sets[0]
    return [plain(v) for v in inputs], [plain(v) for v in outputs]


def assert_same(got: Any, wanted: Any, rtol: float = 1e-5) -> None:
    """Equal shape and dtype, and content to float32 accuracy (half precision to its own)."""
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
