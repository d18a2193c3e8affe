"""Nets whose operators share blobs, compared with Caffe2: nested nets, fills over inputs, shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends.caffe2.runner.runner import Job, run_jobs

from convert.errors import Unsupported
from convert.files.caffe2 import caffe2_pb2
from tests.frontends.caffe2.ops.support import described, run
from tests.support.caffe2_support import assert_same, needs_caffe2
from tests.support.cases import f32

pb: Any = caffe2_pb2
X = f32(2, 4)


def op(kind: str, inputs: str, outputs: str, **args: Any) -> Any:
    """Return an operator; inputs and outputs are given as words, arguments as numbers, texts, lists of them, or
    nets.
    """
    made = pb.OperatorDef(type=kind, input=inputs.split(), output=outputs.split())
    for name, value in args.items():
        argument = made.arg.add(name=name)
        if isinstance(value, pb.NetDef):
            argument.n.CopyFrom(value)
        elif isinstance(value, float):
            argument.f = value
        elif isinstance(value, (int, bool)):
            argument.i = int(value)
        elif isinstance(value, str):
            argument.s = value.encode()
        elif isinstance(value[0], str):
            argument.strings.extend(v.encode() for v in value)
        else:
            argument.ints.extend(value)
    return made


def net(*ops: Any) -> Any:
    return pb.NetDef(name="net", op=ops)


def if_net(**more: Any) -> list[Any]:
    """Return an If whose branches both write the output z; one of them also writes y, which is no output."""
    first = net(op("Scale", "y", "y", scale=3.0), op("Scale", "x", "z", scale=2.0))
    branch = op("If", "c", "z", then_net=first, else_net=net(op("Scale", "x", "z", scale=5.0)))
    return [op("Relu", "x", "y"), branch, op("Add", "y z", "w")]


def while_net(outputs: str) -> list[Any]:
    body = net(op("Scale", "y", "y", scale=2.0), op("Add", "i one", "i"))
    loop = op("While", "go i one end y", outputs, loop_net=body, cond_net=net(op("LT", "i end", "go")))
    fills = [op("ConstantFill", "", n, shape=[1], value=v) for n, v in (("i", 0.0), ("one", 1.0), ("end", 3.0))]
    start = op("ConstantFill", "", "go", shape=[1], value=1, dtype=5)
    return [op("Relu", "x", "y"), *fills, start, loop, op("Add", "y i", "w", broadcast=1)]


def scoped_net() -> list[Any]:
    """Return a block as NetBuilder writes it: a net with its own names, some of them bound to outer blobs."""
    inner = net(op("Scale", "a", "hidden", scale=3.0), op("Add", "hidden a", "b"))
    do = op("Do", "x s", "y s", net=inner, inner_blobs=["a", "b"], outer_blobs_idx=[0, 1])
    return [op("CreateScope", "", "s"), do, op("Add", "x y", "w")]


TRUE, FALSE = np.array([True]), np.array([False])
ROWS: dict[str, tuple[list[Any], dict[str, np.ndarray]]] = {
    "if": (if_net(), {"x": X, "c": TRUE}),
    "if not": (if_net(), {"x": X, "c": FALSE}),
    "while": (while_net("i y"), {"x": X}),
    "while that names one": (while_net("i"), {"x": X}),
    "while that names none": (while_net(""), {"x": X}),
    "scope": (scoped_net(), {"x": X}),
    "fill over an input": (
        [op("Relu", "x", "y"), op("ConstantFill", "", "x", shape=[2, 4], value=5.0), op("Add", "x y", "w")],
        {"x": X},
    ),
    "order of what has none": ([op("Relu", "x", "y", order="NCHW"), op("Tanh", "y", "w", order="NHWC")], {"x": X}),
}


def job(path: Path, ops: Sequence[Any], feeds: dict[str, np.ndarray]) -> Job:
    predict = pb.NetDef(name="net", op=ops, external_input=feeds, external_output=["w"])
    path.mkdir()
    (path / "predict_net.pb").write_bytes(predict.SerializeToString())
    (path / "init_net.pb").write_bytes(pb.NetDef(name="init").SerializeToString())
    return Job(path, feeds)


@pytest.mark.caffe2
def test_nets(tmp_path: Path) -> None:
    if reason := needs_caffe2():
        pytest.skip(reason)
    jobs = [job(tmp_path / f"{i}.caffe2", *row) for i, row in enumerate(ROWS.values())]
    for name, made, wanted in zip(ROWS, jobs, run_jobs(jobs), strict=True):
        assert isinstance(wanted, dict), (name, wanted)
        assert_same(run(made.net, dict(made.feeds), *described(dict(made.feeds))), wanted)


@pytest.mark.parametrize("written", ["x", "y"])
def test_memory_of_two_blobs_that_is_written_is_refused(written: str, tmp_path: Path) -> None:
    ops = [op("Alias", "x", "y"), op("Relu", written, written), op("Add", "x y", "w")]
    made = job(tmp_path / "net.caffe2", ops, {"x": X})
    with pytest.raises(Unsupported, match="by an Alias"):
        run(made.net, dict(made.feeds), *described(dict(made.feeds)))
