"""Exported programs with inputs or outputs of classes that only their own library registers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch.fx import _pytree as fx_pytree
from torch.utils import _pytree as pytree

import convert

Context = Callable[[list[str]], Any]

CONTEXTS: dict[str, tuple[Context, list[str]]] = {
    "keys": (lambda names: names, ["low", "high"]),
    "fields": (lambda names: [names, ["missing"]], ["low", "high"]),
    "nothing": (lambda names: None, ["output_0", "output_1"]),
    "other_names": (lambda names: [*names, "more"], ["output_0", "output_1"]),
    "settings": (lambda names: {"names": names}, ["output_0", "output_1"]),
}
"""The context that a class stores in a file, and the names of the outputs that follow from it."""


def a_class(name: str, context: Context) -> type[Any]:
    """Return a class with two parts, registered as libraries do."""

    class Parts:
        def __init__(self, low: Any, high: Any) -> None:
            self.low, self.high = low, high

    pytree.register_pytree_node(
        Parts,
        lambda parts: ([parts.low, parts.high], context(["low", "high"])),
        lambda parts, _: Parts(*parts),
        serialized_type_name=name,
        flatten_with_keys_fn=lambda parts: (
            [(pytree.GetAttrKey("low"), parts.low), (pytree.GetAttrKey("high"), parts.high)],
            context(["low", "high"]),
        ),
    )
    fx_pytree.register_pytree_flatten_spec(Parts, lambda parts, spec: [parts.low, parts.high])
    return Parts


def saved(module: torch.nn.Module, args: tuple[Any, ...], name: str, path: Path) -> Path:
    """Return a program in a file whose class is no longer registered, as in another process."""
    program = torch.export.export(module, args)
    program.example_inputs = None  # they are a pickle, which is read only with --trust if it holds other classes
    torch.export.save(program, path)
    del pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONTEXTS)
def test_outputs(kind: str, tmp_path: Path) -> None:
    context, names = CONTEXTS[kind]
    parts = a_class(f"a_library.{kind}", context)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return parts(x.amin(1), x.amax(1))

    x = torch.randn(3, 4)
    path = saved(Model(), (x,), f"a_library.{kind}", tmp_path / "m.pt2")
    report = convert.convert(path, "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [output.name for output in session.get_outputs()] == names
    found = session.run(None, {"x": x.numpy()})
    assert [f.tolist() for f in found] == [x.amin(1).tolist(), x.amax(1).tolist()]
    assert f"a_library.{kind}" not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, "the library can register it yet"


def test_inputs(tmp_path: Path) -> None:
    parts = a_class("a_library.Inputs", lambda names: names)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, state: Any) -> torch.Tensor:
            return x @ state.low + state.high

    given = torch.randn(2, 3), torch.randn(3, 4), torch.randn(4)
    path = saved(Model(), (given[0], parts(*given[1:])), "a_library.Inputs", tmp_path / "m.pt2")
    report = convert.convert(path, "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [i.name for i in session.get_inputs()] == ["x", "state_low", "state_high"]
    feed = dict(zip(("x", "state_low", "state_high"), (t.numpy() for t in given), strict=True))
    want = (given[0] @ given[1] + given[2]).numpy()
    np.testing.assert_allclose(session.run(None, feed)[0], want, rtol=1e-5, atol=1e-6)
