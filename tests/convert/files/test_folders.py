"""A model's folder is searched in bounded time, however deep it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from convert import limits, plugin
from convert.batch.plan import plan_tasks
from convert.batch.task_key import dependency_files
from convert.errors import BadInput
from convert.files.folders import paths_in
from convert.files.output_place import check_replaceable
from convert.files.sniff import sniff
from tests.support.work import at_most_calls

SAVED = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.savedmodel"


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """Return a SavedModel whose assets are nested more deeply than Python's calls may nest."""
    model = tmp_path / "m.savedmodel"
    shutil.copytree(SAVED, model)
    (model / "assets").mkdir(exist_ok=True)
    here = os.getcwd()
    try:
        os.chdir(model / "assets")
        for _ in range(1100):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    yield model
    subprocess.run(["rm", "-r", str(model)], check=True)  # shutil calls itself for each level


def test_a_folder_of_a_thousand_floors_is_no_model(deep: Path) -> None:
    """A folder that is nested a thousand times used to be reported as a defect of this program."""
    with at_most_calls(1_000_000):
        with pytest.raises(BadInput, match="more than 100 floors"):
            sniff(deep)
        with pytest.raises(BadInput, match="more than 100 floors"):
            check_replaceable(deep, list(plugin.formats().values()))
        (task,) = plan_tasks([str(deep)], ["onnx"], deep.parent / "out", {}, 60.0, None)
        assert dependency_files(task) == []  # the task itself reports the error, and no other task is affected


def test_entries_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/b", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "d" / "up").symlink_to(tmp_path)
    assert sorted(p.name for p in paths_in(tmp_path)) == ["a", "b", "c", "d", "up"]
    assert paths_in(tmp_path / "none") == []
    monkeypatch.setattr(limits, "FOLDER_ENTRIES", 2)
    with pytest.raises(BadInput, match="more than 2 entries"):
        paths_in(tmp_path)


def test_a_folder_of_models_names_them(tmp_path: Path) -> None:
    """The models include folders, but no files of weights without code."""
    for name in ("saved/saved_model.pb", "hub/config.json", "nets/init_net.pb", "other/notes.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"x")
    for name in ("a.keras", "a.weights.h5", "b.onnx"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(BadInput) as caught:
        sniff(tmp_path)
    assert caught.value.hint.startswith("name one of the models in it: a.keras, b.onnx, hub, nets, saved; all of them")
