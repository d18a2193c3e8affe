"""Helpers of the PyTorch frontend's tests: read a model, run the graph, compare with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch
from convert.frontends import pytorch as frontend
from torch import nn

from convert.files.sniff import sniff
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source

FACTORY = "fixtures.mnist_model:build"
FILES = ("mnist_cnn.pt", "mnist_cnn_state.pt", "mnist_cnn_checkpoint.pt", "mnist_cnn.safetensors", "mnist_cnn.pt2")


class Calling(nn.Module):
    """A function of tensors, wrapped as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def read(thing: Any, *specs: str, report: Report | None = None, **options: Any) -> ir.Model:
    """Read an object in memory or a file as the shared graph."""
    source = (
        Source(sniff(thing), thing) if isinstance(thing, Path) else Source(str(frontend.claims(thing)), model=thing)
    )
    chosen = Options(inputs=tuple(map(parse_input, specs)), **options)
    return frontend.read(source, chosen, report or Report("convert"))


def run(model: ir.Model, *arrays: Any) -> list[np.ndarray]:
    """Return onnxruntime's outputs of the graph for arrays in the order of its inputs."""
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    names = [i.name for i in session.get_inputs()]
    assert len(names) == len(arrays)
    return session.run(None, dict(zip(names, map(np.asarray, arrays), strict=True)))


def agrees(module: Callable[..., Any], model: ir.Model, *arrays: Any) -> None:
    """Assert that the outputs of graph and module are equal."""
    with torch.no_grad():
        want = module(*(torch.from_numpy(np.array(a)) for a in arrays))
    want = list(want.values()) if isinstance(want, dict) else list(want) if isinstance(want, (list, tuple)) else [want]
    got = run(model, *arrays)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.numpy().dtype
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-5)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def shape_of(value: ir.Value) -> list[Any]:
    assert value.shape is not None
    return [d if isinstance(d, int) else d.value for d in value.shape]


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


class Call:
    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call
