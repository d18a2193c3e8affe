"""Temporary folders are removed with their process, or swept after a kill, and nothing else is removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convert.files import scratch
from convert.files.scratch import LockedFolder, remove_tree, scratch_folder, sweep_scratch


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_swept", set())


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_folder_goes_with_its_user(tmp_path: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == tmp_path
        (folder / "big").write_text("x")
    kept = LockedFolder()
    (kept.path / "big").write_text("x")
    del kept
    assert names(tmp_path) == []


def killed(tmp_path: Path) -> Path:
    """Return the folder that a process leaves behind when it is killed during its work."""
    pid = os.fork()
    if not pid:
        folder = LockedFolder()
        (folder.path / "big").write_text("x")
        os._exit(9)
    os.waitpid(pid, 0)
    (folder,) = tmp_path.glob("convert-tmp-*")
    assert "big" in names(folder)
    return folder


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path: Path) -> None:
    left = killed(tmp_path)
    (tmp_path / "convert-tmp-abcdefgh").mkdir()  # killed before the process had marked the folder
    with scratch_folder():
        assert not left.exists()
        assert len(names(tmp_path)) == 1
    again = killed(tmp_path)
    with scratch_folder():  # this process has already swept
        assert again.exists()
    sweep_scratch()
    assert names(tmp_path) == []


@pytest.mark.parametrize("step", ["mkdir", "touch"])
def test_a_folder_that_a_signal_kept_from_its_user_goes_with_the_process(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = getattr(Path, step)

    def interrupted(path: Path, *given: int) -> None:
        usual(path, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, interrupted)
        with pytest.raises(KeyboardInterrupt), scratch_folder():
            pass
    assert len(names(tmp_path)) == 1
    pid = os.fork()
    if not pid:  # a fork must not clean these up
        scratch.remove_own()
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(names(tmp_path)) == 1
    with scratch_folder():
        pass
    scratch.remove_own()
    assert names(tmp_path) == []


def test_what_takes_long_to_remove_is_left_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = killed(tmp_path)
    for place in (left, left / "inner"):
        place.mkdir(exist_ok=True)
        for number in range(50):
            (place / str(number)).write_text("x")
    monkeypatch.setattr(scratch, "_SWEEP_SECONDS", -1.0)
    sweep_scratch()
    assert len(names(left)) > 50
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sweep_scratch()
    assert names(tmp_path) == []


def test_a_sweep_that_is_killed_leaves_what_the_next_one_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark is removed last: a folder with content but without the mark would belong to nobody."""
    left = killed(tmp_path)
    (left / "zz").mkdir()
    (left / "zz" / "file").write_text("x")

    def end(place: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scratch, "remove_tree", end)
    with pytest.raises(KeyboardInterrupt):
        sweep_scratch()
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sweep_scratch()
    assert names(tmp_path) == []


def test_what_is_in_use_or_of_others_stays(tmp_path: Path) -> None:
    others = ["convert-batch-results", "convert-tmp-pictures", "convert-tmp-abc", "convert-run-12345678"]
    for name in others:
        (tmp_path / name).mkdir()
        (tmp_path / name / "work").write_text("years")
    (tmp_path / "convert-tmp-linkedto").symlink_to(tmp_path / others[0])
    (tmp_path / "convert-tmp-afile123").write_text("")
    with scratch_folder() as folder:
        sweep_scratch()
        assert names(tmp_path) == sorted([*others, folder.name, "convert-tmp-linkedto", "convert-tmp-afile123"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o700, 0o000])
def test_folders_are_removed_however_deep(tmp_path: Path, mode: int) -> None:
    """A compromised process can create a path of any length in its own folder, one level after the other."""
    folder = tmp_path / "deep"
    folder.mkdir()
    (tmp_path / "outside").write_text("kept")
    place = os.open(folder, os.O_RDONLY)
    for level in range(3000):
        os.symlink(tmp_path, "out", dir_fd=place)
        os.mkdir("convert-tmp-1" if level % 2 else "a", dir_fd=place)
        below = os.open("convert-tmp-1" if level % 2 else "a", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.fchmod(place, mode)
    os.close(place)
    remove_tree(folder)
    assert names(tmp_path) == ["outside"]
