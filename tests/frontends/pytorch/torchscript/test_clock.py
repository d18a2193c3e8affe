"""A program whose loops never end is stopped, also inside the user's program; others give their results."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.torchscript.clock import OUT_OF_TIME, run_with_clock
from torch import nn

import convert
from convert import limits
from convert.errors import ResourceLimit


class Inner(nn.Module):
    def forward(self, x: torch.Tensor, rounds: int = 3) -> torch.Tensor:
        for _ in range(rounds):
            k = 0
            while k < 2:
                x = x * 0.5 + 1
                k += 1
        return x


class Outer(nn.Module):
    """Calls a method with loops; returns a tuple and keeps a count."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.inner = Inner()

    def forward(self, x: torch.Tensor, scale: float = 2.0, rounds: int = 4) -> tuple[torch.Tensor, int]:
        return self.layer(self.inner(x, rounds)) * scale, rounds


class Endless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool((x == x).all()):
            x = x * 1.0
        return self.layer(x)


class Long(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(1 << 60):
            x = x * 1.0
        return self.layer(x)


class Renamed(nn.Module):
    """Calls itself otherwise than `self`."""

    def forward(me, x: torch.Tensor, rounds: int = 3) -> torch.Tensor:
        for _ in range(rounds):
            x = x * 2
        return x


def test_a_module_may_be_called_otherwise_than_self() -> None:
    module, x = torch.jit.script(Renamed().eval()), torch.randn(2, 3)
    torch.testing.assert_close(run_with_clock(module, (x,), {}, 60), x * 8)


@pytest.mark.parametrize("named", [{}, {"scale": 3.0}, {"rounds": 1}, {"scale": 0.5, "rounds": 2}])
def test_what_ends_gives_what_it_gave(named: dict[str, Any]) -> None:
    module, x = torch.jit.script(Outer().eval()), torch.randn(2, 3)
    wanted, rounds = module(x, **named)
    before = str(module.inlined_graph)
    found = run_with_clock(module, (x,), named, 60)
    assert torch.equal(found[0], wanted)
    assert found[1] == rounds
    assert torch.equal(run_with_clock(module, (), {"x": x, **named}, 60)[0], wanted)
    assert str(module.inlined_graph) == before


def test_a_function_has_a_clock_too() -> None:
    def count(x: torch.Tensor) -> torch.Tensor:
        while bool(x.sum() < 10):
            x = x + 1
        return x

    function = torch.jit.script(count)
    assert torch.equal(run_with_clock(function, (torch.zeros(2),), {}, 60), torch.full((2,), 5.0))
    with pytest.raises(RuntimeError, match=OUT_OF_TIME):
        run_with_clock(function, (torch.full((2,), -torch.inf),), {}, 0.2)


@pytest.mark.parametrize("inputs", [None, "x:float32[2,3]", {"x": np.ones((2, 3), np.float32)}])
@pytest.mark.parametrize("kind", [Endless, Long])
def test_a_file_without_end_is_a_limit_that_was_passed(
    kind: type[nn.Module], inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TORCHSCRIPT_RUN_SECONDS", 0.2)
    torch.jit.script(kind().eval()).save(tmp_path / "m.pt")
    waiting = threading.Event()
    other = threading.Thread(target=waiting.wait)  # so that other threads run in this process too
    other.start()
    began = time.monotonic()
    try:
        with pytest.raises(ResourceLimit, match=r"ran for more than 0\.2 s on an example"):
            convert.convert(tmp_path / "m.pt", "onnx", tmp_path / "m.onnx", verify=False, inputs=inputs)
    finally:
        waiting.set()
        other.join()
    assert time.monotonic() - began < 20
