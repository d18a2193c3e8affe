"""A release of PyTorch that was not tried: what the user is told, and what a missing private name leads to."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from convert.frontends.pytorch import releases
from convert.frontends.pytorch.export import capture
from convert.frontends.pytorch.export.patches import masks, pools, stack_frames
from torch import nn
from torch.fx.experimental import proxy_tensor

import convert
from convert.errors import Unsupported


def notes_about_releases(**options: Any) -> list[str]:
    report = convert.inspect(nn.ReLU(), inputs="float32[n,4]", **options)
    return [note for note in report.notes if "not tested with PyTorch" in note]


def test_a_release_that_was_not_tried_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(releases, "RELEASE", (2, 99))
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    (note,) = notes_about_releases()
    assert note == ("this converter was not tested with PyTorch 2.99.0 (but with 2.13, 2.14): rely on the verification")
    report = convert.convert(nn.ReLU(), "onnx", tmp_path / "m.onnx", inputs="float32[n,4]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert note in report.notes


@pytest.mark.parametrize("release", releases.TRIED)
def test_a_release_that_was_tried_is_not(release: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "RELEASE", release)
    assert notes_about_releases() == []


@pytest.mark.parametrize(
    ("version", "release"),
    [("2.13.0+cpu", (2, 13)), ("2.14.1", (2, 14)), ("2.15.0a0+git1f3", (2, 15)), ("3.0.0.dev20270101", (3, 0))],
)
def test_numbers_of_a_release(version: str, release: tuple[int, int]) -> None:
    assert releases._parsed(version) == release


class Layers(nn.Module):
    """What patches that save time are for, and one that is needed: a transformer's layer with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.layer(x, mask)


INPUTS = (torch.ones(2, 3, 8), torch.zeros(3, 3))


@contextmanager
def without(holder: Any, name: str) -> Iterator[None]:
    """Inside, a module lacks a name, as another release may."""
    kept = getattr(holder, name)
    delattr(holder, name)
    try:
        yield
    finally:
        setattr(holder, name, kept)


@pytest.mark.parametrize(
    ("holder", "name"),
    [(proxy_tensor, "_extract_tensor_metadata"), (torch.fx.proxy.TracerBase, "_filter_traceback_frames")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_name_that_only_saves_time_may_be_missing(holder: Any, name: str) -> None:
    """The patches find it missing; PyTorch itself, which would call it, has it."""
    module = Layers().eval()
    patch = {"_extract_tensor_metadata": "infer_layer_shapes", "_filter_traceback_frames": "short_stacks"}[name]
    original = getattr(capture, patch)

    @contextmanager
    def lacking() -> Iterator[None]:
        with without(holder, name), original():
            yield

    with mock.patch.object(capture, patch, lacking):
        report = convert.inspect(module, inputs=INPUTS)
    assert [tensor.shape for tensor in report.outputs] == [("batch", 3, 8)]


def test_a_name_that_is_needed_is_told_with_the_release() -> None:
    with without(masks.transformer, "_detect_is_causal_mask"), pytest.raises(Unsupported) as error:
        convert.inspect(Layers().eval(), inputs=INPUTS)
    assert f"does not know PyTorch {torch.__version__}" in error.value.message
    assert "_detect_is_causal_mask" in error.value.message
    assert "2.13, 2.14" in (error.value.hint or "")


def test_a_name_that_is_missing_when_it_is_imported_is_told_with_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    own, plain = "convert.frontends.pytorch.reader", builtins.__import__

    def lacking(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "reader":
            raise ImportError("cannot import name '_x' from 'torch._y'", name="torch._y")
        return plain(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, own)
    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(Unsupported, match=r"does not know PyTorch .* cannot import name '_x'"):
        convert.inspect(nn.ReLU(), inputs="float32[n,4]")


def test_patches_are_undone_where_one_is_refused() -> None:
    before = pools.F.max_pool1d, stack_frames.torch.fx.proxy.CapturedTraceback
    with without(masks.transformer, "_detect_is_causal_mask"), pytest.raises(Unsupported):
        convert.inspect(Layers().eval(), inputs=INPUTS)
    assert before == (pools.F.max_pool1d, stack_frames.torch.fx.proxy.CapturedTraceback)
