"""Decisions on sizes that forward makes in Python; finds those for which a capture is wrong at other sizes.

It misses comparisons of two sizes that an operator has already found equal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import FrameType
from typing import Any

import sympy

from ...common.locate import TORCH, shown_path
from ...torch_internals import schemas_of_operator, stands_for_min_or_max
from ...torch_internals.symbols import ShapeEnv, ValueRanges, decided_by_ranges, int_oo, sizes_of_examples
from .. import FOLDER

_HERE = __file__
# Frames of these files only pass an `if` on to the code that decides it. Any other frame of PyTorch decides something
# of its own.
_BETWEEN = (
    *(f"{TORCH}{name}" for name in ("__init__.py", "fx/experimental/", "utils/_stats.py")),
    *(f"{FOLDER}patches/pytorch/{name}.py" for name in ("copies", "checks", "size_texts")),
    "<frozen ",  # Python's own modules written in Python, such as for `in`
)
# Files between the call of a tensor method and PyTorch's C++ code, which asks on its own behalf. The mode of the second
# sees every function.
_REPLACING = f"{FOLDER}patches/pytorch/replacements.py"
_CALLING = (f"{TORCH}_export/non_strict_utils.py", _REPLACING)

# Files that call a function of torch.library.register_fake, which infers the shapes of a custom operator.
_INFERRING = tuple(f"{TORCH}{name}" for name in ("library.py", "_library/utils.py", "_library/custom_ops.py"))


@dataclass(frozen=True)
class Branch:
    """One decision: the condition in PyTorch's symbols, the result, and the line that asked for it.

    - guarded: whether it concerns lengths of 2 and more. PyTorch assumes such lengths for dynamic dims, and makes no
      guard for what holds for all of them. It makes none for a condition that an operator has already asked, either;
      that one counts as guarded all the same, because the target's operator may accept other sizes.
    - ties: whether the remaining symbols imply it: a dim has the symbol of another, or an expression of it.
    - number: whether Python needed a number, such as for range(), so that there may be as many paths as sizes.
    - bound: whether it is only a bound of the capture, beyond which module and capture agree. Capturing another path is
      better if possible; otherwise nothing has to be checked.
    """

    condition: sympy.Basic
    taken: bool
    line: str
    guarded: bool = field(default=True, compare=False)
    ties: bool = field(default=False, compare=False)
    number: bool = field(default=False, compare=False)
    bound: bool = field(default=False, compare=False)

    @property
    def path_condition(self) -> sympy.Basic:
        """Return the condition for taking the same path."""
        return self.condition if self.taken else sympy.Not(self.condition)


@dataclass
class Decided:
    """The decisions on sizes during the capture of a module.

    - branches: decisions of code outside PyTorch
    - guarded_at: the lines of that code at which PyTorch made guards, by guard
    - settled: the lines that asked what PyTorch decides for all lengths of 2 and more, such as whether a transposed
      tensor is contiguous
    - answered: those of them at which forward got the answer itself. Operators that return tensors ask for the layout
      of memory too, which only matters if forward writes to what may be a view.
    """

    branches: list[Branch] = field(default_factory=list)
    guarded_at: dict[sympy.Basic, str] = field(default_factory=dict)
    settled: dict[str, None] = field(default_factory=dict)
    answered: dict[str, None] = field(default_factory=dict)


@contextmanager
def record_branches() -> Iterator[Decided]:
    """Record the decisions on sizes that code outside PyTorch makes during capture.

    They include numbers that PyTorch itself takes from sizes, such as the window of a pool in `avg_pool1d(x,
    x.shape[-1] // 2)`. Such an argument is fixed in the program, and the target's operator checks nothing. At the end
    they are expressed in the remaining symbols: two lengths that turned out to be equal have one symbol.
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
            if getattr(asked, "free_symbols", ()) and not asking_line() and not _asks_for_tensors():
                made.answered[line] = None
        if not isinstance(asked, sympy.logic.boolalg.Boolean) and getattr(result, "is_number", False):
            asked = sympy.Eq(asked, result)  # Python needed the number itself, such as for range()
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
    """Return whether a condition holds for all lengths of 2 and more, without other facts of the capture."""
    backed = sizes_of_examples(environment)
    ranges = {s: _LONG if s in backed else environment.var_to_range.get(s, _ANY) for s in condition.free_symbols}
    return decided_by_ranges(condition, tuple(ranges.items())) is not None


