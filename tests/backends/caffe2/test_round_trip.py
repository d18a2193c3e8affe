"""PyTorch → Caffe2 → ONNX → Caffe2 gives the same model again, and Caffe2 → TensorFlow works."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from convert.backends.caffe2.executor.executor import execute

import convert

FIXTURES = Path(__file__).parents[3] / "fixtures"


def test_pytorch_to_caffe2_to_onnx_to_caffe2_closes(tmp_path: Path) -> None:
    first, back, again = (tmp_path / name for name in ("first.caffe2", "back.onnx", "again.caffe2"))
    convert.convert(FIXTURES / "mnist_cnn.pt2", "caffe2", first, verify=False)
    convert.convert(first, "onnx", back, verify=False)
    convert.convert(back, "caffe2", again, verify=False)
    feed = {"image": np.random.default_rng(0).normal(size=(3, 1, 28, 28)).astype(np.float32)}
    (one,), (other,) = (
        execute(path, [dict(zip(_inputs(path), feed.values(), strict=True))]) for path in (first, again)
    )
    assert list(one) == list(other)
    for name, array in one.items():
        # The same operators on the same weights give equal results, without a rounding error.
        np.testing.assert_array_equal(other[name], array)


@pytest.mark.long
def test_each_step_is_verified_and_caffe2_goes_on_to_tensorflow(tmp_path: Path) -> None:
    nets, back, saved = tmp_path / "nets.caffe2", tmp_path / "back.onnx", tmp_path / "saved.savedmodel"
    for source, to, output in (
        (FIXTURES / "super_resolution.pt2", "caffe2", nets), (nets, "onnx", back), (nets, "tf", saved),
    ):  # fmt: skip
        verdict = convert.convert(source, to, output, verify=True).verdict
        assert verdict is not None
        assert verdict.status == "PASS"


def _inputs(path: Path) -> tuple[str, ...]:
    from convert.files.caffe2.folder import read_folder

    return read_folder(path).inputs
