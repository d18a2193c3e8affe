"""What is said to somebody who asks for an operator that no table has."""

from __future__ import annotations

import pytest

from convert.errors import UsageError
from convert.rules.find import check_found


def hint(word: str, *names: str) -> str:
    with pytest.raises(UsageError, match=f"no operator is called like {word}") as caught:
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
