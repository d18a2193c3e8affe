"""TorchScript programs of modules: state, methods, enums, decoders, each at several sizes."""

# ruff: noqa: UP006, UP035, UP045  (the language that is tested is no Python)
from __future__ import annotations

import enum
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from tests.suites.programs.torch_program import f, script


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


@script(state={"calls": lambda m: m.calls, "h": lambda m: m.h})
class Alternates(nn.Module):
    """A buffer that is assigned at every second call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("h", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls % 2 == 0:
            self.h = self.h + x[0]
        return x + self.h


@script(state={"table": lambda m: m.table, "at": lambda m: m.at})
class Ring(nn.Module):
    """Writes at a position that it counts, and starts again at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(2, 3))
        self.at = 0

    def forward(self, x: Tensor) -> Tensor:
        self.table[self.at] = x[-1]
        self.at = self.at + 1
        if self.at == 2:
            self.at = 0
        return x + self.table.sum(0)


@script()
class Enumerated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mode = Mode.MULTIPLY

    def forward(self, x: Tensor) -> Tensor:
        if self.mode == Mode.ADD:
            return x + self.mode.value
        return x * self.mode.value


@script()
class Finals(nn.Module):
    __constants__ = ("count",)

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.count = nn.ModuleList([nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)]), 3
        self.scales = [0.5, 1.5, 2.5]

    def forward(self, x: Tensor) -> Tensor:
        for k, layer in enumerate(self.layers):
            x = layer(x) * self.scales[k]
        for _ in range(self.count):
            x = x + 1
        return x


@script()
class Helpers(nn.Module):
    """Has methods, one of them exported and one ignored, and defaults."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    @torch.jit.export
    def twice(self, x: Tensor, scale: float) -> Tensor:
        return self.fc(x) * scale

    def forward(self, x: Tensor, extra: Optional[Tensor] = None) -> Tensor:
        y = self.twice(x, 2.0) + self.twice(x, scale=0.5)
        return y if extra is None else y + extra


@script()
class TrainsOtherwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return self.drop(x)
        return self.norm(x) * 2


@script()
class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.start = nn.LSTMCell(3, 3), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h, c = self.start.unsqueeze(0), torch.zeros(1, 3)
        for k in range(x.shape[0]):
            h, c = self.cell(x[k : k + 1], (h, c))
        return h, c


@script()
class Greedy(nn.Module):
    """Decodes until a mark or a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(5, 3), nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        state, tokens = x.mean(0), [torch.tensor(1)]
        for _ in range(6):
            state = torch.tanh(state + self.embed(tokens[-1]))
            tokens.append(self.out(state).argmax())
            if int(tokens[-1]) == 0:
                break
        return torch.stack(tokens)


@script()
def forked(x: Tensor) -> Tensor:
    later = torch.jit.fork(torch.sin, x)
    return x + torch.jit.wait(later)


@script()
def checked(x: Tensor) -> Tensor:
    if x.shape[1] != 3:
        raise RuntimeError("three columns are wanted")
    assert x.dim() == 2
    return x * 2


@script()
def without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y + x


@script(*((f(n, n + 3, 4), torch.ones(n + 3, n + 3).triu(k).bool()) for n, k in ((2, 1), (1, 2), (4, 1))))
class MaskedEncoder(nn.Module):
    """Layers that check whether the mask is causal, using the data, before they add it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.layers(x, mask=mask)


# -- interfaces ------------------------------------------------------------------------------------------------------


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@script()
class ByInterface(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([Scaled(), Doubled(), Scaled()])
        self.named = nn.ModuleDict({"a": Scaled(), "b": Doubled()})

    def forward(self, x: Tensor) -> Tensor:
        for k in range(3):
            step: Step = self.steps[k]
            x = step.forward(x)
        for name in ["a", "b"]:
            other: Step = self.named[name]
            x = other.forward(x)
        return x
