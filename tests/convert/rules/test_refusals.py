"""No argument is ignored: one that a rule does not name is at its default, by value, or refused. Also tests a table's
content.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from convert.errors import BadInput, ConvertError, Location, Unsupported
from convert.rules import Argument, Rules, Schema


class _Fails:
    """A value that cannot be compared."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __eq__(self, other: object) -> bool:
        raise self.error

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"fails with {self.error.__name__}"


def _apply(value: Any, default: Any) -> Any:
    """Apply a rule that does not name `k` to a call with that value of the attribute `k`."""
    rules = Rules("test", lambda _: Schema((Argument("x"),), (Argument("k", default),)))
    rules("op")(lambda out, x: x)
    return rules.apply(None, "op", ["x"], {"k": value})


@pytest.mark.parametrize(
    ("value", "default"),
    [
        (None, None),
        (10.0**5, float("1e5")),
        ("".join(["NOT", "SET"]), "NOTSET"),
        ([0, 0], (0, 0)),
        ([0] * 300, (0,) * 300),
        ((), []),
        ([[1], [2, 3]], ((1,), (2, 3))),
        ([None, 1], [None, 1]),
        (1, True),
        (np.float32(0.5), 0.5),
    ],
)
def test_a_value_equal_to_the_default_may_be_left_out(value: Any, default: Any) -> None:
    assert _apply(value, default) == "x"


@pytest.mark.parametrize(
    ("value", "default"),
    [
        (1, 0),
        (-1, 0),
        (0, None),
        (None, 0),
        ("a", "b"),
        ("c", "b"),
        ([0], (0, 0)),
        ([0, 0, 0], (0, 0)),
        ([0, 1], (0, 0)),
        ([0], 0),
        (0, [0]),
        (np.zeros(2), None),
        (np.zeros(2), 0),
        (_Fails(TypeError), 0),
        (_Fails(ValueError), 0),
        (_Fails(RuntimeError), 0),
    ],
    ids=str,
)
def test_any_other_value_is_refused(value: Any, default: Any) -> None:
    with pytest.raises(Unsupported, match=r"k=.* is not handled"):
        _apply(value, default)


@pytest.mark.parametrize(("given", "expected"), [({}, 7), ({"axis": 2}, 2)])
def test_an_attribute_may_be_a_positional_parameter_of_the_rule(given: dict[str, int], expected: int) -> None:
    rules = Rules("test", lambda _: Schema((Argument("x"),), (Argument("axis", 7), Argument("mode", "a"))))

    @rules("op")
    def op(out: object, x: str, axis: int, *, mode: str) -> tuple[str, int, str]:
        return x, axis, mode

    assert rules.apply(None, "op", ["x"], given) == ("x", expected, "a")


def test_an_input_may_be_a_keyword_of_the_rule_and_come_by_name() -> None:
    rules = Rules("test", lambda _: Schema((Argument("x"), Argument("weight", None), Argument("bias", None))))

    @rules("op")
    def op(out: object, x: str, *, weight: object, bias: object) -> tuple[object, ...]:
        return x, weight, bias

    assert rules.apply(None, "op", ["x", "w"]) == ("x", "w", None)
    assert rules.apply(None, "op", ["x"], {"bias": "b"}) == ("x", None, "b")
    assert rules.apply(None, "op", [], {"x": "x", "weight": "w"}) == ("x", "w", None)


def test_more_inputs_than_the_schema_has_are_refused_by_number() -> None:
    rules = Rules("test", lambda _: Schema((Argument("x"),)))
    rules("op")(lambda out, x: x)
    assert rules.apply(None, "op", ["x", None]) == "x"
    with pytest.raises(Unsupported, match="input 1='y' is not handled"):
        rules.apply(None, "op", ["x", "y"])
    with pytest.raises(Unsupported, match="input 2='z' is not handled"):
        rules.apply(None, "op", ["x", None, "z"])


def test_an_attribute_named_as_a_parameter_that_does_not_take_it_is_refused() -> None:
    rules = Rules("test")
    rules("positional")(lambda out, x: x)
    rules("open")(lambda out, x, **rest: x)
    with pytest.raises(Unsupported, match="x=1 is not handled"):
        rules.apply(None, "positional", ["x"], {"x": 1})
    with pytest.raises(Unsupported, match="rest=1 is not handled"):
        rules.apply(None, "open", ["x"], {"rest": 1})


