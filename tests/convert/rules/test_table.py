"""The dispatcher: binding by signature, schema defaults, refusals with a location, coverage before work."""

from __future__ import annotations

from typing import Any

import pytest

from convert.errors import ConvertError, Location, ResourceLimit, Unsupported, UsageError
from convert.rules import REQUIRED, Argument, Rules, Schema
from convert.rules.table import Rule

SCHEMAS = {
    "leaky": Schema((Argument("self"), Argument("slope", 0.01))),
    "pad": Schema((Argument("x"), Argument("pads", None)), (Argument("mode", "constant"), Argument("axis", REQUIRED))),
    "typed": Schema((Argument("x"),), (Argument("T", REQUIRED), Argument("k", 0)), implied=frozenset({"T"})),
}
HERE = Location("leaky", "n1", "net.layer1", "model.py:12")


def table() -> Rules:
    return Rules("test", SCHEMAS.get)


def test_schema_defaults_are_filled_in() -> None:
    rules = table()
    rules("leaky")(lambda out, x, slope: (out, x, slope))
    assert rules.apply("g", "leaky", ["x"]) == ("g", "x", 0.01)
    assert rules.apply("g", "leaky", ["x", 0.3]) == ("g", "x", 0.3)


def test_argument_that_the_rule_does_not_name_must_be_at_its_default() -> None:
    rules = table()
    rules("leaky")(lambda out, x: x)
    assert rules.apply(None, "leaky", ["x", 0.01]) == "x"
    with pytest.raises(Unsupported, match=r"leaky, node 'n1', in net\.layer1, at model\.py:12: slope=0\.2 is not"):
        rules.apply(None, "leaky", ["x", 0.2], at=HERE)


def test_keyword_attributes_and_absent_optional_inputs() -> None:
    rules = table()

    @rules("pad")
    def pad(out: object, x: str, pads: object = None, *, mode: str, axis: object) -> tuple[object, ...]:
        return x, pads, mode, axis

    assert rules.apply(None, "pad", ["x"], {"axis": 2}) == ("x", None, "constant", 2)
    assert rules.apply(None, "pad", ["x", "p"], {"mode": "edge"}) == ("x", "p", "edge", None)


def test_unnamed_attribute_raises_unless_implied() -> None:
    rules = table()
    rules("typed")(lambda out, x: x)
    assert rules.apply(None, "typed", ["x"], {"T": "float"}) == "x"
    with pytest.raises(Unsupported, match="k=3 is not handled"):
        rules.apply(None, "typed", ["x"], {"T": "float", "k": 3})


def test_variadic_inputs_and_sequence_defaults() -> None:
    rules = Rules("test", lambda name: Schema((Argument("xs"),), (Argument("pads", (0, 0)),)))
    rules("concat")(lambda out, *xs: xs)
    assert rules.apply(None, "concat", ["a", "b", "c"], {"pads": [0, 0]}) == ("a", "b", "c")
    with pytest.raises(Unsupported, match=r"pads=\[1, 0\]"):
        rules.apply(None, "concat", ["a"], {"pads": [1, 0]})


def test_unknown_schema_passes_what_the_node_carries() -> None:
    rules = Rules("test")
    rules("mine::op")(lambda out, x, y, *, k: (x, y, k))
    assert rules.apply(None, "mine::op", [1, 2], {"k": 3}) == (1, 2, 3)


def own(out: object, x: object) -> object:
    """Return a rule like those of this project."""
    return x


own.__module__ = "convert.backends.test.ops"


def theirs(out: object, x: object) -> object:
    return x


@pytest.mark.parametrize(("first", "second"), [(own, theirs), (theirs, own)])
def test_a_second_rule_of_the_users_is_a_mistake_of_theirs_whichever_comes_first(first: Rule, second: Rule) -> None:
    rules = table()
    rules("leaky")(first)
    with pytest.raises(UsageError, match=r"test_table\.py:\d+ registers a test rule for leaky, and convert has one"):
        rules("leaky")(second)


