"""Every lowering, run by onnxruntime and by each target that it is written for, against the operator itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import convert
from convert import plugin
from convert.errors import Unsupported
from convert.legalize.table import LOWERINGS
from convert.request.options import Options
from convert.request.source import Source
from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.backends.tensorflow.ops.support import assert_same, expected, feeds_of
from tests.support.cases import Case
from tests.support.lowered_rows import lowered_rows
from tests.support.merged_cases import merged
from tests.support.run_targets import SUFFIXES, run_target

ROWS = list(lowered_rows())
PLAIN = (np.float32, np.int32, np.int64, np.bool_)
FORMATS = ("tf", "keras", "torch", "caffe2", "tflite")

REFUSED: dict[tuple[str, str], str] = {
    ("keras", "ConstantOfShape"): "repeats computed at run time",
    ("caffe2", "MelWeightMatrix"): "Caffe2 computes this in float32 only",
    ("caffe2", "STFT"): "Caffe2 computes this in float32 only",
    ("tflite", "MelWeightMatrix"): "TensorFlow Lite has no built-in Log",
    ("tflite", "STFT"): "TensorFlow Lite has no built-in Cos",
}
"""Reason why a format cannot express an operator's lowering with run-time sizes, by format and operator."""


def test_every_lowering_has_a_case() -> None:
    """Operators of other domains have their own tests, and so has Mod of floats with fmod=0, which came in opset 28."""
    standard = {name for name in LOWERINGS if "::" not in name}
    assert {row.operator for row, _ in ROWS} == standard - {"Mod"}


def test_no_lowering_leads_back_to_its_operator() -> None:
    """Recurrent layers and some others keep the operator, but without the attribute that the lowering removes."""
    kept = {"ArgMax", "ArgMin", "GRU", "LSTM", "Mod", "RNN", "ScatterElements", "ScatterND"}
    assert {row.operator for row, model in ROWS if row.operator in {n.op_type for n in model.graph.node}} <= kept


@pytest.mark.parametrize("row", [pytest.param(i, id=f"{row.operator}-{i}") for i, (row, _) in enumerate(ROWS)])
def test_onnx_computes_the_same(row: int) -> None:
    case, model = ROWS[row]
    if case.operator == "Gelu" and case.inputs[0].dtype == np.float64:
        pytest.skip("neither onnxruntime nor ONNX's evaluator computes Erf in float64")
    assert_same(by_onnx(model, feeds_of(case)), expected(case))


def by_onnx(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return onnxruntime's outputs, or those of ONNX's evaluator: onnxruntime keeps float32 between half-precision
    operators, has no Conv in float64, which ConvInteger becomes, and takes no arrays of less than a byte or of float8.
    """
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    narrow = any(
        x.type.tensor_type.elem_type > onnx.TensorProto.BFLOAT16 for x in (*model.graph.input, *model.graph.output)
    )
    halves = any(x.dtype == np.float16 for x in feeds.values())
    if narrow or halves or any(n.op_type == "Conv" for n in model.graph.node):
        return ReferenceEvaluator(model).run(None, feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, feeds)


def _is_plain(row: Case, model: onnx.ModelProto) -> bool:
    """Return whether inputs and outputs have dtypes that every target has."""
    results = (onnx.helper.tensor_dtype_to_np_dtype(y.type.tensor_type.elem_type) for y in model.graph.output)
    return all(dtype in PLAIN for dtype in (*(x.dtype for x in feeds_of(row).values()), *results))


def _computes_sizes(row: Case) -> bool:
    return not any(isinstance(x, Const) for x in row.inputs[1:])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_every_target_computes_the_same(form: str, tmp_path: Path) -> None:
    pytest.importorskip({"torch": "torch", "caffe2": "onnx", "keras": "keras"}.get(form, "tensorflow"))
    plain = [
        (row, model)
        for row, model in ROWS
        if _is_plain(row, model) and not ((form, row.operator) in REFUSED and _computes_sizes(row))
    ]
    for opset in {model.opset_import[0].version for _, model in plain}:
        some = [(row, model) for row, model in plain if model.opset_import[0].version == opset]
        for got, (row, _) in zip(by_target(form, some, opset, tmp_path / str(opset)), some, strict=True):
            assert_same(got, expected(row))


def by_target(
    form: str, rows: Sequence[tuple[Case, onnx.ModelProto]], opset: int, folder: Path
) -> list[list[np.ndarray]]:
    """Return the outputs of each row; all rows are in one artefact."""
    folder.mkdir()
    members = [(i, model) for i, (_, model) in enumerate(rows)]
    path = folder / f"all.{SUFFIXES[form]}"
    convert.convert(merged(members, opset), form, path, verify=False)
    feeds = {f"c{i}_{name}": x for i, (row, _) in enumerate(rows) for name, x in feeds_of(row).items()}
    if form == "caffe2":  # by the executor, if there is no Caffe2
        runner = plugin.runner_for("caffe2")
        assert runner is not None
        (outputs,) = runner.run(Source("caffe2", path), [feeds], precision="float32", options=Options())
    else:
        (outputs,) = run_target(form, path, [feeds])
    return [[outputs[f"c{i}_{y.name}"] for y in model.graph.output] for i, model in members]


@pytest.mark.parametrize(("form", "operator"), REFUSED)
def test_refusals(form: str, operator: str, tmp_path: Path) -> None:
    """Each refusal in the table still occurs for some row, with the reason in the table."""
    reasons = ""
    for i, (row, model) in enumerate(ROWS):
        if row.operator == operator and _is_plain(row, model) and _computes_sizes(row):
            try:
                convert.convert(model, form, tmp_path / f"{i}.{SUFFIXES[form]}", verify=False)
            except Unsupported as error:
                reasons += str(error)
    assert REFUSED[form, operator] in reasons
