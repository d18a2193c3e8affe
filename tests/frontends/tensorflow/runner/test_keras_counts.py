"""Keras files of a few kilobytes whose configuration requests gigabytes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="Keras runs on it")

import keras  # noqa: E402
from convert.frontends.tensorflow.runner.keras_archive import load_keras  # noqa: E402

from convert import limits  # noqa: E402
from convert.errors import BadInput, ResourceLimit  # noqa: E402


def changed(folder: Path, layer: str, **values: Any) -> Path:
    """Write a model whose configuration has another value for one layer, without the shapes that it was built with."""
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Embedding(8, 4, name="table"), keras.layers.Dense(3, name="dense")]
    )
    model.save(folder / "good.keras")
    with zipfile.ZipFile(folder / "good.keras") as good, zipfile.ZipFile(folder / "m.keras", "w") as bad:
        config = json.loads(good.read("config.json"))
        for entry in config["config"]["layers"]:
            if entry["config"].get("name") == layer:
                entry["config"] |= values
                entry.pop("build_config", None)
        for name in good.namelist():
            bad.writestr(name, json.dumps(config) if name == "config.json" else good.read(name))
    return folder / "m.keras"


@pytest.mark.parametrize(
    ("layer", "values"),
    [("dense", {"units": 1 << 28}), ("table", {"input_dim": 1 << 40}), ("table", {"output_dim": 1 << 27})],
)
def test_a_configuration_that_asks_for_more_than_the_file_holds(
    layer: str, values: dict[str, Any], tmp_path: Path
) -> None:
    path = changed(tmp_path, layer, **values)
    with pytest.raises(ResourceLimit, match=r"asks for more than [0-9,]+ elements"):
        load_keras(path)
    assert load_keras(tmp_path / "good.keras").count_params() == 8 * 4 + 4 * 3 + 3


def test_what_is_wrong_otherwise_is_said_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="Keras cannot load"):
        load_keras(changed(tmp_path, "dense", units=5))
    monkeypatch.setattr(limits, "KERAS_SPARE_ELEMENTS", -(1 << 40))
    with pytest.raises(ResourceLimit):
        load_keras(tmp_path / "good.keras")