def test_an_input_without_a_default_is_refused_where_the_rule_does_not_name_it() -> None:
    rules = Rules("test", lambda _: Schema((Argument("x"), Argument("length"))))
    rules("op")(lambda out, x: x)
    with pytest.raises(Unsupported, match="length='n' is not handled"):
        rules.apply(None, "op", ["x", "n"])
    assert rules.apply(None, "op", ["x"]) == "x"


def test_an_implied_attribute_reaches_a_rule_that_names_it() -> None:
    rules = Rules("test", lambda _: Schema((Argument("x"),), (Argument("T"),), frozenset({"T"})))

    @rules("op")
    def op(out: object, x: str, *, T: str) -> str:
        return x + T

    assert rules.apply(None, "op", ["x"], {"T": "float"}) == "xfloat"


def test_the_schema_that_is_given_goes_before_the_tables() -> None:
    rules = Rules("test", lambda _: Schema((Argument("x"),), (Argument("k", 0),)))
    rules("op")(lambda out, x, *, k: k)
    assert rules.apply(None, "op", ["x"]) == 0
    assert rules.apply(None, "op", ["x"], schema=Schema((Argument("x"),), (Argument("k", 5),))) == 5


def own(out: object) -> str:
    """Return a rule like those of this project."""
    return "done"


own.__module__ = "convert.backends.test.ops"


def test_a_table_has_one_rule_one_limit_or_one_gap() -> None:
    rules = Rules("test")
    rules.gap("not yet", "Late")
    assert "Late" not in rules
    with pytest.raises(Unsupported, match="not yet"):
        rules.apply(None, "Late")
    rules("Late")(lambda out: "done")
    assert rules.apply(None, "Late") == "done"
    assert rules.gaps == {}
    rules("Own")(own)
    with pytest.raises(ValueError, match="Own has a rule and cannot be a gap"):
        rules.gap("again", "Own")
    assert rules.limit("Late", "small ones only") == "small ones only"
    with pytest.raises(ValueError, match="Late has a limit already"):
        rules.limit("Late", "none at all")
    assert rules.limits == {"Late": "small ones only"}


def test_errors_of_the_user_pass_and_others_name_the_place() -> None:
    rules = Rules("test")

    @rules("bad")
    def bad(out: object) -> None:
        raise BadInput("a file is missing")

    @rules("limited")
    def limited(out: object) -> None:
        raise Unsupported("no strings")

    @rules("broken")
    def broken(out: object) -> int:
        return 1 // 0

    with pytest.raises(BadInput, match=r"^a file is missing"):
        rules.apply(None, "bad")
    with pytest.raises(Unsupported, match=r"limited, node 'n'.*no strings"):
        rules.apply(None, "limited", at=Location("limited", "n"))
    with pytest.raises(Unsupported, match=r"absent: no test rule"):
        rules.apply(None, "absent")
    with pytest.raises(ConvertError, match=r"broken, node 'n'.*ZeroDivisionError"):
        rules.apply(None, "broken", at=Location("broken", "n"))
    rules.check([("bad", Location("bad"))])


@pytest.mark.parametrize(
    ("module", "own"),
    [
        ("convert", True),
        ("convert.backends.keras.ops.math", True),
        ("converter", False),
        ("a_rule", False),
        ("z", False),
    ],
)
def test_only_a_rule_of_its_own_is_a_defect_of_convert(module: str, own: bool) -> None:
    """A rule of the user is named with its file and the failing line; a callable that is no function has none."""
    rules = Rules("test")

    def fails(out: object) -> int:
        return 1 // 0

    fails.__module__ = module
    rules("op")(fails)
    with pytest.raises(ConvertError) as caught:
        rules.apply(None, "op")
    assert ("defect of convert" in caught.value.hint) == own
    assert (f"at {__file__}:{fails.__code__.co_firstlineno + 1}" in caught.value.message) != own
    made = functools.partial(fails)
    rules("made")(made)
    with pytest.raises(ConvertError) as caught:
        rules.apply(None, "made")
    assert "not one of convert's own: correct it" in caught.value.hint
