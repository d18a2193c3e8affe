"""The error of a failed rule: its place, and the call with its values, shortened at the documented bounds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from convert.rules.rule_errors import is_own, last_line, place_of_error, shown_call


def cube(g: Any, x: Any, y: Any = None) -> None:
    value = 1 // (0 if y is None else y)
    raise ValueError(value)


def caught(call: Any) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


FIRST = cube.__code__.co_firstlineno


def test_the_place_is_the_innermost_line_of_the_file() -> None:
    for y, line in ((None, FIRST + 1), (1, FIRST + 2)):
        error = caught(lambda y=y: cube(None, 2, y))
        assert last_line(error, __file__) == line
        assert place_of_error(error, cube) == f"{__file__}:{line}"
        assert last_line(error, "elsewhere.py") == 0
    assert place_of_error(ValueError(), cube) == f"{__file__}:{FIRST}"
    assert place_of_error(ValueError(), max) == str(max)


@pytest.mark.parametrize(
    ("file", "number", "line"), [("mine.py", 7, 7), ("mine.py", None, 0), ("other.py", 7, 0), ("a.py", 7, 0)]
)
def test_a_file_that_is_no_program_has_the_line_that_the_parser_says(file: str, number: Any, line: int) -> None:
    error = SyntaxError("bad", (file, number, 1, ""))
    assert last_line(error, "mine.py") == line


def test_whose_a_rule_is() -> None:
    assert is_own(is_own)
    assert not is_own(cube)
    assert not is_own(lambda: None)


@pytest.mark.parametrize(
    ("positional", "keyword", "told"),
    [
        ([], {}, "cube(g)"),
        ([np.zeros((2, 3), np.float32)], {"scale": 0.5}, "cube(g, x=float32[2,3], scale=0.5)"),
        ([1, "a"], {}, "cube(g, x=1, y='a')"),
        ([1, 2, 3], {}, "cube(g, x=1, y=2, 3)"),
        ([1, 2, 3, 4], {}, "cube(g, x=1, y=2, 3, 4)"),
        ([[1, (2, None)]], {}, "cube(g, x=[1, [2, None]])"),
        (
            [SimpleNamespace(shape=(2,)), SimpleNamespace(dtype=1)],
            {},
            "cube(g, x=namespace(shape=(2,)), y=namespace(dtype=1))",
        ),
        ([SimpleNamespace(shape=None, dtype="FLOAT")], {}, "cube(g, x=float32[…])"),
        ([SimpleNamespace(shape=(), dtype="DOUBLE")], {}, "cube(g, x=float64[])"),
    ],
)
def test_a_call_is_told_with_names_as_far_as_there_are_any(positional: list[Any], keyword: Any, told: str) -> None:
    assert shown_call(cube, None, positional, keyword) == f"it was called as {told}"


def test_a_rule_without_code_is_told_by_the_types() -> None:
    assert shown_call(max, 1.5, [2], {}) == "it was called as max(float, 2)"


@pytest.mark.parametrize(("count", "shown"), [(78, "a" * 78 + "'"), (79, "a" * 78 + "…"), (200, "a" * 78 + "…")])
def test_values_are_told_in_eighty_characters(count: int, shown: str) -> None:
    """A text with more than 80 characters, quotes included, is cut to 79 characters and a mark."""
    told = shown_call(cube, None, ["a" * count], {})
    assert told == f"it was called as cube(g, x='{shown})"
