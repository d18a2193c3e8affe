"""Entry points are those that `importlib.metadata` finds."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from convert.entry_points import EntryPoint, entry_points


def standard(group: str) -> list[tuple[str, str]]:
    return sorted((point.name, point.value) for point in metadata.entry_points(group=group))


def ours(group: str) -> list[tuple[str, str]]:
    return sorted((point.name, point.value) for point in entry_points(group))


def install(folder: Path, name: str, text: str) -> None:
    """Write the folder that describes a package with these entry points."""
    described = folder / name
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: some\nVersion: 1\n")
    (described / "entry_points.txt").write_text(text)


@pytest.mark.parametrize("group", ["convert.frontends", "convert.backends", "convert.runners", "console_scripts", "no"])
def test_the_installed_packages_have_the_same_entry_points(group: str) -> None:
    assert ours(group) == standard(group)


def test_texts_are_read_as_the_standard_library_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path / "a", "one_two-1.0.dist-info", "# a comment\n[x.y]\n\na = os\n b=os.path : join [extra]\n[z]\nc = d\n"
    )
    install(tmp_path / "a", "three.egg-info", "[x.y]\nd = os:path.join\n")
    install(tmp_path / "b", "One.Two-2.0.dist-info", "[x.y]\nhidden = os\n")
    install(tmp_path / "b", "four-2.0.dist-info", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "none"), *sys.path])
    assert ours("x.y") == standard("x.y")
    assert [name for name, _ in ours("x.y")] == ["a", "b", "d"]
    assert ours("z") == [("c", "d")]


def test_packages_in_an_archive_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("five-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: five\nVersion: 1\n")
        archive.writestr("five-1.0.dist-info/entry_points.txt", "[x.y]\ne = os\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packed.zip"), *sys.path])
    assert ours("x.y") == standard("x.y") == [("e", "os")]


@pytest.mark.parametrize("value", ["os", "os:path", "os:path.join", "os.path : join [extra]"])
def test_a_loaded_entry_point_is_the_same_object(value: str) -> None:
    assert EntryPoint("g", "n", value).load() is metadata.EntryPoint("n", value, "g").load()
