"""A task is done if its output is the one that was written, from the source content that was read."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from convert import plugin
from convert.batch import contents, local_engine, ray_engine, task_key, worker
from convert.batch.made import describe, is_there
from convert.batch.plan import Task
from convert.batch.run import run
from convert.batch.show import LineView
from convert.batch.worker import TaskResult
from convert.errors import UsageError
from convert.files.output import atomic_replacement
from convert.files.output_place import check_replaceable
from tests.support.batch_tools import tiny

Change = Callable[[], object]


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> Conversions:
    """Replace the worker's conversion by one that copies its source, with an action in the middle of it."""
    made = Conversions()
    monkeypatch.setattr(worker, "_run_here", made.convert)
    return made


class Conversions:
    """Replaces the child: reads the source at once, writes it as the output, and reports which sources it has
    converted.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.midst: dict[str, Change] = {}

    def convert(self, task: Task, output: Path, stop: threading.Event | None, fork_address: str) -> TaskResult:
        self.done.append(task.name)
        self.midst.pop(task.name, lambda: None)()
        try:
            check_replaceable(output, list(plugin.formats().values()))
            with atomic_replacement(output, force=True) as place:
                if task.source.is_dir():
                    shutil.copytree(task.source, place)
                else:
                    shutil.copy(task.source, place)
                for file in task.source.parent.glob(f"{task.source.name}.data"):
                    shutil.copy(file, place.parent)
        except UsageError as error:
            return TaskResult("usage", error.message)
        return TaskResult("converted")

    def run(self, tasks: list[Task], folder: Path, **more: Any) -> tuple[list[str], dict[str, str]]:
        """Return the converted tasks, in order, and the outcome of each by name and format."""
        self.done = []
        records = run(tasks, folder, LineView(0, True, True), jobs=1, **{"force": False, "retries": 0, **more})
        return self.done, {f"{r['name']} {r['format']}": r["outcome"] for r in records}


def tasks_in(folder: Path, *names: str, to: tuple[str, ...] = ("onnx",), **options: Any) -> list[Task]:
    made = [(n, tiny(folder / f"{n}.onnx", seed)) for seed, n in enumerate(names)]
    return [Task(n, path, form, folder / f"out/{n}.{form}", options) for n, path in made for form in to]


# -- sources ----------------------------------------------------------------------------------------------------------


def test_a_source_that_changes_before_its_turn_and_is_put_back(tmp_path: Path, conversions: Conversions) -> None:
    tasks = tasks_in(tmp_path, "a", "z")
    first = (tmp_path / "z.onnx").read_bytes()
    conversions.midst["a"] = lambda: tiny(tmp_path / "z.onnx", 9)
    assert conversions.run(tasks, tmp_path / "out") == (["a", "z"], {"a onnx": "converted", "z onnx": "converted"})
    assert conversions.run(tasks, tmp_path / "out")[0] == []  # the file is still the one that was read
    (tmp_path / "z.onnx").write_bytes(first)
    assert conversions.run(tasks, tmp_path / "out")[0] == ["z"]
    assert (tmp_path / "out/z.onnx").read_bytes() == first
    assert conversions.run(tasks, tmp_path / "out")[0] == []


@pytest.mark.parametrize("put_back", [False, True])
def test_a_source_that_changes_while_it_is_read(tmp_path: Path, conversions: Conversions, put_back: bool) -> None:
    """The run may have read a mixture of two contents, even if content and times are the same afterwards."""
    tasks = tasks_in(tmp_path, "a")
    path, first = tmp_path / "a.onnx", (tmp_path / "a.onnx").read_bytes()
    facts = path.stat()

    def change() -> None:
        tiny(path, 9)
        if put_back:
            path.write_bytes(first)
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    time.sleep(0.02)
    conversions.midst["a"] = change
    assert conversions.run(tasks, tmp_path / "out") == (["a"], {"a onnx": "changed"})
    assert not (tmp_path / "out/a.onnx").exists()
    assert conversions.run(tasks, tmp_path / "out") == (["a"], {"a onnx": "converted"})
    time.sleep(0.02)
    conversions.midst["a"] = lambda: tiny(path, 10)
    assert conversions.run(tasks, tmp_path / "out", force=True, retries=1) == (["a", "a"], {"a onnx": "converted"})


def test_an_error_of_content_that_is_gone_does_not_hold(
    tmp_path: Path, conversions: Conversions, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = tasks_in(tmp_path, "a")
    monkeypatch.setattr(conversions, "convert", lambda *_: TaskResult("unsupported"))

    def changing(*_: Any) -> TaskResult:
        time.sleep(0.02)
        tiny(tmp_path / "a.onnx", 9)
        tiny(tmp_path / "a.onnx", 0)
        return TaskResult("unsupported")

    monkeypatch.setattr(worker, "_run_here", changing)
    assert conversions.run(tasks, tmp_path / "out")[1] == {"a onnx": "unsupported"}
    monkeypatch.setattr(worker, "_run_here", Conversions().convert)
    assert conversions.run(tasks, tmp_path / "out")[1] == {"a onnx": "converted"}


@pytest.mark.parametrize("part", ["weights", "file", "new file"])
@pytest.mark.parametrize("when", ["before", "midst"])
def test_parts_of_a_source(tmp_path: Path, conversions: Conversions, part: str, when: str) -> None:
    """External data, and the files of a folder, are changed or added."""
    (tmp_path / "folder/variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/data"):
        (tmp_path / "folder" / name).write_bytes(b"a")
    model = onnx.load(tiny(tmp_path / "far.onnx"))
    onnx.save(model, tmp_path / "far.onnx", save_as_external_data=True, location="far.onnx.data", size_threshold=0)
    (first,) = tasks_in(tmp_path, "a")
    source = tmp_path / ("far.onnx" if part == "weights" else "folder")
    tasks = [first, Task("z", source, "onnx", tmp_path / "out" / source.name)]
    changed = tmp_path / {"weights": "far.onnx.data", "file": "folder/variables/data", "new file": "folder/more"}[part]
    time.sleep(0.02)
    conversions.midst["a" if when == "before" else "z"] = lambda: changed.write_bytes(b"other")
    found = conversions.run(tasks, tmp_path / "out")[1]
    assert found == {"a onnx": "converted", "z onnx": "converted" if when == "before" else "changed"}
    assert conversions.run(tasks, tmp_path / "out")[0] == ([] if when == "before" else ["z"])
    changed.write_bytes(b"third")
    assert conversions.run(tasks, tmp_path / "out")[0] == ["z"]


def test_content_that_the_plan_has_read_is_not_read_again(
    tmp_path: Path, conversions: Conversions, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    whole = contents.content_digest

    def counted(path: Path) -> bytes:
        read.append(path.name)
        return whole(path)

    monkeypatch.setattr(task_key, "content_digest", counted)
    tasks = tasks_in(tmp_path, "a", to=("onnx", "tf"))
    conversions.run(tasks, tmp_path / "young")
    assert read == ["a.onnx"] * 4  # a file of this moment could have the same times after a later change
    read.clear()
    monkeypatch.setattr(contents, "_SETTLED", 0)
    time.sleep(0.02)
    conversions.run(tasks, tmp_path / "old", force=True)
    assert read == ["a.onnx"] * 2


# -- outputs ----------------------------------------------------------------------------------------------------------


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _replace(path: Path) -> None:
    """Replace it by another model of the same size and with the same times."""
    facts = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize("change", [_cut, _replace, Path.unlink])
def test_an_output_that_is_not_what_was_made(
    tmp_path: Path, conversions: Conversions, change: Callable[[Path], None]
) -> None:
    """A file, its weights beside it, and a file in a folder are changed; other targets of the model are left
    unchanged.
    """
    model = onnx.load(tiny(tmp_path / "far.onnx"))
    onnx.save(model, tmp_path / "far.onnx", save_as_external_data=True, location="far.onnx.data", size_threshold=0)
    shutil.copytree(Path(__file__).parents[3] / "fixtures/mnist_cnn.savedmodel", tmp_path / "f.savedmodel")
    out = tmp_path / "out"
    tasks = tasks_in(tmp_path, "a", to=("onnx", "tf"))
    tasks += [Task("far", tmp_path / "far.onnx", "onnx", out / "far.onnx")]
    tasks += [Task("folder", tmp_path / "f.savedmodel", "tf", out / "folder.savedmodel")]
    conversions.run(tasks, out)
    assert conversions.run(tasks, out)[0] == []
    variables = out / "folder.savedmodel/variables/variables.data-00000-of-00001"
    for path, name in ((out / "a.tf", "a"), (out / "far.onnx.data", "far"), (out / "far.onnx", "far"),
                       (variables, "folder")):  # fmt: skip
        change(path)
        done, outcomes = conversions.run(tasks, out)
        assert (done, set(outcomes.values())) == ([name], {"converted"})
        assert conversions.run(tasks, out)[0] == []
    (out / "folder.savedmodel/README").write_text("a file of the user's changes nothing")
    assert conversions.run(tasks, out)[0] == []


def test_what_somebody_has_put_in_the_place_of_an_output_stays(tmp_path: Path, conversions: Conversions) -> None:
    tasks, output = tasks_in(tmp_path, "a"), tmp_path / "out/a.onnx"
    conversions.run(tasks, tmp_path / "out")
    output.write_text("notes")
    assert conversions.run(tasks, tmp_path / "out") == (["a"], {"a onnx": "usage"})
    assert output.read_text() == "notes"
    output.unlink()
    tiny(output, 7)
    assert conversions.run(tasks, tmp_path / "out", redo_failed=True)[1] == {"a onnx": "converted"}


def test_a_journal_of_an_earlier_version(tmp_path: Path, conversions: Conversions) -> None:
    tasks, journal = tasks_in(tmp_path, "a"), tmp_path / "out/journal.jsonl"
    conversions.run(tasks, tmp_path / "out")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps({k: v for k, v in r.items() if k != "made"}) + "\n" for r in lines))
    assert conversions.run(tasks, tmp_path / "out")[0] == ["a"]
    assert conversions.run(tasks, tmp_path / "out")[0] == []


@pytest.mark.parametrize(
    "made",
    [None, 5, {}, {"files": {}}, {"files": {"../a.onnx": [1, ""]}}, {"files": {"/dev/zero": [1, ""]}}, {"bytes": "1"},
     {"files": ["a.onnx"]}, {"files": {"a.onnx": 5}}, {"sha256": None}, {"marks": 5}, {"marks": {"/x": "1"}},
     {"bytes": 1}, {"sha256": "0"}],
)  # fmt: skip
def test_a_description_of_another_form_is_of_nothing(tmp_path: Path, made: Any) -> None:
    path = tiny(tmp_path / "out/a.onnx")
    whole = describe(path)
    assert is_there(path, whole)
    assert not is_there(path, {**whole, **made} if isinstance(made, dict) and made else made)


def test_an_output_on_a_storage(tmp_path: Path, conversions: Conversions) -> None:
    pytest.importorskip("fsspec", reason="shared storage is an extra")
    from convert.batch.storage import Url

    base = Url(f"memory://{tmp_path}/out")
    (task,) = tasks_in(tmp_path, "a")
    tasks = [Task("a", task.source, "onnx", base / "a.onnx")]
    assert conversions.run(tasks, tmp_path / "out")[0] == ["a"]
    assert conversions.run(tasks, tmp_path / "out")[0] == []
    time.sleep(0.02)
    (base / "a.onnx").put(tiny(tmp_path / "b.onnx", 5))
    assert conversions.run(tasks, tmp_path / "out")[0] == ["a"]


def test_a_task_of_a_cluster_says_what_it_has_read_and_made(tmp_path: Path, conversions: Conversions) -> None:
    (task,) = tasks_in(tmp_path, "a")
    by = task_key.versions()
    ending = TaskResult(**ray_engine._run_task(task, by, ((), (), False)))
    assert ending.key == task_key.compute_key(task, by)
    assert is_there(task.output, ending.made)


# -- modules of the user's --------------------------------------------------------------------------------------------

FILES = {
    "net/__init__.py": "from . import sizes\n",
    "net/sizes.py": "WIDTH = 3\n",
    "net/factory.py": "import torch\nfrom .deep.layers import Layer\n\n\ndef build():\n    import late\n",
    "net/deep/__init__.py": "",
    "net/deep/layers.py": "import importlib\nfrom ..common import *\nother = importlib.import_module('named')\n",
    "net/common.py": "import json\nfrom space import inner\n",
    "space/inner.py": "",
    "late.py": "import broken\n",
    "named.py": "",
    "broken.py": "def (\n",
    "unused.py": "",
    "net/unused.py": "",
    "alone.py": "import named\n\n\ndef build():\n    pass\n",
    "rules.py": "import helper\nfrom convert.errors import Unsupported\n",
    "helper.py": "",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


NEEDED = {
    "net.factory:build": [*(n for n in FILES if n.startswith(("net/", "space/")) and "unused" not in n), "late.py",
                          "named.py", "broken.py"],
    "alone.py:build": ["alone.py", "named.py"],
    "rules": ["rules.py", "helper.py"],
    "nowhere.at.all:build": [],
}  # fmt: skip


@pytest.mark.parametrize("what", NEEDED)
def test_modules_that_are_imported(modules: Path, what: str) -> None:
    options = {"rules": ["rules.py"]} if what == "rules" else {"model": what}
    task = Task("a", tiny(modules / "a.onnx"), "onnx", modules / "out/a.onnx", options)
    found = {os.path.relpath(p, modules) for p in task_key.dependency_files(task)}
    assert found == {"a.onnx", *NEEDED[what]}
    key = task_key.compute_key(task)
    for name in FILES:
        (modules / name).write_text(FILES[name] + "# changed\n")
        changed = task_key.compute_key(task)
        assert (changed != key) == (name in NEEDED[what]), name
        key = changed


@pytest.mark.not_core
def test_a_module_that_is_named_in_a_pickle(modules: Path) -> None:
    import torch

    (modules / "mine.py").write_text("import named\nfrom torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n")
    code = "import sys, torch; sys.path.insert(0, '.'); import mine; torch.save(mine.Net(3, 3), 'net.pt')"
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", code], cwd=modules, check=True)
    assert torch.__version__
    for options, wanted in (({}, {"net.pt"}), ({"trust": True}, {"net.pt", "mine.py", "named.py"})):
        task = Task("a", modules / "net.pt", "onnx", modules / "out/a.onnx", options)
        assert {p.name for p in task_key.dependency_files(task)} == wanted


def test_a_module_that_changes_runs_its_tasks_again(modules: Path, conversions: Conversions) -> None:
    tasks = tasks_in(modules, "a", model="net.factory:build") + tasks_in(modules, "b")
    conversions.run(tasks, modules / "out")
    assert conversions.run(tasks, modules / "out")[0] == []
    (modules / "net/common.py").write_text("SIZE = 4\n")
    assert conversions.run(tasks, modules / "out")[0] == ["a"]


# -- the whole way ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.not_core
def test_a_batch_whose_source_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = tasks_in(tmp_path, "a", "z")
    first = (tmp_path / "z.onnx").read_bytes()
    whole = local_engine.run

    def swapped(task: Task, *rest: Any) -> TaskResult:
        if task.name == "z":
            tiny(tmp_path / "z.onnx", 9)
        return whole(task, *rest)

    monkeypatch.setattr(local_engine, "run", swapped)
    run(tasks, tmp_path / "out", LineView(2, True, True), jobs=1, force=False)
    monkeypatch.undo()
    (tmp_path / "z.onnx").write_bytes(first)
    records = run(tasks, tmp_path / "out", LineView(2, True, True), jobs=1, force=False)
    assert [bool(r.get("before")) for r in records] == [True, False]
    (made,), (wanted,) = (onnx.load(p / "z.onnx").graph.initializer for p in (tmp_path / "out", tmp_path))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(made), onnx.numpy_helper.to_array(wanted))
