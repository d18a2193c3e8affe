"""Shared parts of the zoo's tables: entries, input specs, and random weights that outputs depend on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.timm_helper import calibrated, declare_torchvision_operators

TARGETS = ("onnx", "tf")


@dataclass(frozen=True)
class Built:
    """A model in eval mode with the input specs for `convert`; `options` are further options of `convert`."""

    module: Any
    inputs: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One model of the zoo: `build` makes it, seeded. `gaps` are the targets that must fail, each with the reason."""

    name: str
    family: str
    build: Callable[[], Built]
    gaps: Mapping[str, str] = field(default_factory=dict)


def entries() -> dict[str, Entry]:
    """Return every model by name, family after family."""
    declare_torchvision_operators()
    import zoo_dense
    import zoo_sequence
    import zoo_text
    import zoo_timm
    import zoo_vision

    found: dict[str, Entry] = {}
    for table in (zoo_timm, zoo_text, zoo_vision, zoo_dense, zoo_sequence):
        for entry in table.ENTRIES:
            if entry.name in found:
                raise ValueError(f"two models are called {entry.name}")
            found[entry.name] = entry
    return found


def images(size: int, channels: int = 3, batch: int = 8) -> torch.Tensor:
    """Return images of the two distributions that `convert verify` samples, normal and uniform."""
    generator = torch.Generator().manual_seed(2)
    shape = (batch // 2, channels, size, size)
    return torch.cat([draw(shape, generator=generator) for draw in (torch.randn, torch.rand)])


def pictures(module: nn.Module, size: int, channels: int = 3, batch: int = 8) -> Built:
    """Return a model of square images, with batch norms calibrated on some of them."""
    return Built(calibrated(module, images(size, channels, batch)), f"x:float32[batch,{channels},{size},{size}]")


def stirred(module: nn.Module, amount: float = 0.1) -> nn.Module:
    """Return `module` in eval mode with noise on every parameter.

    Random transformers start with weights of 0.02, so that attention is uniform and the output hardly depends on the
    input.
    """
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point():
                parameter.add_(amount * torch.randn(parameter.shape, generator=generator))
    return module.eval()
