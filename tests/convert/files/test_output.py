"""Atomic outputs: all files or none, for files, folders and companions."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

import convert
from convert import activity
from convert.errors import ResourceLimit, UsageError
from convert.files import exchange, own_folders, replacement
from convert.files.output import atomic_replacement, discard_unfinished, size_of
from convert.files.own_folders import discard_folder

MNIST = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.pt"


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_appears_when_complete(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "m.onnx"
    with atomic_replacement(out, force=False) as temporary:
        temporary.write_text("new")
        assert not out.exists()
    assert out.read_text() == "new"
    assert names(out.parent) == ["m.onnx"]


def test_whoever_watches_knows_the_folder_until_it_is_removed(tmp_path: Path) -> None:
    """The watcher removes what a process that is killed at any moment has left."""
    seen: list[tuple[str, bool]] = []
    watched = activity.listening(lambda kind, path: seen.append((kind, Path(path).exists())))
    with watched, atomic_replacement(tmp_path / "m.onnx", force=False) as temporary:
        temporary.write_text("new")
    assert seen == [(activity.MADE, False), (activity.GONE, False)]


def test_an_existing_output_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    out.write_text("old")
    with pytest.raises(UsageError, match="exists already"), atomic_replacement(out, force=False):
        raise AssertionError("the body ran")
    assert out.read_text() == "old"


@pytest.mark.parametrize("folder", [False, True])
def test_failure_leaves_the_old_one_untouched(tmp_path: Path, folder: bool) -> None:
    out = tmp_path / "m"
    if folder:
        out.mkdir()
        (out / "predict_net.pb").write_text("old")
    else:
        out.write_text("old")
    with pytest.raises(RuntimeError), atomic_replacement(out, force=True) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise RuntimeError("broken off")
    assert (out / "predict_net.pb" if folder else out).read_text() == "old"
    assert names(tmp_path) == ["m"]


def test_a_folder_replaces_a_folder_and_companions_move_along(tmp_path: Path) -> None:
    out = tmp_path / "m.savedmodel"
    out.mkdir()
    (out / "saved_model.pb").write_text("old")
    with atomic_replacement(out, force=True) as temporary:
        temporary.mkdir()
        (temporary / "fresh").write_text("12345")
        temporary.with_name("m.data").write_text("weights")
    assert names(out) == ["fresh"]
    assert size_of(out) == 5
    assert names(tmp_path) == ["m.data", "m.savedmodel"]


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("layout", ["nets", "metanet", "mobile"])
def test_a_caffe2_folder_is_replaced_unless_it_holds_more(
    layout: Literal["nets", "metanet", "mobile"], tmp_path: Path
) -> None:
    out = tmp_path / "m.caffe2"
    for _ in range(2):
        convert.convert(MNIST, "caffe2", out, caffe2_layout=layout, verify=False, force=True)
    (out / "mine").write_text("")
    with pytest.raises(UsageError, match=r"holds other things than a model, such as mine"):
        convert.convert(MNIST, "caffe2", out, caffe2_layout=layout, verify=False, force=True)
    assert (out / "mine").exists()


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("file: No space left on device [Op:Save]")]
)
def test_a_full_disk_is_a_resource_limit(error: Exception, tmp_path: Path) -> None:
    out = tmp_path / "m"
    out.write_text("old")
    with pytest.raises(ResourceLimit, match="disk is full"), atomic_replacement(out, force=True):
        raise error
    assert out.read_text() == "old"


def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), atomic_replacement(tmp_path / "file" / "m", force=False):
        raise AssertionError("the body ran")


def test_a_folder_that_is_gone_is_a_usage_error(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_replacement(tmp_path / "a" / "m", force=False) as temporary:
            shutil.rmtree(temporary.parent)
            temporary.write_text("")

    with pytest.raises(UsageError, match="cannot be written: No such file"):
        write()


def test_an_error_about_another_file_is_not_about_the_output(tmp_path: Path) -> None:
    """The source may be removed while it is verified, which happens before the output takes its place."""
    (tmp_path / "out").mkdir()
    with (
        pytest.raises(FileNotFoundError, match="gone"),
        atomic_replacement(tmp_path / "out" / "m", force=False),
    ):
        (tmp_path / "gone").read_bytes()
    assert names(tmp_path / "out") == []


CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir")


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run it in another process, which is killed before the disk-changing call of this number; return whether it
    was.
    """
    pid = os.fork()
    if pid:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, 9)
        return code == 9
    left = step

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def die_or_call(*places: object, **options: object) -> object:
            nonlocal left
            if not left:
                os._exit(9)
            left -= 1
            return call(*places, **options)

        return die_or_call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    exchange._renameat2 = counted(exchange._renameat2)  # type: ignore[assignment]
    os.fsync = lambda _: None
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def state(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir() if p.is_file()}