_LONG, _ANY = ValueRanges(2, int_oo), ValueRanges(-int_oo, int_oo)


def _in_symbols_left(branch: Branch, environment: Any) -> Branch:
    """Return the branch in the symbols that replaced others; unchanged if it is then decided."""
    condition = environment.replace(branch.condition)
    return replace(branch, condition=condition) if condition.free_symbols else replace(branch, ties=True)


def asking_line(between: tuple[str, ...] = _BETWEEN) -> str:
    """Return file:line of the frame that `asking_frame` returns, "" for None."""
    frame = asking_frame(between)
    return "" if frame is None else f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def asking_frame(between: tuple[str, ...] = _BETWEEN) -> FrameType | None:
    """Return the frame of the code that asked, None for PyTorch itself and for the shapes of a custom operator.

    `between` are files that only pass calls on.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename.startswith((*between, _HERE)) or stands_for_min_or_max(frame.f_code)
    ):
        frame = frame.f_back
    return None if frame is None or _is_of_pytorch(frame) or _infers_shapes(frame) else frame


def _asks_for_tensors() -> bool:
    """Return whether the function that forward called last, such as `contiguous`, is an operator that returns a tensor.

    Other functions tell forward the answer: `is_contiguous`.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not (frame.f_code.co_filename == _REPLACING and "func" in frame.f_locals):
        frame = frame.f_back
    return frame is not None and _returns_tensors(getattr(frame.f_locals["func"], "__name__", ""))


@cache
def _returns_tensors(name: str) -> bool:
    schemas = schemas_of_operator(f"aten::{name}")
    return bool(schemas) and all(value.type.kind() == "TensorType" for s in schemas for value in s.returns)


def _infers_shapes(frame: FrameType) -> bool:
    """Return whether a frame belongs to a function that infers the shapes of a custom operator.

    Its conditions are requirements of the operator, as those of PyTorch's own operators are.
    """
    caller: FrameType | None = frame
    while caller is not None and not _is_of_pytorch(caller):
        caller = caller.f_back
    return caller is not None and caller.f_code.co_filename.startswith(_INFERRING)


def calling_line() -> str:
    """Return file:line of the calling code outside PyTorch, "" if there is none."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename.startswith("<frozen ") or _is_of_pytorch(frame)):
        frame = frame.f_back
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame is not None else "convert"
    return "" if frame is None or package == "convert" else f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_of_pytorch(frame: FrameType) -> bool:
    """Return whether a frame runs code of PyTorch, or of this package in its place.

    Generated code has no file (`<string>`, `<stdin>`, `<attrs generated …>`); its globals show where it belongs. Code
    without a module, such as the guards of TorchDynamo, which captures the step of a torch.scan, belongs to its caller.
    """
    if not frame.f_code.co_filename.startswith("<"):
        return frame.f_code.co_filename.startswith((TORCH, FOLDER))
    if "__name__" not in frame.f_globals and frame.f_back is not None:
        return _is_of_pytorch(frame.f_back)
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in ("torch", "convert")


def short_lengths(branch: Branch) -> set[int]:
    """Return which of the lengths 0 and 1 change the decision, if one size or all of its sizes have that length."""
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
    """Return whether forward decided that a length equals another length, or a function of other lengths."""
    return any(len(equal.free_symbols) > 1 for b in branches for equal in b.path_condition.atoms(sympy.Eq))
