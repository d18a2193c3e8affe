"""The user's own layers in a Keras file: found in the files of `--code`, registered with Keras or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from convert.cli import cli

SAVE = """
import keras, {name}
inputs = keras.Input((4,))
keras.Model(inputs, {name}.Twice()(keras.layers.Dense(3)(inputs))).save("{name}.keras")
"""
LAYER = """
import keras

{decorator}
class Twice(keras.layers.Layer):
    def call(self, x):
        return 2 * x
"""


@pytest.fixture(params=["registered", "plain"])
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a Keras file with a custom layer, and the script that defines it in another folder."""
    name = f"own_{request.param}_layers"
    decorator = "@keras.saving.register_keras_serializable('mine')" if request.param == "registered" else ""
    (tmp_path / "code").mkdir()
    (tmp_path / f"code/{name}.py").write_text(LAYER.format(decorator=decorator))
    (tmp_path / "save.py").write_text(f"import sys; sys.path.append('code')\n{SAVE.format(name=name)}")
    subprocess.run([sys.executable, "save.py"], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@pytest.mark.slow
def test_layers_are_found_in_a_file_of_code(name: str) -> None:
    """Each hint gives the next step; the file is executed only because the user names it, the model only with
    --trust.
    """

    def told(*more: str) -> str:
        done = CliRunner().invoke(cli, [f"{name}.keras", "m.onnx", *more])
        assert done.exit_code == (0 if "PASS" in done.output else 5), done.output
        return done.output

    refused = told()
    assert "--trust" in refused
    assert "--code FILE.py, where FILE.py is the script that defines Twice" in refused
    assert "hint: add --code FILE.py" in told("--trust")
    assert "not Keras's own" in told("--code", f"code/{name}.py")
    assert "PASS" in told("--trust", "--code", f"code/{name}.py")
