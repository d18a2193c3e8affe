"""Lists with an entry per dim are counted before a rule gets them, whatever their entries are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from convert.errors import Location, ResourceLimit
from convert.rules import Argument, Rules, Schema

toy_op = Rules(
    "toy",
    schema=lambda operator: Schema(
        (Argument("x"), Argument("paddings")), (Argument("axes", ()), Argument("names", ()))
    ),
)


@toy_op("Pad")
def pad(out: list[Any], x: Any, target: Any, *, axes: Any, names: Any) -> str:
    out.append(x)
    return "made"


@pytest.mark.parametrize(
    "paddings",
    [[0] * 513, (0,) * 513, np.zeros((257, 2), "i8"), SimpleNamespace(shape=(600,)), SimpleNamespace(shape=[300, 2])],
    ids=["list", "tuple", "array", "vector", "matrix"],
)
def test_more_than_any_tensor_has_dims(paddings: Any) -> None:
    made: list[Any] = []
    with pytest.raises(ResourceLimit, match=r"Pad, node 'p': \d+ numbers in its paddings are more than the 512"):
        toy_op.apply(made, "Pad", ["x", paddings], at=Location("Pad", "p"))
    with pytest.raises(ResourceLimit, match="in its axes"):
        toy_op.apply(made, "Pad", ["x", [0]], {"axes": [0] * 513})
    assert not made


@pytest.mark.parametrize(
    "paddings", [[0] * 512, None, 3, np.zeros((256, 2)), SimpleNamespace(shape=(None, 2)), "a" * 600]
)
def test_what_is_taken(paddings: Any) -> None:
    assert toy_op.apply([], "Pad", [[0] * 1000, paddings], {"names": ["a"] * 1000}) == "made"