PARTS = ["a.onnx.data", "a.onnx", "m.onnx.data", "m.onnx"]
OLD, NEW = (f"{word}, with its weights in a.onnx.data and m.onnx.data" for word in ("old", "new"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "force"),
    [
        pytest.param([], False),
        pytest.param(["m.onnx"], True),
        pytest.param(["m.onnx", "m.onnx.data"], True),
        pytest.param(["a.onnx", "m.onnx"], True, marks=pytest.mark.long),
        pytest.param(["a.onnx"], True, marks=pytest.mark.long),
        pytest.param(PARTS, True, marks=pytest.mark.long),
    ],
)
def test_several_files_replace_what_is_there_all_or_none(tmp_path: Path, old: list[str], force: bool) -> None:
    """The process is killed before each call that changes the disk, and so is the process that sweeps afterwards."""
    before, after, steps, killed = dict.fromkeys(old, OLD), dict.fromkeys(PARTS, "new"), 0, True
    outcomes = []

    def write() -> None:
        with atomic_replacement(tmp_path / "m.onnx", force=force) as temporary:
            for name in PARTS:
                temporary.with_name(name).write_text("new")

    def sweep() -> None:
        discard_unfinished(tmp_path / "m.onnx")

    while killed:
        for place in tmp_path.iterdir():
            place.unlink()
        for name in old:
            (tmp_path / name).write_text(OLD)
        killed = killed_at(steps, write)
        if "m.onnx" in (now := state(tmp_path)):  # the weights that it names are its own at every moment
            assert now.get("m.onnx.data", now["m.onnx"]) == now["m.onnx"] or "m.onnx.data" not in old
        killed_at(steps % 12, sweep)
        sweep()
        assert state(tmp_path) in (before, after), steps
        assert not [p for p in tmp_path.iterdir() if p.is_dir()]
        outcomes.append(state(tmp_path) == after)
        steps += 1
    assert outcomes == sorted(outcomes)
    assert outcomes[-1]


def test_what_the_user_made_after_a_kill_stays(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_replacement(tmp_path / "m.onnx", force=True) as temporary:
            temporary.write_text(NEW)
            temporary.with_name("m.onnx.data").write_text(NEW)

    for name in ("m.onnx", "m.onnx.data"):
        (tmp_path / name).write_text(OLD)
    steps = 0
    while killed_at(steps, write) and state(tmp_path) != {"m.onnx.data": NEW}:
        steps += 1
    (tmp_path / "m.onnx").write_text("mine")
    (tmp_path / "m.onnx.data").write_text("mine")
    discard_unfinished(tmp_path / "m.onnx")
    assert state(tmp_path) == {"m.onnx": "mine", "m.onnx.data": "mine"}


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_from_an_archive_moves_nothing(tmp_path: Path, linked: bool, record: bool) -> None:
    """An archive may contain a folder with a name like ours, which links to the user's files, or holds files to put
    over them.
    """
    zoo, mine = tmp_path / "zoo", tmp_path / "mine"
    folder = own_folders.folder_for(zoo / "id_rsa")
    folder.mkdir(parents=True)
    mine.mkdir()
    for place in (mine, folder / "old"):
        place.mkdir(exist_ok=True)
        (place / "id_rsa").write_text("key")
    if linked:
        shutil.rmtree(folder / "old")
        (folder / "old").symlink_to(mine)
    if record:
        (folder / "new").mkdir()
        (folder / "new" / "id_rsa").touch()
        replacement.write_down(mine, [folder / "new" / "id_rsa"])
        (mine / "replacement.json").rename(folder / "replacement.json")
    discard_unfinished(zoo / "m.onnx")
    assert state(zoo) == {}
    assert state(mine) == {"id_rsa": "key"}
    with pytest.raises(UsageError, match="no run of convert has put there"):
        own_folders.take_folder(zoo / "id_rsa")


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize(("old", "new"), [(True, True), (True, False), (False, True), (False, False)])
def test_folders_and_files_take_each_others_place(
    tmp_path: Path, old: bool, new: bool, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "m"

    def make(place: Path, folder: bool, text: str) -> None:
        if folder:
            place.mkdir()
        (place / "in" if folder else place).write_text(text)

    if not can_exchange:
        monkeypatch.setattr(exchange, "_renameat2", lambda *_: False)
    make(out, old, "old")
    with atomic_replacement(out, force=True) as temporary:
        make(temporary, new, "new")
    assert (out / "in" if new else out).read_text() == "new"
    assert names(tmp_path) == ["m"]


def test_a_rename_that_fails_brings_the_old_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "m"
    out.mkdir()
    (out / "in").write_text("old")
    rename = os.rename

    def fail(new: Path, place: Path) -> None:
        if new.parent.name == "new":
            raise OSError(errno.EIO, "broken")
        rename(new, place)

    monkeypatch.setattr(exchange, "_renameat2", lambda *_: False)
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="broken"), atomic_replacement(out, force=True) as temporary:
        temporary.mkdir()
    assert (out / "in").read_text() == "old"
    assert names(tmp_path) == ["m"]


def test_of_two_processes_that_write_one_output_one_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_folders, "_PATIENCE", 0.05)
    out = tmp_path / "m.onnx"
    with atomic_replacement(out, force=True) as temporary:
        temporary.write_text("first")
        with pytest.raises(UsageError, match="another process is writing"), atomic_replacement(out, force=True):
            raise AssertionError("the body ran")
        discard_unfinished(out)
        assert temporary.exists()
        with atomic_replacement(tmp_path / "other.onnx", force=False) as other:
            other.write_text("other")
    assert out.read_text() == "first"
    assert names(tmp_path) == ["m.onnx", "other.onnx"]


