"""Names that are one file on a case-insensitive file system; a link imitates such a file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convert.files.letter_case import counts_case, place_of


@pytest.fixture
def folded(tmp_path: Path) -> Path:
    """Return a folder that can also be reached by its name with swapped letter case."""
    folder = tmp_path / "Zoo"
    folder.mkdir()
    (tmp_path / "zOO").symlink_to(folder)
    return folder


def test_case_counts_where_the_other_name_is_no_file(tmp_path: Path) -> None:
    assert counts_case(tmp_path) or os.path.exists(str(tmp_path).swapcase())
    (tmp_path / "Zoo").mkdir()
    (tmp_path / "zOO").mkdir(exist_ok=True)
    if len(os.listdir(tmp_path)) == 2:
        assert counts_case(tmp_path / "Zoo" / "none" / "1")
        assert place_of(tmp_path / "Zoo" / "A") == str(tmp_path / "Zoo" / "A")


def test_it_does_not_where_it_is_the_same(folded: Path) -> None:
    """The same holds for folders that do not exist yet or have no letters.

    Composed and decomposed letters are equal.
    """
    for folder in (folded, folded / "none", folded / "1" / "2"):
        assert not counts_case(folder)
        assert place_of(folder / "Ä.onnx") == place_of(folder / "a\u0308.ONNX")
    assert place_of(folded / "a") != place_of(folded / "b")


def test_an_entry_of_the_folder_tells_it_before_the_folders_above(tmp_path: Path) -> None:
    """A disk is mounted in a folder of another one: its own entries tell, and two entries are two names."""
    for name in ("plain", "linked", "linked/Net", "both", "both/Net", "both/nET"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "PLAIN").symlink_to(tmp_path / "plain")
    (tmp_path / "LINKED").symlink_to(tmp_path / "linked")
    assert not counts_case(tmp_path / "plain" / "a")
    if len(os.listdir(tmp_path / "both")) == 2:
        assert counts_case(tmp_path / "linked")
        assert counts_case(tmp_path / "both")
