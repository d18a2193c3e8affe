"""Dims that the user did not declare dynamic become static only if nothing else works, with a note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.export.capture.export_module import _capture_call
from convert.frontends.pytorch.inputs.examples import DynamicDim, Example
from torch import nn

from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.given_inputs import make_options
from convert.request.source import Source
from tests.support.pytorch_tools import Calling, run


def read(function: Callable[..., Any], inputs: Any) -> tuple[ir.Model, list[str]]:
    report = Report("convert")
    module = Calling(function).eval()
    model = frontend.read(Source("torch-module-object", model=module), make_options(inputs, {}), report)
    return model, report.notes


def shapes(model: ir.Model) -> list[list[Any]]:
    return [[d if isinstance(d, int) else str(d) for d in v.shape or ()] for v in model.graph.inputs]


def test_a_factorization_makes_the_example_s_length_static() -> None:
    x = torch.randn(5, 3)
    model, notes = read(lambda x: torch.linalg.qr(x)[1].abs(), [x])
    assert shapes(model) == [[5, 3]]
    assert [n for n in notes if "the dim batch of tensors_0 is fixed at 5" in n and "linalg_qr" in n]
    np.testing.assert_allclose(run(model, x.numpy())[0], torch.linalg.qr(x)[1].abs(), rtol=1e-4, atol=1e-5)


def test_only_the_input_that_needs_it_is_static() -> None:
    x, y = torch.randn(5, 3), torch.randn(5, 4)
    model, notes = read(lambda x, y: (x * 2, torch.linalg.svdvals(y)), [x, y])
    assert shapes(model) == [["batch", 3], [5, 4]]
    assert sum("is fixed at" in n for n in notes) == 1
    many = torch.randn(9, 3)
    got = run(model, many.numpy(), y.numpy())
    np.testing.assert_allclose(got[0], many * 2)
    np.testing.assert_allclose(got[1], torch.linalg.svdvals(y), rtol=1e-4, atol=1e-5)


def test_a_batch_of_1_that_cannot_be_longer_stays_1() -> None:
    x, weight = torch.randn(1, 3, 3), torch.randn(1, 3, 3)
    model, notes = read(lambda x, w: nn.functional.layer_norm(x, (1, 3, 3), w), [x, weight])
    assert shapes(model)[0] == [1, 3, 3]
    assert "forward does not run with another length" in " ".join(notes)
    want = nn.functional.layer_norm(x, (1, 3, 3), weight)
    np.testing.assert_allclose(run(model, x.numpy(), weight.numpy())[0], want, rtol=1e-4, atol=1e-5)


def test_a_dim_that_the_user_asks_for_stays_an_error() -> None:
    with pytest.raises(Unsupported, match="unknown size"):
        read(lambda x: torch.linalg.qr(x)[1], ["float32[n,3]"])


def _add_to_every_other(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    every_other = y[::2]
    every_other += 1
    return y


def _set_every_other(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[::2] += 1
    return y


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [["float32[n,3]"], [torch.randn(2, 3)]], ids=["asked", "of an example"])
@pytest.mark.parametrize("function", [_add_to_every_other, _set_every_other])
def test_an_example_of_two_rows_does_not_fix_the_dim(function: Callable[..., Any], inputs: Any) -> None:
    """PyTorch writes a special program for one row, during capture or when it makes writes explicit."""
    model, notes = read(function, inputs)
    assert isinstance(shapes(model)[0][0], str)
    assert not any("is fixed at" in n for n in notes)
    for rows in (1, 2, 5):
        x = torch.randn(rows, 3)
        np.testing.assert_allclose(run(model, x.numpy())[0], function(x), rtol=1e-5)


def test_an_operator_without_a_rule_is_not_tried_again() -> None:
    with pytest.raises(Unsupported) as caught:
        read(lambda x: torch.hash_tensor(x), [torch.randn(4, 3)])
    assert "fixed" not in str(caught.value)


INPUTS: dict[str, tuple[Callable[..., Any], list[torch.Tensor], list[list[Any]]]] = {
    "nodes and edges": (
        lambda x, edges: torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]),
        [torch.randn(5, 3), torch.randint(0, 5, (2, 9))],
        [["batch", 3], [2, "tensors_1_1"]],
    ),
    "as many nodes as edges, with weights": (
        lambda x, edges, w: torch.zeros_like(x).index_add(0, edges[1], x[edges[0]] * w[:, None]),
        [torch.randn(9, 3), torch.randint(0, 9, (2, 9)), torch.randn(9)],
        [["batch", 3], [2, "tensors_1_1"], ["tensors_1_1"]],
    ),
    "rows by number": (
        lambda x, rows: x[rows],
        [torch.randn(5, 3), torch.randint(0, 5, (4,))],
        [["batch", 3], ["tensors_1_0"]],
    ),
    "a state that has the batch second": (
        lambda x, h: x + h[0],
        [torch.randn(4, 3), torch.randn(1, 4, 3)],
        [["batch", 3], [1, "batch", 3]],
    ),
    "another matrix": (lambda x, w: x @ w, [torch.randn(4, 3), torch.randn(3, 2)], [["batch", 3], [3, 2]]),
    "vectors": (lambda x: x * 2, [torch.randn(7)], [["batch"]]),
}


@pytest.mark.parametrize("scripted", [False, True], ids=["captured", "TorchScript"])
@pytest.mark.parametrize("name", INPUTS)
def test_a_first_dim_is_dynamic_or_a_note_says_which_is_not(name: str, scripted: bool) -> None:
    function, tensors, wanted = INPUTS[name]
    report = Report("convert")
    module: Any = Calling(function).eval()
    if scripted:
        module = torch.jit.trace(module, tuple(tensors), check_trace=False)
    source = Source("torchscript-object" if scripted else "torch-module-object", model=module)
    model = frontend.read(source, make_options(tensors, {}), report)
    if not scripted:
        assert shapes(model) == wanted
    for value, shape in zip(model.graph.inputs, shapes(model), strict=True):
        if isinstance(shape[0], int):
            assert any(f"the dim 0 of {value.name} is fixed at {shape[0]}" in n for n in report.notes) or any(
                f"the batch is {shape[0]}," in n for n in report.notes
            )
    for got, tensor in zip(run(model, *(t.numpy() for t in tensors)), [function(*tensors)], strict=True):
        np.testing.assert_allclose(got, tensor, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inputs", [None, (), {}], ids=["none", "tuple", "dict"])
def test_a_model_may_have_no_inputs(inputs: Any) -> None:
    class Constant(nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.arange(5) * 2

    model = frontend.read(Source("torch-module-object", model=Constant()), make_options(inputs, {}), Report("convert"))
    assert shapes(model) == []
    np.testing.assert_array_equal(run(model)[0], np.arange(5) * 2)


# -- operators along lengths that are not known ------------------------------------------------------------------------

ALONG: dict[str, Callable[[torch.Tensor], Any]] = {
    "cumprod": lambda x: torch.cumprod(x, 0),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 0),
    "cummax": lambda x: torch.cummax(x, 0),
    "cummin": lambda x: torch.cummin(x, 0),
    "roll by 3": lambda x: torch.roll(x, 3, 0),
    "roll back by 4, flat": lambda x: torch.roll(x, -4),
    "fftshift": lambda x: torch.fft.fftshift(x),
    "ifftshift": lambda x: torch.fft.ifftshift(x),
}


@pytest.mark.parametrize("name", ALONG)
def test_lengths_need_not_be_known(name: str) -> None:
    function = ALONG[name]
    model, _ = read(function, ["float32[length,3]"])
    assert shapes(model) == [["length", 3]]
    for length in (1, 2, 7, 16):
        x = torch.randn(length, 3)
        want = function(x)
        for got, expected in zip(run(model, x.numpy()), want if isinstance(want, Sequence) else [want], strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def in_blocks_of_eight(x: torch.Tensor) -> torch.Tensor:
    """A module with weights for a fixed number of blocks, as in random attention."""
    if x.shape[0] % 8 or x.shape[0] // 8 != 12:
        raise ValueError("not twelve blocks")
    return x.reshape(-1, 8, 3).sum(1) * torch.arange(12.0)[:, None]


def test_one_length_beyond_64_is_a_fixed_one() -> None:
    x = torch.randn(96, 3)
    model, notes = read(in_blocks_of_eight, [x])
    assert shapes(model) == [[96, 3]]
    assert [n for n in notes if "is fixed at 96: forward is written for one size" in n]
    np.testing.assert_allclose(run(model, x.numpy())[0], in_blocks_of_eight(x), rtol=1e-5)


def test_a_dim_that_a_configuration_asks_for_is_fixed_where_one_length_does() -> None:
    dynamic_dims = {0: DynamicDim("sequence", asked=True, assumed=True)}
    module = Calling(in_blocks_of_eight).eval()
    done = _capture_call(module, {"tensors_0": Example(torch.randn(96, 3), dynamic_dims)}, Report("convert"), [])
    assert not done.call["tensors_0"].dynamic_dims