@pytest.mark.parametrize("name", ["m.onnx", "m.onnx.data"])
def test_what_came_meanwhile_is_not_replaced(tmp_path: Path, name: str) -> None:
    def write() -> None:
        with atomic_replacement(tmp_path / "m.onnx", force=False) as temporary:
            temporary.write_text("ours")
            temporary.with_name("m.onnx.data").write_text("ours")
            (tmp_path / name).write_text("another's")

    with pytest.raises(UsageError, match="exists already"):
        write()
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "another's"


def test_who_only_sweeps_does_not_look_like_a_writer(tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    folder = own_folders.folder_for(out)
    folder.mkdir()
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    threading.Timer(0.05, lambda: os.close(held)).start()
    with atomic_replacement(out, force=False) as temporary:
        temporary.write_text("new")
    assert names(tmp_path) == ["m.onnx"]


def test_outputs_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    """As with tasks of a batch, each process sweeps the folder that they share."""

    def write(worker: int) -> None:
        for number in range(20):
            out = tmp_path / f"{worker}-{number}"
            discard_unfinished(out)
            with atomic_replacement(out, force=False) as temporary:
                temporary.write_text("new")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(names(tmp_path)) == 80


def test_what_a_killed_writer_left_goes_and_nothing_else(tmp_path: Path) -> None:
    killed = atomic_replacement(tmp_path / "a[1].onnx", force=True)
    (killed.__enter__()).write_text("half")
    others = [".convert-notes", ".a[1].onnx.12345678", f".convert-{'0' * 15}"]
    for name in others:
        (tmp_path / name).mkdir()
    (folder,) = set(names(tmp_path)) - set(others)
    discard_unfinished(tmp_path / "b.onnx")
    assert folder in names(tmp_path), "its process is alive"
    left = tmp_path / "left"
    shutil.copytree(tmp_path / folder, left / folder)
    discard_unfinished(left / "b.onnx")
    assert names(left) == []
    assert names(tmp_path) == sorted([*others, folder, "left"])
    discard_unfinished(tmp_path / "no folder/b.onnx")


def test_a_folder_that_is_called_otherwise_is_not_discarded(tmp_path: Path) -> None:
    """The supervisor relies on the worker's report of what to remove."""
    (tmp_path / "mine").write_text("all that I have")
    discard_folder(tmp_path)
    assert (tmp_path / "mine").exists()


def test_folders_made_for_an_output_that_is_not_written_go(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with pytest.raises(RuntimeError), atomic_replacement(tmp_path / "kept" / "a" / "b" / "m", force=False):
        raise RuntimeError("broken off")
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == []


@pytest.mark.parametrize("made", ["link", "file", "folder"])
def test_a_folder_that_is_another_users_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """The owner of the folder could replace the written file by a link."""
    folder, elsewhere = own_folders.folder_for(tmp_path / "m.onnx"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    {"link": lambda: folder.symlink_to(elsewhere), "file": folder.touch, "folder": folder.mkdir}[made]()
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with pytest.raises(UsageError, match="is not a folder of this user's"):
        own_folders.take_folder(tmp_path / "m.onnx")
    assert not list(elsewhere.iterdir())
    monkeypatch.undo()
    if made == "folder":
        own_folders.release_folder(*own_folders.take_folder(tmp_path / "m.onnx"))
        assert not folder.exists()
