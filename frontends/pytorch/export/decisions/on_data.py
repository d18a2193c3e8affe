"""Decisions on data that forward makes in Python: each answer is taken in a separate capture.

`deciding(path)` answers the questions of a capture in order. It marks each in the graph by an `_assert_async` of a
tensor that is 2 if the condition holds and 1 if not, so the assertion always passes. `joined_paths.py` merges graphs
into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch

from ...torch_internals import OpOverload, schema_of
from ...torch_internals.symbols import GuardOnDataDependentSymNode, ShapeEnv
from ..patches.pytorch.checks import BETWEEN
from .branches import asking_line

_MARK = "convert: decision "
HOLDS = 2
"""The value of the marked tensor if the condition holds; 1 if it does not."""
_MOST = 16
"""Maximum number of decisions in one capture: a loop on data would ask forever."""


@dataclass
class Decisions:
    """The questions and answers of one capture; `path` has the first answers, later ones are yes."""

    path: Sequence[bool]
    answers: dict[sympy.Basic, bool] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


@contextmanager
def deciding(path: Sequence[bool]) -> Iterator[list[Decisions]]:
    """Answer conditions on data by `path`; yield the questions of each capture, the last capture's last."""
    shape_env: Any = ShapeEnv
    original = shape_env.evaluate_sym_node
    by_capture: WeakKeyDictionary[Any, Decisions] = WeakKeyDictionary()
    found: list[Decisions] = []

    def evaluate(self: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, node, *args, **kwargs)
        except GuardOnDataDependentSymNode:
            line = asking_line(BETWEEN)
            if not line or not node.is_bool():
                raise
            if self not in by_capture:
                by_capture[self] = Decisions(path)
                found.append(by_capture[self])
            made = by_capture[self]
            if node.expr not in made.answers and len(made.answers) == _MOST:
                raise
        return sympy.true if _answer(made, node, line) else sympy.false

    shape_env.evaluate_sym_node = evaluate
    try:
        yield found
    finally:
        shape_env.evaluate_sym_node = original


def _answer(made: Decisions, node: Any, line: str) -> bool:
    """Return the answer to a condition; its first occurrence is marked in the graph."""
    if node.expr not in made.answers:
        place = len(made.answers)
        made.answers[node.expr] = made.path[place] if place < len(made.path) else True
        made.lines.append(line)
        answer = torch.scalar_tensor(torch.sym_ite(torch.SymBool(node), HOLDS, 1), dtype=torch.int64)
        torch.ops.aten._assert_async.msg(answer, f"{_MARK}{place}")
    return made.answers[node.expr]


def decision_of(node: torch.fx.Node) -> int | None:
    """Return the number of the decision that a node of a captured program marks, else None. The node's first argument
    is the answer.
    """
    target = node.target
    if not isinstance(target, OpOverload) or "assert_async" not in schema_of(target).name:
        return None
    text = next((a for a in node.args[1:] if isinstance(a, str)), "")
    return int(text.removeprefix(_MARK)) if text.startswith(_MARK) else None
