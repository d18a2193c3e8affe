"""The beginnings of rules that `convert ops --skeleton` prints: they have the schema's names, and run unchanged."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from convert.errors import Unsupported, UsageError
from convert.rules import Argument, Rules, Schema
from convert.rules.onnx_schemas import onnx_skeleton
from convert.rules.skeleton import skeleton

SCHEMA = Schema((Argument("self"), Argument("from"), Argument("bins", 10)), (Argument("lambd", 0.5), Argument("T", 1)),
                frozenset({"T"}))  # fmt: skip


def made(text: str, table: Rules, decorator: str) -> Any:
    """Return the function of a file that is run with a table in place of the package's own."""
    lines = [line for line in text.splitlines() if not line.startswith("from convert.backends")]
    found: dict[str, Any] = {decorator: table}
    exec("\n".join(lines), found)
    return next(e.rule for e in table.entries.values())


def test_names_defaults_and_what_follows_from_inputs() -> None:
    text = skeleton(Rules("Test"), "mine::HistOf", SCHEMA, 'HistOf("a")', "convert.backends.tensorflow", "onnx_op")
    table = Rules("Test", schema=lambda operator: SCHEMA)
    rule = made(text, table, "onnx_op")
    assert str(inspect.signature(rule)) == "(t, self, from_, bins=10, *, lambd=0.5)"
    assert rule.__name__ == "hist_of"
    with pytest.raises(Unsupported, match=r"is to be written: self=3, from_=4, bins=10, lambd=0\.5"):
        table.apply(None, "mine::HistOf", [3, 4])


@pytest.mark.parametrize("operator", ["mine::Cube", "Hardmax", "Conv", "com.microsoft::Gelu"])
def test_every_onnx_operator_has_one(operator: str) -> None:
    table = Rules("Test")
    rule = made(onnx_skeleton(table, operator, "convert.backends.tensorflow"), table, "onnx_op")
    inputs = {"mine::Cube": "*inputs", "Hardmax": "input", "Conv": "X, W, B"}.get(operator, "*inputs")
    assert str(inspect.signature(rule)).startswith(f"(t, {inputs}")


def test_an_operator_with_a_rule_needs_none() -> None:
    table = Rules("Test")
    table("mine::op")(lambda g, x: x)
    with pytest.raises(UsageError, match="has a Test rule already"):
        skeleton(table, "mine::op", None, "", "m", "onnx_op")


@pytest.mark.parametrize(("told", "shown"), [("", "Its schema is not known"), ("Op(x)", "Op(x)")])
def test_what_is_told_of_an_operator_without_a_schema(told: str, shown: str) -> None:
    assert f'"""{shown}' in skeleton(Rules("Test"), "mine::op", None, told, "m", "onnx_op")
