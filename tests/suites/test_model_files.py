"""The survey of model files finds the data beside them, in both layouts, and names the causes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.suites.model_files import answer_to, data_beside, model_paths, table
from tests.support.onnx_support import info, model

X = np.array([[-1.0, 2.0, 3.0]], np.float32)


def one_node(operator: str, **attributes: float) -> onnx.ModelProto:
    """Return a model of one node on a matrix."""
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    return model([node], [info("x", [1, 3])], [info("y", [1, 3])])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model of ONNX's own tests, models in ONNX's and OpenCV's layout, and a damaged one."""
    shipped = (
        Path(onnx.__file__).parent / "backend" / "test" / "data" / "pytorch-operator" / "test_operator_add_broadcast"
    )
    shutil.copytree(shipped, tmp_path / "shipped")
    for name, expected in (("agrees", np.abs(X)), ("differs", np.abs(X) + 0.01)):
        place = tmp_path / name
        (place / "test_data_set_0").mkdir(parents=True)
        onnx.save(one_node("Abs"), place / "model.onnx")
        for side, array in (("input", X), ("output", expected)):
            content = numpy_helper.from_array(array).SerializeToString()
            (place / "test_data_set_0" / f"{side}_0.pb").write_bytes(content)
    (tmp_path / "models").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("relu", "relu_1"):  # the data of one must not be mixed up with that of the other
        onnx.save(one_node("LeakyRelu", alpha=0.5 if name == "relu" else 0.25), tmp_path / "models" / f"{name}.onnx")
        np.save(tmp_path / "data" / f"input_{name}.npy", X)
        np.save(tmp_path / "data" / f"output_{name}.npy", np.where(X > 0, X, X * (0.5 if name == "relu" else 0.25)))
    onnx.save(one_node("Elu"), tmp_path / "models" / "alone.onnx")
    (tmp_path / "models" / "damaged.onnx").write_bytes(one_node("Elu").SerializeToString()[:-9])
    return tmp_path


def test_outcomes_and_causes(folder: Path) -> None:
    answers = [(str(path.relative_to(folder)), answer_to(str(path))) for path in model_paths(folder)]
    assert {name: answer.status for name, answer in answers} == {
        "agrees/model.onnx": "right",
        "differs/model.onnx": "wrong",
        "models/alone.onnx": "converted",
        "models/damaged.onnx": "refused",
        "models/relu.onnx": "right",
        "models/relu_1.onnx": "right",
        "shipped/model.onnx": "right",
    }
    text = table(answers)
    assert "| right | 4 |" in text
    assert "| refused | bad-input: … is truncated" in text


def test_only_the_models_own_data_is_read(folder: Path) -> None:
    ((given, expected),) = data_beside(folder / "models" / "relu.onnx")
    assert len(given) == len(expected) == 1
    assert data_beside(folder / "models" / "alone.onnx") == []