def test_two_rules_of_the_users_for_one_operator_are_both_named() -> None:
    rules = table()
    rules("leaky")(theirs)
    with pytest.raises(UsageError, match=r"test_table\.py:\d+ registers .*, and .*test_table\.py:\d+ has one"):
        rules("leaky")(lambda out, x: x)


def test_two_rules_of_ours_for_one_operator_are_a_defect() -> None:
    rules = table()
    rules("leaky")(own)
    with pytest.raises(ValueError, match="has a rule already"):
        rules("leaky")(own)


def test_a_rule_of_the_users_fills_a_gap_that_is_declared_later() -> None:
    rules = table()
    rules("leaky")(theirs)
    rules.gap("not yet", "leaky")
    assert rules.apply(None, "leaky", ["x"]) == "x"
    assert rules.gaps == {}


def test_coverage_lists_every_missing_operator_at_once_with_counts_and_gaps() -> None:
    rules = table()
    rules.gap("Caffe2 has no strings", "StringSplit")
    rules("leaky")(lambda out, x: x)
    found = [
        ("leaky", HERE),
        ("foo", Location("foo", "a", "m.a", "f.py:1")),
        ("foo", Location("foo", "b")),
        ("StringSplit", Location("StringSplit", "c")),
    ]
    with pytest.raises(Unsupported) as caught:
        rules.check(found)
    text = caught.value.message
    assert "foo, node 'a', in m.a, at f.py:1: no test rule for this operator (and 1 more like it)" in text
    assert "StringSplit, node 'c': Caffe2 has no strings" in text
    assert [p.count for p in caught.value.problems] == [2, 1]
    assert caught.value.exit_code == 4


def test_a_failing_rule_says_where() -> None:
    rules = table()

    @rules("leaky")
    def leaky(out: object, x: object) -> None:
        raise KeyError("oops")

    with pytest.raises(ConvertError, match=r"net\.layer1.*KeyError"):
        rules.apply(None, "leaky", ["x"], at=HERE)


def test_one_to_one_operators_are_data() -> None:
    rules = Rules("test")
    rules.same(lambda name: lambda out, x: f"{name}({x})", Abs="abs", Exp="exp")
    assert rules.apply(None, "Exp", ["x"]) == "exp(x)"
    assert "Abs" in rules


def test_a_rule_that_gets_no_memory_says_where() -> None:
    rules = table()

    @rules("leaky")
    def leaky(out: object, x: object) -> object:
        raise MemoryError("Unable to allocate 4.00 PiB")

    with pytest.raises(ResourceLimit, match=r"node 'n1', .*more memory than there is: Unable to allocate 4\.00 PiB"):
        rules.apply(None, "leaky", ["x"], at=HERE)


class Shaped:
    """A framework's value with a shape, with an unknown rank, or without a shape."""

    def __init__(self, shape: Any) -> None:
        self.given = shape

    @property
    def shape(self) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.mark.parametrize(
    ("value", "empty"),
    [
        (Shaped((2, 0)), True), (Shaped((2, 1)), False), (Shaped(("n", None)), False), (Shaped(()), False),
        (Shaped(None), False), (Shaped(ValueError("unknown rank")), False), (None, False), (0, False),
    ],
)  # fmt: skip
def test_inputs_without_elements_are_refused_with_the_framework_s_words(value: Any, empty: bool) -> None:
    """This is for backends that run a framework; in other tables, or for other inputs, a failing rule is a defect."""

    def failing(out: Any, x: Any) -> None:
        raise RuntimeError("no elements")

    failing.__module__ = "convert.backends.made_up"  # a rule of convert's own
    for runs_framework in (True, False):
        rules = Rules("test", SCHEMAS.get, runs_framework=runs_framework)
        rules("plain")(failing)
        with pytest.raises(ConvertError, match="no elements") as caught:
            rules.apply("g", "plain", [value])
        assert isinstance(caught.value, Unsupported) == (empty and runs_framework)
