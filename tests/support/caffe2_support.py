"""Run a row of the Caffe2 table: one node, written as a net, run by the real Caffe2 and judged by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends import caffe2
from convert.frontends.caffe2.runner.runner import Job, available, run_jobs

from convert.errors import ConvertError
from convert.files.caffe2 import caffe2_pb2 as pb
from convert.graph import Graph
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.cases import Case

RUNTIME = "needs the value at conversion"
"""The reason why a case needs static dims."""


@dataclass(frozen=True)
class Weight:
    """An input that is a constant of the model."""

    array: np.ndarray


@dataclass(frozen=True)
class Row:
    """A case with static or dynamic input shapes; `reason` marks a declared gap."""

    case: Case
    dynamic: bool
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row: outputs by name, or the error."""

    outputs: dict[str, np.ndarray] | None = None
    error: ConvertError | None = None


def weight(*content: Any, dtype: Any = np.int64) -> Weight:
    """Return a constant: an array or numpy scalar, `weight(array)`, or a vector of integers, `weight(1, 2, 3)`."""
    whole = len(content) == 1 and isinstance(content[0], (np.ndarray, np.generic))
    return Weight(np.asarray(content[0]) if whole else np.array(content, dtype))


def both(cases: Iterable[Case | tuple[Case, str]]) -> list[Any]:
    """Return every case twice, with static and with dynamic dims, as pytest parameters.

    `(case, reason)` declares that the case needs static dims.
    """
    rows, seen = [], dict[str, int]()
    for entry in cases:
        case, gap = entry if isinstance(entry, tuple) else (entry, "")
        seen[case.operator] = seen.get(case.operator, 0) + 1
        label = case.label or str(seen[case.operator])
        for dynamic in (False, True):
            reason = case.reason or (gap if dynamic else "")
            marks = [pytest.mark.xfail(reason=reason, strict=True, raises=ConvertError)] if reason else []
            row_id = f"{case.operator}-{label}-{'dynamic' if dynamic else 'static'}"
            rows.append(pytest.param(Row(case, dynamic, reason), id=row_id, marks=marks))
    return rows


def build(row: Row) -> tuple[ir.Model, dict[str, np.ndarray]]:
    """Return the one-node model of a row, and its inputs.

    Two attributes of a case are not the operator's: `outputs`, the number of outputs, and `fixed`, axes that are static
    in dynamic rows too.
    """
    g, feeds = Graph(), dict[str, np.ndarray]()
    attributes = dict(row.case.attributes)
    count, fixed = attributes.pop("outputs", 1), attributes.pop("fixed", ())
    values: list[ir.Value | None] = []
    for i, given in enumerate(row.case.inputs):
        if given is None:
            values.append(None)
        elif isinstance(given, Weight):
            values.append(g.const(given.array, name=f"w{i}"))
        else:
            array = np.asarray(given)
            known = range(array.ndim) if not row.dynamic else fixed
            shape = [size if axis in known else f"d{i}_{axis}" for axis, size in enumerate(array.shape)]
            values.append(g.input(f"x{i}", ir.DataType.from_numpy(array.dtype), shape))
            feeds[f"x{i}"] = array
    made = g.node(row.case.operator, values, attributes, outputs=count)
    for i, value in enumerate(made if isinstance(made, list) else [made]):
        if value.dtype is None:
            raise ValueError(f"ONNX infers no dtype for output {i} of {row.case.operator}")
        g.output(value, f"y{i}")
    return g.model(), feeds


# ONNX Runtime computes the positions of cells, and transforms, in float32, with an error above Caffe2's whole error.
# Its products of bytes with signed bytes saturate on processors that do so. It interprets output_shape differently.
_JUDGED_BY_REFERENCE = {"Resize", "DFT", "STFT", "MatMulInteger", "QLinearConv", "MaxUnpool"}


