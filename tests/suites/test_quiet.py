"""Ordinary conversions print at most one line beside their result, and only one that the user can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.quiet import CONVERSIONS, is_actionable, prepare, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the conversions."""
    made = tmp_path_factory.mktemp("sources")
    prepare(made)
    return made


@pytest.mark.long
@pytest.mark.parametrize("words", CONVERSIONS)
def test_an_ordinary_conversion_is_quiet(words: str, folder: Path) -> None:
    found = run(words, folder)
    assert found.quiet, (found.exit_code, found.lines)


def test_there_are_fourteen() -> None:
    assert len(set(CONVERSIONS)) == 14


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("assuming input: float32[batch,8] (from fc; set it with --input)", True),
        ("note: assuming outputs: prob (no node reads them; set them with --outputs)", True),
        ("note: special values: Relu: the kernels make 0 of NaN", False),
        ("[ 1.2 s] verifying", False),
    ],
)
def test_what_can_be_acted_on(line: str, wanted: bool) -> None:
    assert is_actionable(line) == wanted
