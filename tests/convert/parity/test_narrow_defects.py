"""Defects of narrow targets are found in each format and form, and clean conversions have none.

Networks, forms and defects are in `tests/support/narrow_defects.py`; `tests/suites/planted_narrow.py` prints the table.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import convert
from convert.outcome.verdict import PASS
from tests.support.narrow_defects import DEFECTS, FORMS, NETWORKS, NOT_FOUND, UNAVAILABLE, network, samples, spec

_QUICK = {("mlp", form) for form in FORMS} | {("lstm", "onnx int4"), ("depthwise", "tflite float16")}
PAIRS = [
    pytest.param(name, form, marks=[pytest.mark.slow if (name, form) in _QUICK else pytest.mark.long])
    for name in NETWORKS
    for form in FORMS
    if (name, form) not in UNAVAILABLE
]


@pytest.mark.not_core
@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_clean_targets_pass_and_defects_do_not(name: str, form: str, tmp_path: Path) -> None:
    format_, options, factor = FORMS[form]
    given = samples(name)
    options = options | ({"calibrate": given} if "calibrate" in options else {})
    clean, changed = tmp_path / f"clean.{format_}", tmp_path / f"changed.{format_}"
    report = convert.convert(network(name), format_, clean, inputs=spec(name), **options)
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    step = float(np.ptp(output_of(name, given["x"]))) / 255
    inputs = given if "calibrate" in options else spec(name)
    for defect, plant in DEFECTS.items():
        shutil.copy(clean, changed)
        if plant(changed, factor, step) and (name, form, defect) not in NOT_FOUND:
            verdict = convert.verify(network(name), changed, inputs=inputs).verdict
            assert verdict is not None
            assert verdict.status != PASS, defect


def output_of(name: str, x: np.ndarray) -> np.ndarray:
    import torch

    return np.asarray(network(name)(torch.from_numpy(x)).detach())


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize(("quantize", "factor"), [("int4", 1.2), ("int8", 1.03)])
def test_a_target_that_was_made_of_other_weights(quantize: str, factor: float, tmp_path: Path) -> None:
    import torch

    right, wrong = network("mlp"), network("mlp")
    with torch.no_grad():
        wrong.last.weight.mul_(factor)
        wrong.last.bias.mul_(factor)
    path = tmp_path / "m.onnx"
    convert.convert(wrong, "onnx", path, inputs=spec("mlp"), quantize=quantize, verify=False)
    verdict = convert.verify(right, path, inputs=spec("mlp")).verdict
    assert verdict is not None
    assert verdict.status != PASS
    assert "last.weight" in verdict.reason
