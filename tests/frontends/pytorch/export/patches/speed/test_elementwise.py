"""Elementwise operators whose results are inferred directly: the same results as PyTorch infers, for the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export.patch_table import TABLE
from convert.frontends.pytorch.export.patches.patch import Wrap, in_place
from convert.frontends.pytorch.export.patches.speed import elementwise
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

ROWS = [row for row in TABLE if isinstance(row.change, Wrap) and row.change.make is elementwise.infer_elementwise]
aten: Any = torch.ops.aten

INFERRED: dict[str, Callable[[dict[str, Tensor]], Tensor]] = {
    "unary": lambda t: aten.rsqrt(t["x"]),
    "unary of integers": lambda t: aten.exp(t["whole"]),
    "with a text": lambda t: aten.gelu(t["x"], approximate="tanh"),
    "a number": lambda t: t["x"] * 2,
    "a fraction and integers": lambda t: t["whole"] * 0.5,
    "two tensors": lambda t: t["x"] + t["x"],
    "weight of one dim": lambda t: t["x"] * t["w"],
    "weight first": lambda t: t["w"] - t["x"],
    "rank 0": lambda t: t["x"] * t["one"],
    "two dtypes": lambda t: t["x"] + t["whole"],
    "half and float": lambda t: t["x"].half() + t["w"],
    "comparison": lambda t: t["x"] > 0,
    "division of integers": lambda t: torch.div(t["whole"], 2, rounding_mode="floor"),
    "three tensors": lambda t: torch.where(t["x"] > 0, t["x"], t["w"]),
    "a dim of 1": lambda t: t["x"] * t["x"][:, :1].clone(memory_format=torch.contiguous_format),
    "in place, of which PyTorch infers the result first": lambda t: t["x"].mul_(2),
    "copy": lambda t: t["x"].clone(),
}
LEFT = {
    "both broadcast": lambda t: t["x"][:, :1].contiguous() * t["x"][:1].contiguous(),
    "transposed": lambda t: aten.exp(t["x"].transpose(0, 1)),
    "expanded": lambda t: aten.exp(t["w"].expand(3, 4)),
    "no elements": lambda t: t["none"] * 2,
    "channels last": lambda t: t["image"].clone(memory_format=torch.channels_last),
}


def facts(compute: Callable[[dict[str, Tensor]], Tensor]) -> list[Any]:
    """Return shape, strides, dtype and device of a result for two dynamic sizes, and the guards on sizes."""
    dynamic, static = DimDynamic.DYNAMIC, DimDynamic.STATIC
    mode = FakeTensorMode(shape_env=ShapeEnv())

    def fake(tensor: Tensor, *dims: DimDynamic) -> Tensor:  # within the mode, from_tensor makes all sizes static
        return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=list(dims)))

    given = {
        "x": fake(torch.ones(5, 7, 4), dynamic, dynamic, static),
        "w": fake(torch.ones(4), static),
        "one": fake(torch.ones(()), *()),
        "none": fake(torch.ones(5, 0), dynamic, static),
        "image": fake(torch.ones(5, 3, 6, 4), dynamic, static, static, static),
    }
    assert isinstance(given["x"].shape[0], torch.SymInt)
    with mode, torch.no_grad():
        given["whole"] = given["x"].long()
        y = compute(given)
    assert mode.shape_env is not None
    guards = [str(guard.expr) for guard in mode.shape_env.guards]
    return [str(tuple(y.shape)), str(y.stride()), y.storage_offset(), y.dtype, y.device, y.requires_grad, guards]


@pytest.mark.parametrize("name", [*INFERRED, *LEFT])
def test_inferred_as_by_pytorch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    before = elementwise._infer

    def watched(*args: Any) -> Any:
        answers.append(before(*args))
        return answers[-1]

    monkeypatch.setattr(elementwise, "_infer", watched)
    compute = {**INFERRED, **LEFT}[name]
    with in_place(ROWS):
        ours = facts(compute)
    answer = answers[-1] if answers else None
    assert (answer is not None) == (name in INFERRED)
    assert facts(compute) == ours


def test_tensors_of_another_mode_and_wrong_sizes_are_refused_as_before() -> None:
    with in_place(ROWS), FakeTensorMode() as mode:
        x = mode.from_tensor(torch.ones(2, 3))
        with pytest.raises(RuntimeError):
            x + mode.from_tensor(torch.ones(2))
        with FakeTensorMode(), pytest.raises(AssertionError):
            torch.exp(x)


def test_the_operator_confirms_the_shape() -> None:
    """An operator that is not elementwise, although it is said to be, is left to PyTorch."""
    default = torch.get_default_dtype()
    assert elementwise._dtype_of_result(aten.sum.default, default, (2, 3), 1, (), (torch.float32, (2, 3))) is None
    assert elementwise._dtype_of_result(aten.exp.default, default, (2, 3), 1, (), (torch.int64, (2, 3))) == default


@pytest.mark.parametrize("default", [torch.float64, torch.float32, torch.float16])
def test_integers_become_the_default_dtype(default: torch.dtype) -> None:
    """Results are kept from call to call, and the default may change between two captures."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        with in_place(ROWS):
            ours = facts(INFERRED["unary of integers"])
        assert ours == facts(INFERRED["unary of integers"])
    finally:
        torch.set_default_dtype(before)
    assert ours[3] == default
