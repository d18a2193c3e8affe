"""The Caffe2 frontend: every net that the backend writes is read back, and nets as others write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends import caffe2 as backend
from convert.backends import onnx as onnx_backend
from convert.frontends import caffe2
from convert.frontends.caffe2.rules import caffe2_op as rules
from convert.frontends.caffe2.runner.runner import Job, run_jobs
from onnx.reference import ReferenceEvaluator

from convert.errors import BadInput, ConvertError, UsageError
from convert.options import Options, parse_input
from convert.report import Report
from convert.source import Source
from tests.support.caffe2_support import Nets, Row, assert_same, hand_written, needs_caffe2, reference
from tests.support.cases import Case, case, f32, i64, params, rows_of_package

ROWS = rows_of_package("tests.backends.caffe2.ops")
WRITTEN = [param for param in ROWS if param.values[0].dynamic and not param.values[0].reason]

# Operators and arguments that the backend does not write.
FOREIGN = [
    case("Conv", f32(1, 6, 7, 3), f32(4, 2, 2, 3), kernel_h=2, kernel_w=2, stride=2, order="NHWC").named("nhwc"),
    case("Conv", f32(1, 3, 6, 7), f32(4, 3, 3, 3), f32(4), kernel=3, pad_t=1, pad_l=2, pad_b=0, pad_r=1).named("sides"),
    case("Conv", f32(1, 4, 6, 7), f32(4, 2, 3, 3), kernel=3, pad=2, dilation=2, group=2).named("single"),
    case("ConvTranspose", f32(1, 3, 4, 5), f32(3, 2, 3, 3), kernel=3, stride=2, pad=1, adj=1),
    case("MaxPool", f32(1, 6, 7, 3), kernel=3, stride=2, order="NHWC"),
    case("AveragePool", f32(1, 3, 6, 7), kernel_h=3, kernel_w=2, stride_h=2, stride_w=1),
    case("FC", f32(2, 3, 4), f32(5, 12), f32(5)),
    case("FC", f32(2, 3, 4), f32(5, 4), f32(5), axis=2).named("axis"),
    case("FCTransposed", f32(2, 12), f32(12, 5), f32(5)),
    case("MatMul", f32(2, 3, 4), f32(12, 5)),
    case("MatMul", f32(4, 3), f32(5, 4), trans_a=1, trans_b=1).named("transposed"),
    case("BatchMatMul", f32(2, 4, 3), f32(2, 5, 4), trans_a=1, trans_b=1),
    case("Softmax", f32(2, 3, 4)),
    case("Softmax", f32(2, 3, 4), axis=2).named("last"),
    case("Add", f32(2, 3, 4, 5), f32(3, 4), broadcast=1, axis=1),
    case("Mul", f32(2, 3, 4), f32(4), broadcast=1),
    case("Pow", f32(2, 3, low=0.5), exponent=1.5),
    case("Sqr", f32(2, 3)),
    case("Cube", f32(2, 3)),
    case("Rsqrt", f32(2, 3, low=0.5)),
    case("Reciprocal", f32(2, 3, low=0.5)),
    case("Swish", f32(2, 3)),
    case("Scale", f32(2, 3), scale=0.5),
    case("Selu", f32(2, 3)),
    case("Elu", f32(2, 3)),
    case("LeakyRelu", f32(2, 3)),
    case("ThresholdedRelu", f32(2, 3)),
    case("HardSigmoid", f32(2, 3)),
    case("PRelu", f32(2, 3, 4, 4), f32(3)),
    case("PRelu", f32(2, 3, 4, 4), f32(1)).named("one slope"),
    case("Clip", f32(2, 3), min=0.0),
    case("Clip", np.array([np.inf, -np.inf, 1], np.float32), min=-1.0).named("infinity"),
    case("Softplus", f32(2, 3)),
    case("Sum", f32(2, 3), f32(2, 3, low=0.0)),
    case("Mean", f32(2, 3), f32(2, 3, low=0.0)),
    case("Copy", f32(2, 3)),
    case("Alias", f32(2, 3)),
    case("StopGradient", f32(2, 3)),
    case("EnsureCPUOutput", f32(2, 3)),
    case("Dropout", f32(2, 3), is_test=1, ratio=0.5),
    case("Cast", f32(2, 3), to="int32"),
    case("SpatialBN", f32(2, 5, 5, 3), f32(3), f32(3), f32(3), f32(3, low=0.5), is_test=1, order="NHWC"),
    case("InstanceNorm", f32(2, 3, 5, 5), f32(3), f32(3)),
    case("GroupNorm", f32(2, 4, 5, 5), f32(4), f32(4), group=2, is_test=1),
    case("LayerNorm", f32(2, 3, 4), outputs=3),
    case("Normalize", f32(2, 3)),
    case("LRN", f32(1, 5, 4, 4), size=3, alpha=0.1, beta=0.75, bias=1.0),
    case("Concat", f32(2, 3), f32(2, 4), outputs=2),
    case("Concat", f32(2, 3), f32(2, 3), outputs=2, add_axis=1, axis=1).named("stack"),
    case("Concat", f32(2, 3), f32(2, 3), outputs=2, add_axis=1).named("no axis"),
    case("Split", f32(2, 6), outputs=3),
    case("Split", f32(2, 6), outputs=2, axis=1, split=[2, 4]).named("sizes"),
    case("Reshape", f32(2, 3, 4), outputs=2, shape=[0, -1]),
    case("ResizeLike", f32(2, 6), f32(3, 4)),
    case("Flatten", f32(2, 3, 4)),
    case("FlattenToVec", f32(2, 3)),
    case("ExpandDims", f32(2, 3), dims=[0, 2]),
    case("Squeeze", f32(2, 1, 3), dims=[1]),
    case("Transpose", f32(2, 3, 4)),
    case("NCHW2NHWC", f32(1, 3, 4, 5)),
    case("NHWC2NCHW", f32(1, 4, 5, 3)),
    case("ChannelShuffle", f32(1, 6, 2, 2), group=3, kernel=1),
    case("Tile", f32(2, 3), tiles=2, axis=1),
    case("Slice", f32(4, 5), starts=[0, 1], ends=[-1, -2]),
    case("Slice", f32(4, 5), starts=[1], ends=[3]).named("fewer axes"),
    case("Gather", f32(4, 5), i64(3, low=0, high=4)),
    case("BatchGather", f32(2, 5), i64(3, low=0, high=4)),
    case("BooleanMask", f32(4, 2), np.array([True, False, True, True])),
    case("ReversePackedSegs", f32(4, 2, 3), np.array([3, 4], np.int32)),
    case("OneHot", i64(4, low=0, high=3), np.array([3], np.int64)),
    case("ConstantFill", f32(2, 3), value=1.5),
    case("Shape", f32(2, 3, 4), axes=[2, 0]),
    case("Size", f32(2, 3)),
    case("Range", np.array([2], np.int32), np.array([7], np.int32)),
    case("Range", np.array([5], np.int32)).named("stop"),
    case("ReduceSum", f32(2, 3, 4), axes=[1]),
    case("ReduceMean", f32(2, 3, 4), axes=[0, 2], keepdims=0),
    case("ReduceL2", f32(2, 3), axes=[1]),
    case("ReduceL1", f32(2, 3), axes=[1]),
    case("ArgMax", f32(2, 3)),
    case("ArgMin", f32(2, 3), axis=0, keepdims=0),
    case("TopK", f32(2, 5), k=2, outputs=2),
    case("SumElements", f32(2, 3)),
    case("SumElements", f32(2, 3), average=1).named("average"),
    case("SumSqrElements", f32(2, 3)),
    case("Moments", f32(2, 3), axes=[1], outputs=2),
    case("PadImage", f32(1, 2, 4, 4), pad_t=1, pad_l=2, pad_b=0, pad_r=1),
    case("PadImage", f32(1, 2, 4, 4), pad=1, mode="reflect").named("reflect"),
    case("ResizeNearest", f32(1, 2, 3, 3), width_scale=2.0, height_scale=1.5),
    case("UpsampleBilinear", f32(1, 2, 3, 3), width_scale=2.0, height_scale=2.0),
    case(
        "RoIAlign", f32(1, 2, 8, 8), np.array([[0, 1, 1, 6, 5]], np.float32),
        spatial_scale=1.0, pooled_h=2, pooled_w=3, sampling_ratio=2,
    ),
    case("RoIPool", f32(1, 2, 8, 8), np.array([[0, 1, 1, 6, 5]], np.float32), is_test=1, pooled_h=2, pooled_w=3),
    case("Mod", i64(2, 3), divisor=3),
    case("Mod", i64(2, 3), divisor=3, sign_follow_divisor=1).named("floor"),
]  # fmt: skip
FOREIGN_ROWS = params(FOREIGN)


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
    return [f"{name}:{array.dtype}[{','.join(map(str, array.shape))}]" for name, array in feeds.items()]


@pytest.mark.parametrize("row", WRITTEN)
def test_what_the_backend_writes_is_read_back(row: Row, caffe2_nets: Nets) -> None:
    job = caffe2_nets.job(row)
    assert_same(run(job.net, dict(job.feeds)), reference(row))


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Job, Any]]:
    """The nets of `FOREIGN`, and what the real Caffe2 makes of them."""
    if reason := needs_caffe2():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("foreign")
    rows = [param.values[0] for param in FOREIGN_ROWS]
    jobs = [net(folder / f"{i}.caffe2", row) for i, row in enumerate(rows)]
    return {id(row): pair for row, pair in zip(rows, zip(jobs, run_jobs(jobs), strict=True), strict=True)}


def net(path: Path, row: Case) -> Job:
    args = dict(row.attributes)
    return hand_written(path, row.operator, row.inputs, args, args.pop("outputs", 1))


@pytest.mark.caffe2
@pytest.mark.parametrize("row", FOREIGN_ROWS)
def test_nets_of_others(row: Case, foreign: dict[int, tuple[Job, Any]]) -> None:
    job, outcome = foreign[id(row)]
    if isinstance(outcome, ConvertError):
        raise outcome
    assert_same(run(job.net, dict(job.feeds), *described(dict(job.feeds))), outcome)


def test_every_rule_has_a_case(caffe2_nets: Nets) -> None:
    from convert.files.caffe2.folder import read_folder
    from convert.files.caffe2.netdef import walk

    written = {op.type for job in caffe2_nets.jobs.values() for net in _nets(read_folder(job.net)) for op in walk(net)}
    tested = written | {row.operator for row in FOREIGN}
    # Control flow has nets inside (the tests of the writer); the others need IDEEP or training (tests of errors).
    elsewhere = {"GaussianFill", "UniformFill", "If", "While", "ConvFusion", "CopyCPUToIDEEP", "CopyIDEEPToCPU"}
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
    # The mean of 10,000 draws is off by less than six of its deviations, but for once in a billion.
    assert abs(drawn.mean() - 2.5) < 6 * drawn.std() / 100
    assert abs(drawn.std() - (12**-0.5 if operator == "UniformFill" else 1)) < 0.1


def test_weights_of_random_numbers_and_missing_blobs_are_refused(tmp_path: Path) -> None:
    from convert.files.caffe2 import caffe2_pb2 as pb

    job = hand_written(tmp_path / "net.caffe2", "Relu", [f32(2)], {})
    random = pb.NetDef(op=[pb.OperatorDef(type="XavierFill", output=["w"])])
    (job.net / "init_net.pb").write_bytes(random.SerializeToString())
    with pytest.raises(ConvertError, match="random"):
        run(job.net, {}, "x0:float32[2]")
    hand_written(tmp_path / "other.caffe2", "Relu", [f32(2)], {})
    lost = pb.NetDef(op=[pb.OperatorDef(type="Relu", input=["nowhere"], output=["y"])], external_output=["y"])
    (tmp_path / "other.caffe2" / "predict_net.pb").write_bytes(lost.SerializeToString())
    with pytest.raises(BadInput, match="nowhere"):
        run(tmp_path / "other.caffe2", {})


def test_the_backend_has_no_frontend() -> None:
    assert backend.FORMATS["caffe2"].kind in caffe2.KINDS
