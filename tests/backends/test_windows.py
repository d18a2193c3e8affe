"""Drawn windows of convolutions and pools through each target, with known and unknown sizes, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import convert
from convert import plugin
from convert.errors import Unsupported
from convert.request.options import Options
from convert.request.source import Source
from tests.backends.tensorflow.ops.support import DYNAMIC, STATIC, assert_same, feeds_of, model_of
from tests.support.cases import Case
from tests.support.merged_cases import merged, with_dims_apart
from tests.support.run_targets import SUFFIXES, run_target
from tests.support.window_rows import depends_on_sizes, drawn_rows

FORMATS = ("torch", "tf", "keras", "caffe2", "tflite", "onnx")
COUNT = 25
"""Rows of each operator in one run."""

NEEDED = {"torch": "torch", "keras": "keras", "tf": "tensorflow", "tflite": "tensorflow"}
"""The framework that a format needs."""


def refused(form: str, row: Case, variant: int) -> bool:
    """Return whether a format may refuse a row.

    Keras and Caffe2 have no pads that are computed, and some operators of Caffe2 need sizes. TensorFlow Lite lacks
    kernels for three dims and for dilations with strides.
    """
    if form == "tflite":
        return row.inputs[0].ndim > 4 or max(row.attributes["dilations"]) > 1
    if form not in ("keras", "caffe2") or variant == STATIC:
        return False
    if depends_on_sizes(row):
        return True
    dilated = max(row.attributes["dilations"]) > 1
    gathered = dilated and row.operator.endswith("Pool")
    return form == "caffe2" and (gathered or row.operator == "ConvTranspose")


def window_model(number: int, row: Case, variant: int) -> onnx.ModelProto:
    """Return the model of a row; with DYNAMIC, batch and spatial dims are unknown, and the channels are known."""
    model = with_dims_apart(number, model_of(row, variant))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = row.inputs[0].shape[1]
    return model


def is_accepted(form: str, model: onnx.ModelProto) -> bool:
    try:
        convert.convert(model, form, f"row.{SUFFIXES[form]}", verify=False, dry_run=True)
    except Unsupported:
        return False
    return True


@pytest.mark.parametrize(
    ("form", "variant"),
    [
        pytest.param(
            form, variant, id=f"{form}-{name}", marks=() if (form, name) == ("torch", "known") else pytest.mark.slow
        )
        for form in FORMATS
        for variant, name in ((STATIC, "known"), (DYNAMIC, "unknown"))
    ],
)
def test_drawn_windows(form: str, variant: int, tmp_path: Path) -> None:
    pytest.importorskip(NEEDED.get(form, "onnx"))
    drawn = drawn_rows(2, 5 if form == "torch" else COUNT)
    models = [(i, window_model(i, row, variant)) for i, (row, _) in enumerate(drawn)]
    taken = [(i, m) for i, m in models if not refused(form, drawn[i][0], variant) or is_accepted(form, m)]
    assert len(taken) > len(drawn) / 2
    apart = form == "torch" and variant == DYNAMIC  # torch.export takes very long for many unknown dims
    outputs: dict[str, np.ndarray] = {}
    for part in [[one] for one in taken] if apart else [taken]:
        path = tmp_path / f"{part[0][0]}.{SUFFIXES[form]}"
        convert.convert(merged(part, 23), form, path, verify=False)
        feeds = {f"c{i}_{n}": x for i, _ in part for n, x in feeds_of(drawn[i][0]).items()}
        outputs |= outputs_of(form, path, feeds)
    wrong = [problem for i, _ in taken if (problem := difference(drawn[i], outputs[f"c{i}_y0"]))]
    assert not wrong, "\n".join(wrong)


def difference(row: tuple[Case, np.ndarray], got: np.ndarray) -> str:
    """Return how an output differs from what a row returns; empty if it does not."""
    try:
        assert_same([got], [row[1]])
    except AssertionError as error:
        return f"{row[0].operator} {row[0].attributes} over {row[0].inputs[0].shape}: {str(error)[:300]}"
    return ""


def outputs_of(form: str, path: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if form != "caffe2":
        return run_target(form, path, [feeds])[0]
    runner = plugin.runner_for("caffe2")  # the executor, if there is no Caffe2
    assert runner is not None
    (outputs,) = runner.run(Source("caffe2", path), [feeds], precision="float32", options=Options())
    return dict(outputs)
