"""The error for an operator that no table has."""

from __future__ import annotations

import pytest

from convert import plugin
from convert.errors import UsageError
from convert.plugin import Operator
from convert.rules.find import check_found, matching_operators, tables


def hint(word: str, *names: str) -> str:
    with pytest.raises(UsageError, match=f"no operator has a name like {word}") as caught:
        check_found([], [word], names)
    return caught.value.hint


def test_names_that_are_near() -> None:
    assert hint("conv_9", "conv_1", "conv_2", "conv_3", "conv_4", "gemm") in {
        f"did you mean {' or '.join(three)}?"
        for three in (("conv_4", "conv_3", "conv_2"), ("conv_1", "conv_2", "conv_3"))
    }
    assert hint("Softmx", "softmax", "gemm") == "did you mean softmax?"


def test_what_is_not_near_is_not_named() -> None:
    table = "`convert ops --to tf` lists a whole table"
    assert hint("absx", "abyz") == table  # half of the letters
    assert hint("softmax", "gemm", "conv") == table


def test_a_name_of_the_public_is_named_before_a_hidden_one() -> None:
    assert hint("_relux", "relu", "_relu") == hint("_relux", "_relu", "relu") == "did you mean relu?"


def test_what_is_called_so_stands_first() -> None:
    """Namespace and overload are ignored: the name of `wave::sine.out` is `sine`, not `wave` or `out`."""
    rows = [Operator(name) for name in ("sines", "wave::out", "b_sine.sine", "wave::sine.out", "Sine", "cosine")]
    names = [row.name for row in matching_operators(rows, ["SI_NE", ""])]
    assert names == ["wave::sine.out", "Sine", "sines", "b_sine.sine", "cosine"]
    assert [row.name for row in matching_operators(rows, ["wave"])] == ["wave::out", "wave::sine.out"]
    namespaces = [Operator("out::wave"), Operator("x::out"), Operator("a.out")]
    assert [row.name for row in matching_operators(namespaces, ["out"])] == ["x::out", "out::wave", "a.out"]
    assert matching_operators(rows, [""]) == []


class Plugin:
    """A frontend or a backend with one operator, or with an error that it raises."""

    FORMATS = ("one", "other")

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    def operators(self, form: str = "read") -> list[Operator]:
        if self.failure is not None:
            raise self.failure
        return [Operator(form)]


def test_rooms_without_their_framework_are_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = {"a": Plugin(), "b": Plugin(ImportError("no b")), "c": Plugin(UsageError("no c", hint="install it"))}
    monkeypatch.setattr(plugin, "frontends", lambda: readers)
    monkeypatch.setattr(plugin, "backends", lambda: {"d": Plugin(), "e": Plugin(ImportError("no e"))})
    skipped: list[str] = []
    found = list(tables(skipped))
    assert found == [
        ("--from a", [Operator("read")]), ("--to one", [Operator("one")]), ("--to other", [Operator("other")])
    ]  # fmt: skip
    assert skipped == [
        "--from b is left out: no b", "--from c is left out: no c",
        "--to one is left out: no e", "--to other is left out: no e",
    ]  # fmt: skip
    readers["a"] = Plugin(KeyError("a defect"))
    with pytest.raises(KeyError):
        list(tables([]))
