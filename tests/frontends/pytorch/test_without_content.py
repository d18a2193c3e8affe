"""Modules run on tensors without content, and equal calls of an operator run once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from convert.frontends.pytorch.common.without_content import WithoutContent


class Listed(WithoutContent):
    """Keeps what operators returned."""

    def __init__(self, forms: dict[Any, Any] | None = None) -> None:
        super().__init__(forms)
        self.results: list[tuple[str, Any]] = []

    def called(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        self.results.append((str(func), result))


class Forgetful(dict[Any, Any]):
    """Holds nothing, so that each operator runs each time."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def described(results: list[tuple[str, Any]]) -> list[Any]:
    """Return operators with the shapes, strides and dtypes of their results."""
    found = []
    for name, result in results:
        tensors = result if isinstance(result, (tuple, list)) else [result]
        found.append((name, type(result), [(t.shape, t.stride(), t.dtype, t.device.type) for t in tensors]))
    return found


def two_layers(x: torch.Tensor) -> None:
    """Apply operators that return new tensors, views and pairs, and that write, each twice."""
    weight, norm = torch.ones(3, 3, 3, 3), torch.ones(3)
    for _ in range(2):
        x = torch.nn.functional.conv2d(x, weight, padding=1)
        x = torch.nn.functional.batch_norm(x, norm, norm, norm, norm)
        first, second = x.transpose(2, 3).chunk(2, dim=2)
        x = torch.cat([first, second], 2).relu_().to(torch.float64).float().transpose(2, 3)
        x = x + torch.topk(x, 2, dim=1)[0].sum(1, keepdim=True) + torch.arange(6, dtype=x.dtype)


@pytest.mark.parametrize("size", [6, 8])
def test_repeated_calls_return_what_the_operator_returns(size: int) -> None:
    x = torch.empty(2, 3, size, 6, device="meta")
    forms: dict[Any, Any] = {}
    runs = []
    for kept in (forms, forms, Forgetful()):
        with Listed(kept) as run:
            two_layers(x)
        runs.append(described(run.results))
    assert runs[0] == runs[1] == runs[2]


def test_an_operator_runs_once_for_each_form() -> None:
    calls = []

    @torch.library.custom_op("convert_tests::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @counted.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        calls.append((list(x.shape), x.dtype, x.stride(0)))
        return torch.empty_like(x)

    with WithoutContent():
        for size in (2, 3, 2, 2):
            counted(torch.empty(size))
        counted(torch.empty(2, dtype=torch.float64))
        counted(torch.empty(4)[::2])
    assert calls == [([2], torch.float32, 1), ([3], torch.float32, 1), ([2], torch.float64, 1), ([2], torch.float32, 2)]


def test_a_view_is_a_view_of_its_argument_each_time() -> None:
    x = torch.empty(2, 3, device="meta")
    with WithoutContent():
        views = [x.t() for _ in range(2)]
    assert all(view._base is x for view in views)


def test_an_operator_that_needs_content_raises_each_time() -> None:
    with WithoutContent():
        for _ in range(2):
            with pytest.raises((RuntimeError, NotImplementedError)):
                torch.empty(2).nonzero()
