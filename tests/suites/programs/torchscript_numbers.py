"""TorchScript programs with Python numbers that are known at run time only: lists, math, shifts, quotients."""

# ruff: noqa: UP006, UP035  (the language that is tested is no Python)
from __future__ import annotations

import math
from typing import List

from torch import Tensor

from tests.suites.programs.torch_program import script


@script()
def sum_of_lengths(x: Tensor) -> Tensor:
    found: List[int] = []
    for k in range(x.size(0)):
        found.append(k * k)
    return x * sum(found)


@script()
def sum_of_floats(x: Tensor) -> Tensor:
    found: List[float] = []
    for k in range(x.size(0)):
        found.append(float(x[k].sum()))
    return x * sum(found) + sum([float(x.sum()), 2.0])


@script()
def sorted_lengths(x: Tensor) -> Tensor:
    found: List[int] = []
    for k in range(x.size(0)):
        found.append((k * 7) % 5)
    up, down = sorted(found), sorted(found)
    down.reverse()
    return x * up[0] + up[-1] + down[0] * 3


@script()
def sorted_in_place(x: Tensor) -> Tensor:
    found: List[float] = []
    for k in range(x.size(0)):
        found.append(float(x[k].sum()))
    found.sort()
    few = [x.size(0), 3, len(found) * 2]
    few.sort(reverse=True)
    return x * found[0] + found[-1] * few[0] - few[2]


@script()
def counted(x: Tensor) -> Tensor:
    found: List[int] = []
    for k in range(x.size(0)):
        found.append(k % 2)
    y = x * found.count(1)
    if 3 in [x.size(0), 2, x.size(0) - 1]:
        y = y + 1
    return y


@script()
def extremes(x: Tensor) -> Tensor:
    found: List[int] = []
    for k in range(x.size(0)):
        found.append((k * 7) % 5)
    return x * max(found) + min(found)


@script()
def shifted(x: Tensor) -> Tensor:
    n = x.size(0)
    return x * float((n << 2) + (37 >> n) + (-9 >> 1))


@script()
def quotients(x: Tensor) -> Tensor:
    a, b = divmod(x.size(0) * 5, 3)
    c, d = divmod(-float(x.size(0)) * 5.5, 2.5)
    return x * a + b + c - d


@script()
def angles(x: Tensor) -> Tensor:
    n = float(x.size(0))
    y = math.atan2(n, 2.0) + math.atan2(-n, -2.0) + math.atan(n) + math.asin(1 / (n + 1)) + math.acos(-1 / (n + 1))
    return x * (y + math.atan2(1e-200 * n, 1e-200) + math.atan2(0.0, -n))


@script()
def functions(x: Tensor) -> Tensor:
    n = float(x.size(0))
    y = math.log10(n + 1) + math.tan(n) + math.sin(n) + math.cos(n) + math.tanh(n)
    return x * (y + math.copysign(n, -1.0) + math.degrees(n) + math.radians(n))


@script()
def logarithms(x: Tensor) -> Tensor:
    n = float(x.size(0) + 1)
    return x * (math.log(n) + math.log(n, 2.0) + math.log(8.0, n))
