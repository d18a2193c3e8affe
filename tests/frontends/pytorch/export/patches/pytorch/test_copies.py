"""Conditions that only decide about memory layout, found in the source of the code that asks."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest
import torch
from convert.frontends.pytorch.export.patches.pytorch.copies import _has_copies, _lines_of

SOURCE = """
import torch
x = torch.ones(3)
if x.shape[0] > 1: x = x.contiguous()       # 4
class Net:
    if 1:                                   # 6
        x = x.contiguous()
    @property
    @staticmethod
    def forward(x,
                most=lambda n: n if n else 1):
        '''A text
that is further left.'''
        if (
            x.shape[0]                      # 15
            > 64
        ):
            x = (x
                 .contiguous())
            # a comment
        if x.shape[0] > 2:                  # 21
            x = x.contiguous()
        else:
            x = x + 1
        def inner(y):
            if y.shape[0] > 3:              # 26
                y = y.contiguous( )
            if y.shape[0] > 4:              # 28
                y = y.contiguous(memory_format=torch.channels_last)
            return y
        while x.shape[0] > 5:               # 31
            x = x.contiguous()
        if any(n > 6 for n in x.shape):     # 33
            x = x.contiguous()
        if (n := x.shape[0]) > 7:           # 35
            x = x.contiguous()
        if x.shape[0] > 8:                  # 37
            y = x.contiguous()
        elif x.shape[0] > 9:                # 39
            x = x.contiguous()
        return inner(x)
    async def later(x):
        if x.shape[0] > 10:                 # 43
            x = x.contiguous()
            y = x.contiguous()
"""
LINES = {4, 6, 15, 16, 26, 39}
"""The lines with such conditions, without the lines of their parentheses."""


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def lines_of_each(path: Path) -> set[int]:
    """Return the lines found by looking at each function alone."""
    whole = compile(path.read_text(), str(path), "exec")
    return {line for code in codes(whole) if code.co_name != "<module>" for line in _lines_of(code)}


def test_the_lines_of_a_file_are_those_of_its_functions(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    module = compile(SOURCE, str(path), "exec")
    assert set(_lines_of(module)) == LINES
    assert lines_of_each(path) == LINES - {4}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nn/functional.py", "_decomp/decompositions.py", "_subclasses/fake_impls.py"])
def test_a_function_has_the_lines_that_its_file_has(name: str) -> None:
    path = Path(torch.__file__).parent / name
    module = compile(path.read_text(), str(path), "exec")
    assert _has_copies(str(path))
    assert lines_of_each(path) == set(_lines_of(module))


def test_a_file_that_copies_nothing_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plain.py"
    path.write_text("def f(x):\n    if x.shape[0] > 1:\n        x = y.contiguous()\n")
    monkeypatch.setattr(ast, "parse", lambda *given: pytest.fail("it was parsed"))
    linecache.checkcache(str(path))
    assert not lines_of_each(path)
