"""The rule table of a backend: rules by ONNX operator, each of which may decline some nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import onnx_ir as ir

from convert.errors import Location, Problem, Unsupported
from convert.rules import Rule, Rules
from convert.rules.onnx_schemas import operator_of

_REFUSAL = "convert.refusal"


@dataclass
class NodeRules(Rules):
    """`Rules` with optional conditions: `@onnx_op("Name", when=predicate, otherwise="reason")`.

    A node that `predicate` declines is written out before emission (`convert.legalize`). If that is impossible,
    `check_nodes` rejects it with the reason of the lowering, or else with `otherwise`.

    >>> toy_op = NodeRules("toy")
    >>> def is_exact(node):
    ...     return node.attributes.get_string("approximate", "none") == "none"
    >>> @toy_op("Gelu", when=is_exact, otherwise="toys do not approximate")
    ... def gelu(out, x):
    ...     return f"{out}.gelu({x})"
    >>> node = ir.Node("", "Gelu", [], [ir.AttrString("approximate", "tanh")])
    >>> toy_op.takes(node)
    False
    >>> toy_op.check_nodes([(node, Location("Gelu", "gelu_1"))])
    Traceback (most recent call last):
    convert.errors.Unsupported: Gelu, node 'gelu_1': toys do not approximate
    """

    conditions: dict[str, tuple[Callable[[ir.Node], bool], str]] = field(default_factory=dict)

    def __call__(
        self, *operators: str, when: Callable[[ir.Node], bool] | None = None, otherwise: str = ""
    ) -> Callable[[Rule], Rule]:
        """Return a decorator that registers a rule for the nodes that `when` accepts (by default all)."""
        if when is not None:
            self.conditions.update(dict.fromkeys(operators, (when, otherwise)))
        return super().__call__(*operators)

    def takes(self, node: ir.Node) -> bool:
        """Return whether there is a rule for `node` that does not decline it."""
        operator = operator_of(node)
        accepts, _ = self.conditions.get(operator, (None, ""))
        return operator in self and (accepts is None or accepts(node))

    def check_nodes(
        self, nodes: Iterable[tuple[ir.Node, Location]], key: Callable[[ir.Node], str] = operator_of
    ) -> None:
        """Raise one `Unsupported` that lists every node without a rule, with reasons. Call it before emission."""
        problems: list[Problem] = []
        left: list[tuple[str, Location]] = []
        declined: dict[tuple[str, str], list[Location]] = {}
        for node, at in nodes:
            operator = key(node)
            accepts, otherwise = self.conditions.get(operator, (None, ""))
            if operator in self and (accepts is None or accepts(node)):
                continue
            why = str(node.meta.get(_REFUSAL, ""))
            if operator in self:
                why = otherwise or why
            if operator in self.gaps or not why:
                left.append((operator, at))
            else:
                declined.setdefault((operator, why), []).append(at)
        try:
            super().check(left)
        except Unsupported as error:
            problems, hint = list(error.problems), error.hint
        else:
            hint = ""
        problems += [Problem(why, places[0], len(places)) for (_, why), places in declined.items()]
        if problems:
            raise Unsupported(problems=problems, hint=hint)


def note_refusal(node: ir.Node, why: str) -> None:
    """Record on `node` why it could not be written out.

    `NodeRules.check_nodes` reports it if there is no rule either.
    """
    node.meta[_REFUSAL] = why