def reference(row: Row) -> dict[str, np.ndarray]:
    """Return the outputs of ONNX Runtime, or of ONNX's reference evaluator for dtypes without a kernel."""
    model, feeds = build(Row(row.case, dynamic=False))
    proto = ir.to_proto(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        if row.case.operator in _JUDGED_BY_REFERENCE:
            raise NotImplementedError
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # no kernel: onnxruntime has no more specific exception
        from onnx.reference import ReferenceEvaluator

        made = ReferenceEvaluator(onnx.ModelProto.FromString(proto.SerializeToString())).run(None, feeds)
        return {o.name: np.asarray(a) for o, a in zip(proto.graph.output, made, strict=True)}
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


class Nets:
    """Rows with their nets and the outcomes of their runs. The net of a row is written when a test asks for it.

    The `repr` is short, because pytest prints a test's arguments for each gap, which took seconds.
    """

    def __init__(self, rows: Sequence[Row], folder: Path) -> None:
        self.rows, self.folder = {id(row): row for row in rows}, folder
        self._jobs: dict[int, Job | ConvertError] = {}
        self._outcomes: dict[int, Outcome] = {}

    def run(self) -> Nets:
        """Run the nets of all rows in one real Caffe2 and keep their outcomes."""
        written = {number: self._net(row) for number, row in self.rows.items()}
        jobs = {number: net for number, net in written.items() if isinstance(net, Job)}
        for number, result in zip(jobs, run_jobs(list(jobs.values())), strict=True):
            self._outcomes[number] = Outcome(error=result) if isinstance(result, ConvertError) else Outcome(result)
        return self

    def outcome(self, row: Row) -> Outcome:
        """Return the outcome of `row`, an empty one if it was not run."""
        net = self._net(row)
        return Outcome(error=net) if isinstance(net, ConvertError) else self._outcomes.get(id(row), Outcome())

    def job(self, row: Row) -> Job:
        """Return the net of `row`, or raise the error of writing it."""
        net = self._net(row)
        if isinstance(net, ConvertError):
            raise net
        return net

    def _net(self, row: Row) -> Job | ConvertError:
        """Return the net of `row`: folder and inputs, or the error of writing it."""
        assert self.rows[id(row)] is row
        if id(row) not in self._jobs:
            model, feeds = build(row)
            path = self.folder / f"{len(self._jobs)}.caffe2"
            try:
                caffe2.write(model, path, "caffe2", Options(), Report("convert"))
                self._jobs[id(row)] = Job(path, feeds)
            except ConvertError as error:
                self._jobs[id(row)] = error
        return self._jobs[id(row)]


def check(row: Row, nets: Nets) -> None:
    """Assert that the outcome of a row is ONNX Runtime's; raise the row's error if it has one."""
    outcome = nets.outcome(row)
    if outcome.error is not None:
        raise outcome.error
    assert outcome.outputs is not None
    assert_same(outcome.outputs, reference(row))


def assert_same(got: dict[str, np.ndarray], want: dict[str, np.ndarray], terms: float = 0.0) -> None:
    """Assert equal names, dtypes, shapes and integers, and floats within 16 roundings of the number or of the rms.

    terms: the size of the terms that Caffe2 adds up for an output, if they are larger than the output.
    """
    assert list(got) == list(want)
    for name, expected in want.items():
        actual = got[name]
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(actual, expected)
            continue
        assert np.array_equal(np.isfinite(actual), np.isfinite(expected))
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(actual[~finite], expected[~finite])
        a, e = actual[finite].astype(np.float64), expected[finite].astype(np.float64)
        rounding = 16 * float(np.finfo(expected.dtype).eps) / 2
        rms = np.sqrt(np.mean(e**2)) if e.size else 0.0
        error = np.abs(a - e) - rounding * np.maximum(np.abs(e), max(rms, terms))
        assert error.size == 0 or error.max() <= 0, f"off by {np.abs(a - e).max():.3g}, rms {rms:.3g}"


def needs_caffe2() -> str:
    """Return the reason why tests on the real Caffe2 are skipped, or ""."""
    return f"needs a real Caffe2: set CONVERT_CAFFE2_PYTHON ({missing})" if (missing := available()) else ""


_FILLS = {"uint8": "GivenTensorByteStringToUInt8Fill", "int32": "GivenTensorIntFill", "int64": "GivenTensorInt64Fill"}


def hand_written(
    path: Path, operator: str, inputs: Sequence[np.ndarray], args: dict[str, Any], outputs: int = 1,
    weights: Sequence[int] = (),
) -> Job:  # fmt: skip
    """Return a net of one operator as another program may write it.

    Inputs at `weights` are constants, the others data.
    """
    names = [f"x{i}" for i in range(len(inputs))]
    predict = pb.NetDef(name="net", external_input=names, external_output=[f"y{i}" for i in range(outputs)])
    init = pb.NetDef(name="init")
    for i in weights:
        fill = init.op.add(type=_FILLS[inputs[i].dtype.name], output=[names[i]])
        fill.arg.add(name="shape").ints.extend(inputs[i].shape)
        values = fill.arg.add(name="values")
        if inputs[i].dtype == np.uint8:
            values.strings.append(inputs[i].tobytes())
        else:
            values.ints.extend(inputs[i].ravel().tolist())
    op = predict.op.add(type=operator, input=names, output=predict.external_output)
    for key, value in args.items():
        argument = op.arg.add(name=key)
        if isinstance(value, str):
            argument.s = value.encode()
        elif isinstance(value, float):
            argument.f = value
        elif isinstance(value, int):
            argument.i = value
        elif all(isinstance(v, int) for v in value):
            argument.ints.extend(value)
        else:
            argument.floats.extend(value)
    path.mkdir(parents=True)
    (path / "predict_net.pb").write_bytes(predict.SerializeToString())
    (path / "init_net.pb").write_bytes(init.SerializeToString())
    return Job(
        path, {name: array for i, (name, array) in enumerate(zip(names, inputs, strict=True)) if i not in weights}
    )
