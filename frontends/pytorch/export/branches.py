"""Decisions that forward makes in Python on sizes: which of them a capture cannot tell for other sizes than its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import sympy

from ..common.locate import TORCH, shown_path
from ..torch_internals.symbols import ShapeEnv, ValueRanges, decided_by_ranges, int_oo, sizes_of_examples

_HERE = __file__
_OWN = f"{Path(__file__).parent}/"
# What lies between an `if` and the place that decides it; any other frame of PyTorch is a decision of its own.
_BETWEEN = (
    *(f"{TORCH}{name}" for name in ("__init__.py", "fx/experimental/", "utils/_stats.py")),
    *(f"{_OWN}patches/{name}.py" for name in ("copies", "checks", "size_texts")),
    "<frozen ",  # of Python's own modules that are written in Python: `in`, say
)
# What lies between a call of a tensor's method and PyTorch's code in C++, which asks for itself.
_CALLING = (f"{TORCH}_export/non_strict_utils.py", f"{_OWN}patches/replacements.py")


@dataclass(frozen=True)
class Branch:
    """One decision: the condition in PyTorch's symbols, which way it went, and the line that asked for it.

    guarded: whether it is about lengths of 2 and more. PyTorch makes no guard of what holds for all of these, and takes
    dynamic dims for so long. Nor does it make one of what an operator has asked already: that is about them all the
    same, because the operator of the target may take other sizes.
    ties: whether the symbols that are left say it: a dim has the symbol of another one, or an expression of it.
    number: whether Python wanted a number, for a range() say, of which there may be as many ways as sizes.
    bound: whether it is no more than a bound of the capture: beyond it, runs of module and capture agree. Where another
    way can be captured, that is better; where not, nothing has to be checked.
    """

    condition: sympy.Basic
    taken: bool
    line: str
    guarded: bool = field(default=True, compare=False)
    ties: bool = field(default=False, compare=False)
    number: bool = field(default=False, compare=False)
    bound: bool = field(default=False, compare=False)

    @property
    def taken_way(self) -> sympy.Basic:
        """What has to hold for the same way to be taken."""
        return self.condition if self.taken else sympy.Not(self.condition)


@dataclass
class Decided:
    """What was decided on sizes while a module was captured.

    branches: the decisions of code outside of PyTorch. guarded_at: the lines of that code at which PyTorch's own code
    made guards, by the guards. settled: the lines that asked what PyTorch takes for true or false of all lengths of 2
    and more, such as whether a transposed tensor is contiguous.
    """

    branches: list[Branch] = field(default_factory=list)
    guarded_at: dict[sympy.Basic, str] = field(default_factory=dict)
    settled: dict[str, None] = field(default_factory=dict)


@contextmanager
def record_branches() -> Iterator[Decided]:
    """Records the decisions on sizes that code outside of PyTorch makes while it is captured.

    Numbers that PyTorch itself takes out of sizes are among them: an operator whose argument has to be a number (the
    window of a pool, as in `avg_pool1d(x, x.shape[-1] // 2)`) has it for good, and that of a target asks for nothing.
    At the end they are in the symbols that are left: of two lengths that turned out to be equal, one.
    """
    made = Decided()
    found = made.branches
    environments: list[Any] = []
    shape_env: Any = ShapeEnv
    original = shape_env.evaluate_expr

    def evaluate(self: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        known = len(self.guards)
        result = original(self, condition, *args, **kwargs)
        if len(self.guards) > known:
            made.guarded_at.setdefault(self.guards[-1].expr, calling_line())
        asked = condition
        is_settled = len(self.guards) == known and isinstance(asked, (sympy.logic.boolalg.Boolean, bool))
        if is_settled and (line := asking_line((*_BETWEEN, *_CALLING))):
            made.settled[line] = None
        if not isinstance(asked, sympy.logic.boolalg.Boolean) and getattr(result, "is_number", False):
            asked = sympy.Eq(asked, result)  # Python wanted the number itself, for a range() say
        is_number = asked is not condition
        if not isinstance(asked, sympy.logic.boolalg.Boolean) or not asked.free_symbols:
            return result
        line = calling_line() if is_number else asking_line()
        if line or is_number:
            guarded = is_number or not _holds_for_long(self, asked)
            branch = Branch(asked, is_number or bool(result), line, guarded, number=is_number)
            if branch not in found:
                found.append(branch)
                environments.append(self)
        return result

    shape_env.evaluate_expr = evaluate
    try:
        yield made
        found[:] = dict.fromkeys(map(_in_symbols_left, found, environments))
    finally:
        shape_env.evaluate_expr = original


def _holds_for_long(environment: Any, condition: sympy.Basic) -> bool:
    """Whether a condition is decided for all lengths of 2 and more, by nothing else that the capture has learned."""
    backed = sizes_of_examples(environment)
    ranges = {s: _LONG if s in backed else environment.var_to_range.get(s, _ANY) for s in condition.free_symbols}
    return decided_by_ranges(condition, tuple(ranges.items())) is not None


_LONG, _ANY = ValueRanges(2, int_oo), ValueRanges(-int_oo, int_oo)


def _in_symbols_left(branch: Branch, environment: Any) -> Branch:
    """The branch in the symbols that others were replaced by; as it is where nothing is left to decide."""
    condition = environment.replace(branch.condition)
    return replace(branch, condition=condition) if condition.free_symbols else replace(branch, ties=True)


def asking_line(between: tuple[str, ...] = _BETWEEN) -> str:
    """file:line of whoever asked, "" where that is PyTorch itself; `between` are files that only hand on."""
    frame = asking_frame(between)
    return "" if frame is None else f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def asking_frame(between: tuple[str, ...] = _BETWEEN) -> FrameType | None:
    """Return the frame of whoever asked, None where that is PyTorch itself; `between` are files that only hand on."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((*between, _HERE)):
        frame = frame.f_back
    return None if frame is None or _is_of_pytorch(frame) else frame


def calling_line() -> str:
    """file:line of the code outside of PyTorch that called it, "" where there is none."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename.startswith("<frozen ") or _is_of_pytorch(frame)):
        frame = frame.f_back
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame is not None else "convert"
    return "" if frame is None or package == "convert" else f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_of_pytorch(frame: FrameType) -> bool:
    """Whether a frame runs code of PyTorch, or of this room in its place.

    Code that was generated has no file (`<string>`, `<stdin>`, `<attrs generated …>`); its globals tell whose it is.
    """
    if not frame.f_code.co_filename.startswith("<"):
        return frame.f_code.co_filename.startswith((TORCH, _OWN))
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in ("torch", "convert")


def short_lengths(branch: Branch) -> set[int]:
    """Return which of the lengths 0 and 1 let the decision go the other way, of one size or of all in it."""
    symbols = sorted(branch.condition.free_symbols, key=str)
    found = set()
    for length in (0, 1):
        for some in [symbols, *([s] for s in symbols if len(symbols) > 1)]:
            try:
                decided = branch.condition.xreplace(dict.fromkeys(some, sympy.Integer(length)))
            except ZeroDivisionError:  # forward divides by it, and fails
                continue
            if decided in (sympy.true, sympy.false) and bool(decided) != branch.taken:
                found.add(length)
    return found


def ties_inputs(branches: Sequence[Branch]) -> bool:
    """True where forward decides on whether a length is another's, or a function of others, and it was."""
    return any(len(equal.free_symbols) > 1 for b in branches for equal in b.taken_way.atoms(sympy.Eq))
