"""Modules and captures are compared by the operators that they call, whatever views of everything a capture adds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from convert.frontends.pytorch.export.decisions.called_operators import calls_the_same
from torch import Tensor, nn


class Called(nn.Module):
    """A module of a function of one tensor and its weight."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


def exported(module: nn.Module, x: Tensor) -> Callable[..., Tensor]:
    return torch.export.export(module.eval(), (x,)).module()


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "first of each": lambda x, w: x[:, 0] * w,
    "everything": lambda x, w: x[:, :, :] + w,
    "a step over one": lambda x, w: x[:, :, :1][:, :, ::2] + w,
    "detached": lambda x, w: x.detach()[:, 1:] * w,
    "a constant": lambda x, w: x * torch.tensor(2.0) + w,
    "a write to everything": lambda x, w: x.clone()[:].mul_(2) + w,
    "two norms": lambda x, w: nn.functional.layer_norm(nn.functional.layer_norm(x, (4,), w), (4,), w),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_capture_calls_what_its_module_calls(name: str) -> None:
    module, x = Called(FUNCTIONS[name]), torch.ones(2, 3, 4)
    assert calls_the_same(module, exported(module, x), {"x": x}) is True


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda x, w: x[:, 0] * w, lambda x, w: x[:, 1] * w),
        (lambda x, w: x[:, :2].sum(1) * w, lambda x, w: x[:, 1:].sum(1) * w),
        (lambda x, w: x[:, ::2].sum(1) * w, lambda x, w: x[:, :2].sum(1) * w),
        (lambda x, w: x.flip(1) * w, lambda x, w: x * w),
        (lambda x, w: x * w, lambda x, w: x * x),
        (lambda x, w: x.clone().mul_(2) * w, lambda x, w: x.clone().mul_(3) * w),
    ],
)
def test_another_program_calls_others(
    left: Callable[[Tensor, Tensor], Tensor], right: Callable[[Tensor, Tensor], Tensor]
) -> None:
    x = torch.ones(2, 3, 4)
    assert calls_the_same(Called(left), exported(Called(right), x), {"x": x}) is False


def test_a_module_that_needs_content_is_not_judged() -> None:
    module, x = Called(lambda x, w: x * w if x.sum() > 0 else x), torch.ones(2, 3, 4)
    assert calls_the_same(module, module, {"x": x}) is None
