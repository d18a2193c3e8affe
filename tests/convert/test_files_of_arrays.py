"""From Python, files of arrays are accepted wherever arrays by name are, as on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import convert
from convert.errors import BadInput, UsageError
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.saved import save_feeds
from convert.parity.method import VerifyMethod

pytestmark = pytest.mark.not_core  # every test starts programs with children, which takes seconds


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = '<ir_version: 10, opset_import: ["": 20]> net (float[n, 6] x) => (float[n, 3] y) { y = MatMul (x, w) }'
    found = onnx.parser.parse_model(text)
    weight = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    found.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(found, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((5, 6)).astype(np.float32)}


def as_npz(arrays: dict[str, np.ndarray], folder: Path) -> str:
    np.savez(folder / "in.npz", **arrays)
    return str(folder / "in.npz")


def as_path(arrays: dict[str, np.ndarray], folder: Path) -> Path:
    return Path(as_npz(arrays, folder))


def as_folder(arrays: dict[str, np.ndarray], folder: Path) -> str:
    (folder / "arrays").mkdir()
    for name, array in arrays.items():
        np.save(folder / "arrays" / f"{name}.npy", array)
    return str(folder / "arrays")


WAYS = [as_npz, as_path, as_folder]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_verify_takes_a_file(way: Callable[..., Any], model: Path, arrays: Any, tmp_path: Path) -> None:
    given = way(arrays, tmp_path)
    for method in (None, VerifyMethod(seeds=1)):
        verdict = convert.verify(model, model, inputs=given, method=method).verdict
        assert verdict is not None
        assert "1 input set, n 5" in verdict.sets


def test_verify_takes_every_set_that_was_saved(model: Path, arrays: Any, tmp_path: Path) -> None:
    save_feeds(tmp_path / "sets.npz", [Feed("a", arrays), Feed("b", {"x": arrays["x"][:2]})])
    verdict = convert.verify(model, model, inputs=str(tmp_path / "sets.npz")).verdict
    assert verdict is not None
    assert verdict.sets.startswith("2 input sets")


def test_convert_takes_a_file(model: Path, arrays: Any, tmp_path: Path) -> None:
    report = convert.convert(model, "onnx", tmp_path / "out.onnx", inputs=as_npz(arrays, tmp_path))
    assert report.verdict is not None
    assert "1 input set, n 5" in report.verdict.sets


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_calibrate_takes_a_file(way: Callable[..., Any], model: Path, arrays: Any, tmp_path: Path) -> None:
    by_name = convert.convert(model, "onnx", tmp_path / "a.onnx", quantize="int8", calibrate=arrays, verify=False)
    by_file = convert.convert(
        model, "onnx", tmp_path / "b.onnx", quantize="int8", calibrate=way(arrays, tmp_path), verify=False
    )
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert by_name.output_bytes == by_file.output_bytes


def test_a_missing_file_is_named_with_the_near_one(model: Path, arrays: Any, tmp_path: Path) -> None:
    as_npz(arrays, tmp_path)
    for call in (
        lambda: convert.verify(model, model, inputs=str(tmp_path / "inn.npz")),
        lambda: convert.convert(model, "onnx", tmp_path / "o.onnx", quantize="int8", calibrate=tmp_path / "inn.npz"),
    ):
        with pytest.raises(UsageError, match=r"no file or folder .*inn\.npz") as raised:
            call()
        assert "in.npz" in raised.value.hint
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(BadInput, match="no readable inputs"):
        convert.verify(model, model, inputs=tmp_path / "text.npz")


def test_text_is_a_spec_otherwise(model: Path, tmp_path: Path) -> None:
    report = convert.convert(model, "onnx", tmp_path / "out.onnx", inputs="x:float32[4,6]", verify=False)
    assert report.inputs[0].shape == (4, 6)
