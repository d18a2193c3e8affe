"""Recurrent networks as Caffe2's own Python builds them, at several sizes, compared with Caffe2."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from convert.frontends.caffe2.runner.allowed import check_nets

import convert
from convert.errors import Unsupported
from convert.files.caffe2 import caffe2_pb2 as pb
from tests.frontends.caffe2.ops.support import run
from tests.support.caffe2_support import assert_same, needs_caffe2

KINDS = ("lstm", "for_training", "forgetting", "dropped", "layers", "gru", "basic")
# Caffe2's LSTMUnit computes tanh(x) as 2 * sigmoid(2 x) - 1: a small state has the rounding errors of numbers near 1.
TERMS = {"lstm": 1.0, "for_training": 1.0, "forgetting": 1.0, "dropped": 1.0, "layers": 1.0}
DIMS = {"x": "time,batch,3", "lengths": "batch"}

pytestmark = pytest.mark.skipif(bool(needs_caffe2()), reason=needs_caffe2() or "there is one")


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recurrent")
    script = Path(__file__).with_name("recurrent_nets.py")
    subprocess.run([os.environ["CONVERT_CAFFE2_PYTHON"], str(script), str(folder)], check=True, capture_output=True)
    return folder


def data(folder: Path, place: int, end: str) -> dict[str, np.ndarray]:
    with np.load(folder / "data.npz") as arrays:
        start = f"{place}/{end}/"
        return {name[len(start) :]: arrays[name] for name in arrays.files if name.startswith(start)}


def specs(folder: Path) -> list[str]:
    given = data(folder, 0, "in").items()
    return [f"{name}:{array.dtype}[{DIMS.get(name, '1,batch,4')}]" for name, array in given]


@pytest.mark.parametrize("kind", KINDS)
def test_network(kind: str, nets: Path) -> None:
    folder = nets / f"{kind}.caffe2"
    for place in range(3):
        assert_same(
            run(folder, data(folder, place, "in"), *specs(folder)), data(folder, place, "out"), TERMS.get(kind, 0.0)
        )


@pytest.mark.parametrize("form", ["onnx", pytest.param("tf", marks=pytest.mark.slow)])
def test_the_source_runs_and_is_verified(form: str, nets: Path, tmp_path: Path) -> None:
    folder = nets / "lstm.caffe2"
    check_nets(folder)
    path = tmp_path / ("m.onnx" if form == "onnx" else "m.savedmodel")
    report = convert.convert(folder, form, path, inputs=specs(folder))
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason


def test_a_window_of_several_steps_is_refused(nets: Path, tmp_path: Path) -> None:
    net = pb.NetDef.FromString((nets / "lstm.caffe2" / "predict_net.pb").read_bytes())
    (recurrent,) = (op for op in net.op if op.type == "RecurrentNetwork")
    recurrent.arg.add(name="link_window", ints=[1, 1, 1, 1, 2])
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    (tmp_path / "init_net.pb").write_bytes((nets / "lstm.caffe2" / "init_net.pb").read_bytes())
    with pytest.raises(Unsupported, match="several places"):
        run(tmp_path, {}, *specs(nets / "lstm.caffe2"))
