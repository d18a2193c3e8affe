"""Module lists that TorchScript indexes at a run-time index."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from convert.errors import BadInput
from tests.support.torchscript_tools import agree, converted, scripted


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        pass


def layers() -> nn.ModuleList:
    return nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), nn.Tanh()])


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = layers()

    def forward(self, x):
        layer: Layer = self.layers[int(x.sum(0)[:3].argmax())]
        return layer.forward(x) + 1


class Rounds(nn.Module):
    """As many steps as there are rows: a Loop whose body uses one of the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = layers()

    def forward(self, x):
        for i in range(x.size(0)):
            layer: Layer = self.layers[i % len(self.layers)]
            x = layer.forward(x) + x[:, :1]
        return x


class Experts(nn.Module):
    """Each row is computed by the expert that its gate selects."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.layers = nn.Linear(4, 3), layers()

    def forward(self, x):
        out = torch.zeros_like(x)
        chosen = self.gate(x).argmax(1)
        for i in range(x.size(0)):
            expert: Layer = self.layers[int(chosen[i])]
            out[i] = expert.forward(x[i : i + 1])[0]
        return out


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + input.sum(0)
        return input * self.seen


class Counters(nn.Module):
    """The layers have states: only the selected layer's state changes, once for each of two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Counter(), Counter(), nn.ReLU()])

    def forward(self, x):
        layer: Layer = self.layers[int(x.sum(0)[:3].argmax())]
        return layer.forward(x) + layer.forward(x)


class Raising(nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        raise ValueError("not here")


class Partial(nn.Module):
    """One of the layers only raises an exception, so the result is that of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Tanh(), Raising(), nn.ReLU()])

    def forward(self, x):
        layer: Layer = self.layers[2 * int(x.sum() > 0)]
        return layer.forward(x)


EACH = [(torch.eye(4)[[k]] - 0.1 * torch.rand(2, 4),) for k in range(3)]
ROWS: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (Router, EACH),
    (Rounds, [(torch.randn(n, 4),) for n in (1, 2, 3, 5)]),
    (Experts, [(torch.randn(n, 4),) for n in (1, 7)]),
    (Partial, [(torch.ones(2, 4),), (-torch.ones(2, 4),)]),
]


@pytest.mark.parametrize(("make", "calls"), ROWS, ids=lambda v: getattr(v, "__name__", ""))
def test_module_that_data_choose(make: Any, calls: list[tuple[Any, ...]]) -> None:
    torch.manual_seed(0)
    program = scripted(make())
    agree(program, converted(program, "x:float32[n,4]"), *calls)


@pytest.mark.parametrize("x", [x for (x,) in EACH])
def test_states_of_modules_that_data_choose(x: torch.Tensor) -> None:
    program = scripted(Counters())
    model = converted(program, "x:float32[n,4]")

    def with_states(x: torch.Tensor, *_: torch.Tensor) -> dict[str, torch.Tensor]:
        y = program(x)
        return {"output": y} | {f"layers_{i}_seen_next": getattr(program.layers, str(i)).seen for i in (0, 1)}

    agree(with_states, model, (x, torch.zeros(4), torch.zeros(4)))


class Past(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = layers()

    def forward(self, x, place: int = -1):
        layer: Layer = self.layers[place]
        return layer.forward(x)


def test_place_that_has_no_module_is_refused() -> None:
    """PyTorch does not count indices from the end here: the program fails, and so does reading it."""
    program = scripted(Past())
    with pytest.raises(RuntimeError, match="field with name '-1'"):
        program(torch.rand(1, 4))
    with pytest.raises(BadInput, match="layers has no module -1"):
        converted(program, "x:float32[n,4]")
