"""Nested inputs: dicts, tuples, lists, named tuples, dataclasses and `**kwargs`, by position and by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import convert
from convert.errors import UsageError
from convert.request.given_inputs import members_of


class Pair(NamedTuple):
    x: Tensor
    y: Tensor


@dataclass
class Batch:
    x: Tensor
    y: Tensor
    scale: float = 1.0
    mask: Tensor | None = None


class OfAttributes(nn.Module):
    def forward(self, batch: Any, z: Tensor | None = None) -> Tensor:
        found = (batch.x - batch.y) * getattr(batch, "scale", 1.0)
        return found if z is None else found + z


class OfKeys(nn.Module):
    def forward(self, batch: Mapping[str, Tensor], z: Tensor | None = None) -> Tensor:
        return batch["x"] - batch["y"] if z is None else batch["x"] - batch["y"] + z


class OfPlaces(nn.Module):
    def forward(self, batch: list[Tensor]) -> Tensor:
        return batch[0] - batch[1]


class OfLists(nn.Module):
    """A module with deeply nested inputs, which checks their types."""

    def forward(self, batch: dict[str, Any], pairs: list[Any]) -> Tensor:
        assert type(pairs) is list
        assert type(batch["ys"]) is list
        assert batch["mask"] is None
        return (batch["in"]["x"] - batch["ys"][0]["y"]) * batch["scale"] + sum(
            [p["z"] - p["of"].x + p["of"].y for p in pairs]
        )


class OfNumbers(nn.Module):
    def forward(self, batch: dict[int, Tensor]) -> Tensor:
        return batch[7] - batch[10]


class OfKeywords(nn.Module):
    def forward(self, x: Tensor, **others: Tensor) -> Tensor:
        return x - others["y"] + others["z"]


X, Y, Z = torch.randn(1, 3), torch.randn(1, 3), torch.randn(1, 3)
CALLS: dict[str, tuple[nn.Module, Any, Any]] = {
    "a dict by place": (OfKeys(), ({"x": X, "y": Y},), lambda m, x, y, z: m({"x": x, "y": y})),
    "a dict and a tensor": (OfKeys(), ({"x": X, "y": Y}, Z), lambda m, x, y, z: m({"x": x, "y": y}, z)),
    "a dict by name": (OfKeys(), {"batch": {"x": X, "y": Y}}, lambda m, x, y, z: m({"x": x, "y": y})),
    "a named tuple": (OfAttributes(), (Pair(X, Y),), lambda m, x, y, z: m(Pair(x, y))),
    "a named tuple by name": (OfAttributes(), {"batch": Pair(X, Y), "z": Z}, lambda m, x, y, z: m(Pair(x, y), z)),
    "a dataclass": (OfAttributes(), (Batch(X, Y, 3.0),), lambda m, x, y, z: m(Batch(x, y, 3.0))),
    "a dataclass by name": (OfAttributes(), {"batch": Batch(X, Y)}, lambda m, x, y, z: m(Batch(x, y))),
    "a list of tensors": (OfPlaces(), ([X, Y],), lambda m, x, y, z: m([x, y])),
    "lists of dicts": (
        OfLists(),
        ({"in": {"x": X}, "ys": [{"y": Y}], "mask": None, "scale": 2.0}, [{"z": Z, "of": Pair(X, Y)}]),
        lambda m, x, y, z: (x - y) * 2 + z - x + y,
    ),
    "a dict of numbers": (OfNumbers(), ({10: Y, 7: X},), lambda m, x, y, z: m({7: x, 10: y})),
    "keywords": (OfKeywords(), {"x": X, "y": Y, "z": Z}, lambda m, x, y, z: m(x, y=y, z=z)),
    "specs of keywords": (
        OfKeywords(),
        ["x:float32[n,3]", "y:float32[n,3]", "z:float32[n,3]"],
        lambda m, x, y, z: m(x, y=y, z=z),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_an_input_holds_is_an_input_each(name: str) -> None:
    """With a batch of another size than the example's."""
    module, inputs, call = CALLS[name]
    session = onnxruntime.InferenceSession(convert.to_onnx(module, inputs, verify=False).SerializeToString())
    rows = {k: np.random.default_rng(i).normal(size=(4, 3)).astype(np.float32) for i, k in enumerate("xyz")}
    feed = {}
    for i, given in enumerate(session.get_inputs()):
        last = given.name.rpartition("_")[2]
        feed[given.name] = rows["xyz"[i] if last.isdecimal() else last]
    expected = call(module, *(torch.from_numpy(rows[k]) for k in "xyz"))
    (found,) = session.run(None, feed)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


def test_it_is_verified(tmp_path: Any) -> None:
    report = convert.convert(OfAttributes(), "onnx", tmp_path / "m.onnx", inputs=(Batch(X, Y, 2.0),))
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert [x.name for x in report.inputs] == ["batch_x", "batch_y"]


def test_one_of_an_unknown_name_is_asked_for_by_name() -> None:
    class Any_(nn.Module):
        def forward(self, *given: Any) -> Tensor:
            return given[0]["x"]

    with pytest.raises(UsageError, match="a dict with inputs in it, whose name is not known"):
        convert.to_onnx(Any_(), ({"x": X},), verify=False)


def test_numbers_and_texts_hold_nothing() -> None:
    for given in (1.0, "x:float32[n]", None, X, np.ones(2), Batch):
        assert members_of(given) is None
    assert members_of(Pair(X, Y)) == {"x": X, "y": Y}


def test_a_network_of_data_parallel_has_its_own_inputs() -> None:
    graph = convert.to_onnx(nn.DataParallel(nn.Linear(3, 2)), X, verify=False).graph
    assert [x.name for x in graph.input] == ["input"]


def test_a_mask_without_a_batch_leaves_the_batch_of_others_open() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return x.masked_fill(mask, 0.0)

    graph = convert.to_onnx(Masked(), (torch.randn(1, 4, 4), torch.ones(4, 4).tril() > 0), verify=False).graph
    assert [d.dim_param for d in graph.input[0].type.tensor_type.shape.dim] == ["batch", "", ""]
