"""Names that are one file where the case of letters does not count; a link does what such a file system does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convert.files.letter_case import counts_case, place_of


@pytest.fixture
def folded(tmp_path: Path) -> Path:
    """A folder that can be reached by the name with the case of its letters turned round, as where case is nothing."""
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
    """Nor does it in folders that are not there yet, or have no letters; composed and decomposed letters are alike."""
    for folder in (folded, folded / "none", folded / "1" / "2"):
        assert not counts_case(folder)
        assert place_of(folder / "Ä.onnx") == place_of(folder / "a\u0308.ONNX")
    assert place_of(folded / "a") != place_of(folded / "b")
