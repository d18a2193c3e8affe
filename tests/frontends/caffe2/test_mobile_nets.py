"""Nets in the form of Caffe's translator and of mobile programs: a filled input, no external_output; compared with
Caffe2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends import caffe2
from convert.frontends.caffe2.runner.runner import Job, run_jobs

from convert.errors import UsageError
from convert.files.caffe2 import caffe2_pb2
from convert.outcome.notes import as_note
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.frontends.caffe2.ops.support import run
from tests.frontends.caffe2.test_blobs import op
from tests.support.caffe2_support import assert_same, needs_caffe2
from tests.support.cases import f32

pb: Any = caffe2_pb2
X = f32(2, 3)
WEIGHT = f32(4, 3)


def _folder(path: Path, dims: list[int], outputs: list[str], exporter: str = "translator") -> Path:
    """Write a dense layer and an in-place ReLU; its input is filled with one number in these dims."""
    path.mkdir()
    weight = pb.OperatorDef(type="GivenTensorFill", output=["w"])
    weight.arg.add(name="shape").ints.extend(WEIGHT.shape)
    weight.arg.add(name="values").floats.extend(WEIGHT.ravel())
    data = op("ConstantFill", "", "data", shape=dims)
    if exporter == "mobile_exporter":
        data = op("GivenTensorFill", "", "data", shape=[1, 1])
        data.arg.add(name="values").floats.append(0.0)
    init = pb.NetDef(name="init", op=[weight, op("ConstantFill", "", "b", shape=[4]), data])
    layers = [
        op("FC", "data w b", "h"),
        op("Relu", "h", "h"),
        op("Softmax", "h", "p"),
        op("Scale", "h", "s", scale=2.0),
    ]
    # ONNX's backend lists blobs as inputs that an operator makes before any reads them.
    listed = ["h", "data", "w", "b"] if exporter == "backend" else ["data", "w", "b"]
    predict = pb.NetDef(name="net", op=layers, external_input=listed, external_output=outputs)
    (path / "init_net.pb").write_bytes(init.SerializeToString())
    (path / "predict_net.pb").write_bytes(predict.SerializeToString())
    return path


@pytest.mark.parametrize("dims", [[1], [2, 3]])
@pytest.mark.parametrize("outputs", [[], ["p", "s"]])
def test_a_filled_input_and_outputs_that_are_not_named(dims: list[int], outputs: list[str], tmp_path: Path) -> None:
    folder = _folder(tmp_path / "m.caffe2", dims, outputs)
    told = () if dims == [2, 3] else (parse_input("data:float32[2,3]"),)
    report = Report("convert")
    model = caffe2.read(Source("caffe2", folder), Options(inputs=told), report)
    assert [str(v.name) for v in model.graph.inputs] == ["data"]
    assert [str(v.name) for v in model.graph.outputs] == ["p", "s"]
    assert ("found-outputs" in {as_note(note).code for note in report.notes}) == (not outputs)
    h = np.maximum(X.astype(float) @ WEIGHT.T, 0)
    powers = np.exp(h - h.max(1, keepdims=True))
    wanted = {"p": powers / powers.sum(1, keepdims=True), "s": 2 * h}
    got = run(folder, {"data": X}, "data:float32[2,3]")
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, 1e-4, 1e-5)


def test_the_shape_of_a_filled_input_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'data'"):
        caffe2.read(Source("caffe2", _folder(tmp_path / "m.caffe2", [1], [])), Options(), Report("convert"))


EXPORTERS = ("translator", "mobile_exporter", "backend")


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_inputs_as_each_exporter_lists_them(exporter: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path / "m.caffe2", [1], ["p"], exporter)
    model = caffe2.read(
        Source("caffe2", folder), Options(inputs=(parse_input("data:float32[2,3]"),)), Report("convert")
    )
    assert [str(v.name) for v in model.graph.inputs] == ["data"]


@pytest.mark.caffe2
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("outputs", [[], ["p", "s"]])
def test_caffe2_gives_the_same(outputs: list[str], exporter: str, tmp_path: Path) -> None:
    if reason := needs_caffe2():
        pytest.skip(reason)
    folder = _folder(tmp_path / "m.caffe2", [1], outputs, exporter)
    (wanted,) = run_jobs([Job(folder, {"data": X})])
    assert isinstance(wanted, dict), wanted
    assert_same(run(folder, {"data": X}, "data:float32[2,3]"), wanted)
