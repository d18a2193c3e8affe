"""TorchScript programs that query values: types, strides, lists with run-time numbers, names, hooks, views."""

# ruff: noqa: UP006, UP007, UP035, UP045, SIM300, SIM905  (the language that is tested is no Python)
from __future__ import annotations

import math
from typing import Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from tests.suites.programs.torch_program import SCRIPTS, f, program, script

NAN = f(4, 3).index_fill(0, torch.tensor([1]), math.nan)


@script(f(4, 3), NAN, f(4, 3) / torch.zeros(4, 3))
def asked_for_nan(x: Tensor) -> Tensor:
    total = float(x.sum())
    if math.isnan(total):
        return x * 0 + 1
    return x + 1 if math.isinf(total) or not math.isfinite(total) else x * math.fabs(total)


@script()
def any_and_all(x: Tensor) -> Tensor:
    n, m = x.size(0), x.size(1)
    y = x * 2 if any([n > 4, m > 3]) else x
    return y + 1 if all([n > 1, m > 1]) else y - 1


@script()
def in_known_numbers(x: Tensor) -> Tensor:
    y = x * 2 if x.size(0) in [1, 4] else x
    return y + [7, 1, 7].count(x.size(0))


@script()
def grown_beside_known(x: Tensor) -> Tensor:
    grown: List[int] = []
    for k in range(x.size(0)):
        grown.append(k)
    y = x * 2 if grown == [0, 1, 2, 3] else x
    return y + 1 if [0] != grown else y - 1


@script()
def split_at_blanks(x: Tensor) -> Tensor:
    return x * len(" a  b c ".split()) + len("a,b,c".split(",", 1))


@script()
def item_of_double(x: Tensor) -> Tensor:
    t = x.double().sum()
    ids = torch.arange(x.size(0))
    if float(t) > 1e9:
        ids = ids + 1
    return ids * t


@script()
def narrowed_from_the_end(x: Tensor) -> Tensor:
    y = x * 2
    y.narrow(1, -1, 1).fill_(7.0)
    y.narrow(1, -2, 2).add_(1.0)
    y.narrow(1, -3, 2).mul_(3.0)
    return y


@script()
def written_unsafe_pieces(x: Tensor) -> Tensor:
    y = x.repeat(1, 2)
    a, b = torch.unsafe_chunk(y, 2, 1)
    a.add_(1)
    torch.unsafe_split(y, 4, 1)[1].mul_(2)
    torch.unsafe_split_with_sizes(y, [1, 5], 1)[0].neg_()
    return y + b.sum()


@script()
def contiguous_or_not(x: Tensor) -> Tensor:
    y = x.t()
    if not y.is_contiguous():
        y = y.contiguous()
    return y.view(-1) * (2 if x.is_contiguous() else 3)


@script(f(4, 3), -f(4, 3), torch.ones(4, 3))
def kind_of_optional(x: Tensor) -> Tensor:
    y: Optional[Tensor] = None
    if bool(x.sum() > 0):
        y = x * 2
    if isinstance(y, Tensor):
        return y + 1
    return x


def _kind_of(v: Union[List[int], List[float], Dict[str, int], Dict[str, float]]) -> int:
    if torch.jit.isinstance(v, List[int]):
        return 1
    if torch.jit.isinstance(v, Dict[str, int]):
        return 2
    return 3 if torch.jit.isinstance(v, List[float]) else 4


@script()
def kind_of_lists(x: Tensor) -> Tensor:
    kinds = [_kind_of([1.0]), _kind_of([1]), _kind_of({"a": 1}), _kind_of({"a": 1.0})]
    return x * torch.tensor(kinds[:3]) + kinds[3]


@script()
class AsksForGradients(nn.Module):
    """A buffer never requires gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.ones(3)
        return x * 2 if self.b.requires_grad or y.requires_grad else x + self.b


class Names(nn.Module):
    """An argument whose name is a prefix of another's, and that has a default."""

    def forward(self, x: Tensor, scale_bias: Tensor, scale: Optional[Tensor] = None, scale_b: float = 2.0) -> Tensor:
        return (x if scale is None else x * scale) * scale_b + scale_bias


script((f(4, 3), f(3)), (f(2, 3), f(3, seed=1)))(Names)


def _before(self, input: Tuple[Tensor]) -> Tuple[Tensor]:  # type: ignore[no-untyped-def]
    return (input[0] * 3,)


def _after(self, input: Tuple[Tensor], output: Tensor):  # type: ignore[no-untyped-def]
    return output + input[0]


class _Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2


def _hooked() -> nn.Module:
    module = _Halved()
    module.register_forward_pre_hook(_before)
    module.register_forward_hook(_after)
    return module


SCRIPTS.append(program("hooked", _hooked, f(4, 3), f(2, 3), factory=True, script=True))
