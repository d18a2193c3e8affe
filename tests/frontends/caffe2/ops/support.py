"""Reads nets with the Caffe2 frontend and runs what it makes of them, and has the real Caffe2 run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from convert.backends import onnx as onnx_backend
from convert.frontends import caffe2
from convert.frontends.caffe2.runner.runner import Job
from onnx.reference import ReferenceEvaluator

from convert.errors import ConvertError
from convert.options import Options, parse_input
from convert.report import Report
from convert.source import Source
from tests.support.caffe2_support import assert_same, hand_written
from tests.support.cases import Case

Foreign = dict[int, tuple[Job, Any]]
"""By the id of a row, its net and what the real Caffe2 makes of it: outputs by name, or the error."""


def run(path: Path, feeds: dict[str, np.ndarray], *inputs: str) -> dict[str, np.ndarray]:
    """The folder's nets as ONNX, run by ONNX Runtime, or by ONNX's evaluator where that has no kernel."""
    options = Options(inputs=tuple(map(parse_input, inputs)))
    model = caffe2.read(Source("caffe2", path), options, Report("convert"))
    proto = ir.to_proto(model)
    if all(value.shape is not None for value in model.graph.outputs):  # ONNX has no words for an unknown rank
        onnx_backend.write(model, path / "model.onnx", "onnx", options, Report("convert"))
        proto = onnx.load(path / "model.onnx")
        onnx.checker.check_model(proto, full_check=True)
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        made = ReferenceEvaluator(proto).run(None, feeds)
        return {o.name: np.asarray(a) for o, a in zip(proto.graph.output, made, strict=True)}
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def described(feeds: dict[str, np.ndarray]) -> list[str]:
    """The inputs as `--input` describes them."""
    return [f"{name}:{array.dtype}[{','.join(map(str, array.shape))}]" for name, array in feeds.items()]


def net(path: Path, row: Case) -> Job:
    """The net of one operator that a row is about, written to `path`."""
    args = dict(row.attributes)
    return hand_written(path, row.operator, row.inputs, args, args.pop("outputs", 1), args.pop("weights", ()))


def check(row: Case, foreign: Foreign) -> None:
    """Assert that the net of `row`, read and run by ONNX Runtime, gives what the real Caffe2 gives."""
    job, outcome = foreign[id(row)]
    if isinstance(outcome, ConvertError):
        raise outcome
    assert_same(run(job.net, dict(job.feeds), *described(dict(job.feeds))), outcome)
