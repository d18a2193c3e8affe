"""Pages and inputs that are written besides the result: completely or not at all, and only over files of the
same kind.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from convert.errors import ResourceLimit, UsageError
from convert.files import side_files
from convert.files.side_files import GENERATOR, check_different, check_side_file, is_arrays, is_page, side_file
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.saved import save_feeds


def write(path: Path, text: str = "new") -> None:
    with side_file(path, is_page, "--report") as temporary:
        temporary.write_text(f"<!DOCTYPE html>{GENERATOR}{text}")


def test_a_page_replaces_a_page_and_what_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.html").write_text("")
    for name in ("new.html", "new.html", "empty.html"):
        write(tmp_path / name)
        assert is_page(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty.html", "new.html"]


@pytest.mark.parametrize(
    ("name", "held"), [("index.html", b"<!DOCTYPE html>mine"), ("thesis.tex", b"years"), ("m.onnx", b"\x08\x09")]
)
def test_other_files_stay(tmp_path: Path, name: str, held: bytes) -> None:
    (tmp_path / name).write_bytes(held)
    with pytest.raises(UsageError, match="holds something else, which --report would destroy"):
        write(tmp_path / name)
    assert (tmp_path / name).read_bytes() == held


def test_only_arrays_are_taken_for_saved_inputs(tmp_path: Path) -> None:
    save_feeds(tmp_path / "old.npz", [Feed("zeros", {"x": np.zeros(2)})])
    check_side_file(tmp_path / "old.npz", is_arrays, "--save-inputs")
    np.savez(tmp_path / "mine.npz", x=np.zeros(2))  # this may be years of measurements
    (tmp_path / "text.npz").write_text("PK")
    fixture = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.keras"
    for path in (tmp_path / "text.npz", tmp_path / "mine.npz", fixture):
        with pytest.raises(UsageError, match="holds something else"):
            check_side_file(path, is_arrays, "--save-inputs")


def test_a_link_that_changes_while_a_page_is_written_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("years")
    link = tmp_path / "page.html"
    link.symlink_to(tmp_path / "new.html")
    with side_file(link, is_page, "--report") as temporary:
        temporary.write_text("new")
        link.unlink()
        link.symlink_to(tmp_path / "mine.txt")
    assert (tmp_path / "new.html").read_text() == "new"
    assert (tmp_path / "mine.txt").read_text() == "years"


@pytest.mark.parametrize("place", ["m.savedmodel", "m.savedmodel/page.html", "link/page.html", ".", "hard.npz"])
def test_what_is_read_is_not_written(tmp_path: Path, place: str) -> None:
    source = tmp_path / "m.savedmodel"
    source.mkdir()
    (tmp_path / "link").symlink_to(source)
    np.savez(tmp_path / "in.npz", x=np.zeros(2))
    os.link(tmp_path / "in.npz", tmp_path / "hard.npz")
    with pytest.raises(UsageError, match=r"source|folder"):
        check_side_file(tmp_path / place, is_arrays, "--save-inputs", [source, tmp_path / "in.npz"])


def test_a_full_disk_leaves_the_old_page(tmp_path: Path) -> None:
    write(tmp_path / "p.html", "old")
    with pytest.raises(ResourceLimit, match="disk is full"), side_file(tmp_path / "p.html", is_page, "--report"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "old" in (tmp_path / "p.html").read_text()


def test_the_file_behind_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    write(tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert is_page(tmp_path / "page.html")


def test_pipes_and_devices_are_written_as_they_are(tmp_path: Path) -> None:
    write(Path(os.devnull))
    os.mkfifo(tmp_path / "pipe")
    told: list[str] = []
    reader = threading.Thread(target=lambda: told.append((tmp_path / "pipe").read_text()))
    reader.start()
    write(tmp_path / "pipe")
    reader.join()
    assert told == [f"<!DOCTYPE html>{GENERATOR}new"]


def test_a_pipe_that_nobody_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_files, "_READER_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is a pipe that nobody reads"):
        write(tmp_path / "pipe")


def test_a_place_that_cannot_be_written_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be") as caught:
        write(tmp_path / "file" / "page.html")
    assert "--report" in caught.value.hint


def test_a_page_in_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"model")
    for path in (tmp_path / "m.onnx" / "page.html", tmp_path / "m.onnx" / "deep" / "page.html"):
        with pytest.raises(UsageError, match="is no folder"):
            check_side_file(path, is_page, "--report")


def test_two_files_of_one_command_have_two_places(tmp_path: Path) -> None:
    """Links lead to one place, too, as do names that differ in case only on a disk that does not count it."""
    (tmp_path / "Zoo").mkdir()
    (tmp_path / "zOO").symlink_to(tmp_path / "Zoo")  # so the letters' case does not count in it
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    check_different([("a", tmp_path / "a"), ("b", tmp_path / "b"), ("a", tmp_path / "a"), ("c", Path(os.devnull)),
                     ("d", Path(os.devnull))])  # fmt: skip
    for one, other in (("page.html", "link.html"), ("a", "./a"), ("Zoo/a", "zOO/A"), ("Zoo/a", "zOO/a")):
        with pytest.raises(UsageError, match="the output and --report would both be written to"):
            check_different([("the output", tmp_path / one), ("--report", tmp_path / other)])
