"""The rows of `convert ops`, and attributes of a package that are imported on first use."""

from __future__ import annotations

import math
import warnings

import pytest

from convert.plugin import Operator
from convert.rules import Rules
from convert.rules.listing import lazy_attributes, operator_rows
from convert.runtimes.differences import Difference


def table() -> Rules:
    rules = Rules("test")
    rules("Relu", "Conv", "convert.lite::Part")(lambda out, x: x)
    rules.gap("there are no strings", "StringSplit")
    rules.limit("Conv", "three dims at most")
    return rules


def test_rows_are_sorted_and_say_what_is_lacking_and_what_is_limited() -> None:
    assert list(operator_rows(table())) == [
        Operator("Conv", "", "three dims at most"),
        Operator("Relu", "", ""),
        Operator("StringSplit", "there are no strings", ""),
    ]


def test_a_format_may_lack_more_than_its_table() -> None:
    rows = list(operator_rows(table(), gaps={"Conv": "no kernel", "Det": "nor this"}, limits={"Relu": "not of int8"}))
    assert rows == [
        Operator("Conv", "no kernel", ""),
        Operator("Det", "nor this", ""),
        Operator("Relu", "", "not of int8"),
        Operator("StringSplit", "there are no strings", ""),
    ]


def test_what_differs_is_told_of_each_overload_with_a_rule() -> None:
    rules = table()
    rules("Conv.vec")(lambda out, x: x)
    differing = [Difference(("Relu",), "of NaN"), Difference((), "of infinities", sources=("Conv", "StringSplit"))]
    assert {row.name: row.difference for row in operator_rows(rules, differences=differing)} == {
        "Conv": "of infinities", "Conv.vec": "of infinities", "Relu": "of NaN", "StringSplit": ""
    }  # fmt: skip


def test_what_is_written_out_has_a_row_unless_it_is_a_gap() -> None:
    rows = operator_rows(table(), gaps={"Det": "no kernel"}, written_out=("Conv", "Det", "Swish"), lacking=("Relu",))
    assert {row.name: (row.written_out, row.gap) for row in rows} == {
        "Conv": (False, ""), "Det": (False, "no kernel"), "Relu": (True, ""),
        "StringSplit": (False, "there are no strings"), "Swish": (True, ""),
    }  # fmt: skip


@pytest.mark.parametrize("old", ["racine", "zqrt"])
def test_an_old_name_warns_with_the_new_one(old: str) -> None:
    attribute = lazy_attributes(module="module", places={"sqrt": "math"}, renamed={old: "sqrt"})
    with pytest.warns(DeprecationWarning, match=f"module.{old} is called sqrt now"):
        assert attribute(old) is math.sqrt


def test_a_name_of_today_does_not_warn() -> None:
    attribute = lazy_attributes("module", {"sqrt": "math"}, renamed={"racine": "sqrt"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert attribute("".join(["sq", "rt"])) is math.sqrt
    with pytest.raises(AttributeError, match="module 'module' has no attribute 'cbrt'"):
        attribute("cbrt")
