"""The Caffe2 frontend reads back every net that the backend writes; the modules next to this one have other nets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from convert.backends import caffe2 as backend
from convert.frontends import caffe2
from convert.frontends.caffe2.rules import caffe2_op as rules

from convert.errors import BadInput, ConvertError, UsageError
from tests.frontends.caffe2.ops.support import described, run
from tests.support.caffe2_support import Nets, Row, assert_same, hand_written, reference
from tests.support.cases import f32, rows_of_package

ROWS = rows_of_package("tests.backends.caffe2.ops")
WRITTEN = [param for param in ROWS if param.values[0].dynamic and not param.values[0].reason]


@pytest.mark.parametrize("row", WRITTEN)
def test_what_the_backend_writes_is_read_back(row: Row, caffe2_nets: Nets) -> None:
    job = caffe2_nets.job(row)
    assert_same(run(job.net, dict(job.feeds)), reference(row))


def test_every_rule_has_a_case(caffe2_nets: Nets) -> None:
    from convert.files.caffe2.folder import read_folder
    from convert.files.caffe2.netdef import walk

    jobs = [caffe2_nets.job(param.values[0]) for param in WRITTEN]
    written = {op.type for job in jobs for net in _nets(read_folder(job.net)) for op in walk(net)}
    tested = written | {param.values[0].operator for param in rows_of_package(__package__)}
    # Control flow contains nets (../test_blobs.py, and the tests of the writer); the others need IDEEP or training
    # (tests of errors). Recurrent networks are those of brew (../test_recurrent.py).
    elsewhere = {
        "GaussianFill",
        "UniformFill",
        "If",
        "While",
        "Do",
        "CreateScope",
        "ConvFusion",
        "CopyCPUToIDEEP",
        "CopyIDEEPToCPU",
        "CopyFromCPUInput",
        "GRUUnit",
        "LSTMUnit",
        "RecurrentNetwork",
    }
    caffe2.operators()
    assert sorted(set(rules.entries) - tested - elsewhere) == []


def _nets(model: Any) -> list[Any]:
    return [model.init, model.predict]


def test_an_input_without_a_shape_is_asked_for(tmp_path: Path) -> None:
    job = hand_written(tmp_path / "net.caffe2", "Relu", [f32(2, 3)], {})
    with pytest.raises(UsageError, match="--input x0"):
        run(job.net, dict(job.feeds))


@pytest.mark.parametrize(
    ("operator", "args"), [("UniformFill", {"min": 2.0, "max": 3.0}), ("GaussianFill", {"mean": 2.5})]
)
def test_random_fills_draw_from_the_same_distribution(operator: str, args: dict[str, Any], tmp_path: Path) -> None:
    job = hand_written(tmp_path / "net.caffe2", operator, [f32(100, 100)], args)
    (drawn,) = run(job.net, dict(job.feeds), *described(dict(job.feeds))).values()
    assert drawn.shape == (100, 100)
    # The mean of 10,000 samples is off by less than six standard deviations, except once in a billion cases.
    assert abs(drawn.mean() - 2.5) < 6 * drawn.std() / 100
    assert abs(drawn.std() - (12**-0.5 if operator == "UniformFill" else 1)) < 0.1


def test_weights_of_random_numbers_and_missing_blobs_are_refused(tmp_path: Path) -> None:
    from convert.files.caffe2 import caffe2_pb2 as pb

    job = hand_written(tmp_path / "net.caffe2", "Relu", [f32(2)], {})
    for fill in ("UniformFill", "GaussianFill", "XavierFill", "MSRAFill", "UniformIntFill"):
        random = pb.NetDef(op=[pb.OperatorDef(type=fill, output=["w"])])
        (job.net / "init_net.pb").write_bytes(random.SerializeToString())
        with pytest.raises(ConvertError, match="a weight of random numbers") as caught:
            run(job.net, {}, "x0:float32[2]")
        assert caught.value.hint == "run init_net once in Caffe2 and save the weights that it made"
    hand_written(tmp_path / "other.caffe2", "Relu", [f32(2)], {})
    lost = pb.NetDef(op=[pb.OperatorDef(type="Relu", input=["nowhere"], output=["y"])], external_output=["y"])
    (tmp_path / "other.caffe2" / "predict_net.pb").write_bytes(lost.SerializeToString())
    with pytest.raises(BadInput, match="nowhere"):
        run(tmp_path / "other.caffe2", {})


def test_the_backend_has_no_frontend() -> None:
    assert backend.FORMATS["caffe2"].kind in caffe2.KINDS
