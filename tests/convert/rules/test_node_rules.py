"""Rules that decline nodes: what a backend's table takes, and how it reports the rest."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from convert.errors import Location, Unsupported
from convert.rules.node_rules import NodeRules, note_refusal


def is_long(node: ir.Node) -> bool:
    return node.attributes.get_int("length", 0) > 1


def table() -> NodeRules:
    rules = NodeRules("test")
    rules("Relu")(lambda out, x: x)
    rules("Conv", when=is_long, otherwise="short ones")(lambda out, x: x)
    rules.gap("there are no strings", "StringSplit")
    return rules


def node(operator: str, length: int = 0) -> ir.Node:
    return ir.Node("", operator, [], [ir.AttrInt64("length", length)])


def problems(*nodes: ir.Node) -> list[tuple[str, str, int]]:
    with pytest.raises(Unsupported) as caught:
        table().check_nodes((one, Location(one.op_type)) for one in nodes)
    return [(p.at.operator, p.why, p.count) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("one", "taken"),
    [(node("Relu"), True), (node("Conv", 2), True), (node("Conv", 1), False), (node("Abs"), False)],
    ids=["plain", "accepted", "declined", "unknown"],
)
def test_takes(one: ir.Node, taken: bool) -> None:
    assert table().takes(one) == taken


def test_what_is_taken_raises_nothing() -> None:
    table().check_nodes([(node("Conv", 2), Location("Conv"))])


def test_each_reason_is_listed_once_with_the_number_of_its_nodes() -> None:
    assert problems(node("Conv"), node("Relu"), node("Conv", 1), node("StringSplit"), node("Abs")) == [
        ("StringSplit", "there are no strings", 1),
        ("Abs", "no test rule for this operator", 1),
        ("Conv", "short ones", 2),
    ]


def test_why_a_node_could_not_be_written_out_is_the_reason() -> None:
    """A declared gap and the condition of a rule say more about the format."""
    given = [node("Abs"), node("Conv"), node("StringSplit")]
    for one in given:
        note_refusal(one, "sizes that are computed")
    assert problems(*given) == [
        ("StringSplit", "there are no strings", 1),
        ("Abs", "sizes that are computed", 1),
        ("Conv", "short ones", 1),
    ]
