"""Reading an exported program queries the types of a class's fields once, and leaves PyTorch unchanged."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from convert.frontends.pytorch.export.patch_table import Stage, patched
from torch._export.serde import schema, serialize


def test_types_are_asked_for_once_and_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = [c for c in vars(schema).values() if isinstance(c, type) and dataclasses.is_dataclass(c)]
    expected = {c: typing.get_type_hints(c) for c in classes}
    asked: list[Any] = []
    before = typing.get_type_hints
    monkeypatch.setattr(typing, "get_type_hints", lambda c, **where: asked.append(c) or before(c, **where))
    with patched(Stage.LOAD):
        for _ in range(2):
            assert {c: serialize.typing.get_type_hints(c) for c in classes} == expected
        assert serialize.typing.cast is typing.cast
    assert len(classes) > 20
    assert asked == classes
    assert serialize.typing is typing
