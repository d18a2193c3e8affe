"""Folders and patterns are searched in bounded time, for any depth and for any targets of links."""

from __future__ import annotations

import errno
import glob
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from convert import limits
from convert.batch.found_paths import SkippedPaths, matching_paths, paths_below
from convert.errors import BadInput
from tests.support.work import at_most_calls


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.onnx", "b/a.onnx", "b/c/d/e.pt", "b/.hidden/f.onnx", "z[1]/g.onnx", "b2/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "gone.onnx").symlink_to("nowhere")
    return tmp_path


PATTERNS = [
    "*", "*.onnx", "**/*.onnx", "**/a.onnx", "b/*/d/*", "**/c/**/*", "b?", "z[[]1]/*", "b/.hidden/*", "**/**/*.onnx",
    "**", "b/**", "nothing/*", "../*/a.onnx", "**/d/**/e.pt", "[ab]*/**",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_pattern_matches_what_it_does_elsewhere(
    tree: Path, pattern: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    asked = f"{glob.escape(str(tree))}/{pattern}" if whole else pattern
    expected = sorted({Path(found) for found in glob.glob(asked, recursive=True)} - {Path()})
    assert [p for p in matching_paths(asked) if p != Path()] == expected


def test_many_stars_are_one_walk_each(tmp_path: Path) -> None:
    """glob.glob did not return for a pattern with ten `**` in 24 nested folders."""
    (tmp_path / "/".join("d" * 24)).mkdir(parents=True)
    with at_most_calls(3_000_000):
        assert not matching_paths(f"{tmp_path}/{'**/' * 10}x.onnx")


def test_folders_in_folders_in_folders(tmp_path: Path) -> None:
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1100):  # more levels than Python's calls may nest
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    assert sum(1 for _ in paths_below(tmp_path, lambda path: False)) == 1100
    subprocess.run(["rm", "-r", str(tmp_path / "d")], check=True)  # shutil calls itself for each level


def test_links_that_cross_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten folders with links to each other have three million names; a link that leads back is not followed."""
    for name in "abcdefghij":
        (tmp_path / name).mkdir()
        (tmp_path / name / "self").symlink_to(tmp_path)
    assert sum(1 for _ in paths_below(tmp_path, lambda path: False)) == 20
    for name in "abcdefghij":
        for other in "abcdefghij":
            (tmp_path / name / other).symlink_to(tmp_path / other)
    monkeypatch.setattr(limits, "BATCH_FOLDERS", 1000)
    with pytest.raises(BadInput, match="more than 1,000 folders"):
        list(paths_below(tmp_path, lambda path: False))
    with pytest.raises(BadInput, match="more than 1,000 folders"):
        matching_paths(f"{tmp_path}/**/*.onnx")


def test_links_that_lead_out_to_too_much_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to / has all files of the machine below it, and is not followed; a link to models elsewhere is."""
    zoo, few, many = tmp_path / "zoo", tmp_path / "few", tmp_path / "many"
    for folder, count in ((zoo, 1), (few, 3), (many, 30)):
        (folder / "inner").mkdir(parents=True)
        for number in range(count):
            (folder / "inner" / f"{number}.onnx").touch()
    for name, place in (("root", Path("/")), ("above", tmp_path), ("few", few), ("many", many), ("own", zoo / "inner")):
        (zoo / name).symlink_to(place)
    monkeypatch.setattr(limits, "BATCH_LINKED_ENTRIES", 10)
    passed = SkippedPaths()
    with at_most_calls(20_000):
        found = [path for path, leaf in paths_below(zoo, lambda path: path.suffix == ".onnx", (), passed) if leaf]
    assert [path.relative_to(zoo).as_posix() for path in found] == [
        "few/inner/0.onnx", "few/inner/1.onnx", "few/inner/2.onnx", "inner/0.onnx", "own/0.onnx"
    ]  # fmt: skip
    assert [path.name for path in passed.links] == ["above", "many", "root"]
    assert not passed.unreadable


def test_a_folder_that_cannot_be_read_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.onnx").touch()
    listed = Path.iterdir

    def iterdir(self: Path) -> Iterator[Path]:  # modes bind no root
        if self.name == "b":
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    passed = SkippedPaths()
    found = [path for path, leaf in paths_below(tmp_path, Path.is_file, (), passed) if leaf]
    assert [path.parent.name for path in found] == ["a", "c"]
    assert passed.unreadable == {tmp_path / "b": f"{tmp_path / 'b'} cannot be read: Permission denied"}
    with pytest.raises(BadInput, match="cannot be read"):
        list(paths_below(tmp_path / "b", Path.is_file))
