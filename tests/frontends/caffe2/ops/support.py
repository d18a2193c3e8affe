"""Reads nets with the Caffe2 frontend and runs the result, and has the real Caffe2 run the nets."""

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
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.support.caffe2_support import assert_same, hand_written
from tests.support.cases import Case

Foreign = dict[int, tuple[Job, Any]]
"""For the id of each row: its net, and the result of the real Caffe2 (outputs by name, or the error)."""


def run(path: Path, feeds: dict[str, np.ndarray], *inputs: str) -> dict[str, np.ndarray]:
    """Return the outputs of the folder's nets as ONNX, run by ONNX Runtime, or by ONNX's evaluator if that has no
    kernel.
    """
    options = Options(inputs=tuple(map(parse_input, inputs)))
    model = caffe2.read(Source("caffe2", path), options, Report("convert"))
    proto = ir.to_proto(model)
    if all(value.shape is not None for value in model.graph.outputs):  # ONNX cannot express an unknown rank
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
    """Return the inputs as specs of `--input`."""
    return [f"{name}:{array.dtype}[{','.join(map(str, array.shape))}]" for name, array in feeds.items()]


def net(path: Path, row: Case) -> Job:
    """Write the net of one operator for a row to `path`."""
    args = dict(row.attributes)
    return hand_written(path, row.operator, row.inputs, args, args.pop("outputs", 1), args.pop("weights", ()))


def check(row: Case, foreign: Foreign) -> None:
    """Assert that the net of `row`, read and run by ONNX Runtime, gives the results of the real Caffe2."""
    job, outcome = foreign[id(row)]
    if isinstance(outcome, ConvertError):
        raise outcome
    assert_same(run(job.net, dict(job.feeds), *described(dict(job.feeds))), outcome)
