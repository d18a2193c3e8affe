"""Programs that torch.export accepts only with help: contractions, indices, outputs of classes, compiled modules."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.inputs.output_names import named_outputs
from torch import nn
from torch.utils import _pytree as pytree

import convert
from convert.outcome.report import Report
from convert.request.given_inputs import make_options
from convert.request.source import Source
from tests.support.pytorch_tools import Calling, run

r = torch.randn


PROGRAMS: dict[str, tuple[Callable[..., Any], list[str], list[tuple[torch.Tensor, ...]]]] = {
    "einsum of three": (
        lambda x, w, v: torch.einsum("bij,jk,bkl->bil", x, w, v),
        ["float32[b,3,4]", "float32[4,5]", "float32[b,5,6]"],
        [(r(2, 3, 4), r(4, 5), r(2, 5, 6)), (r(7, 3, 4), r(4, 5), r(7, 5, 6))],
    ),
    "take_along_dim": (
        lambda x: torch.take_along_dim(x, x.argsort(1), 1),
        ["float32[b,5]"],
        [(r(3, 5),), (r(1, 5),)],
    ),
    "take_along_dim, broadcast": (
        lambda x, i: x.take_along_dim(i, 1),
        ["float32[b,5,4]", "int64[b,2,1]"],
        [(r(n, 5, 4), torch.arange(2 * n).reshape(n, 2, 1) % 5) for n in (1, 4)],
    ),
    "take_along_dim, flat": (
        lambda x: torch.take_along_dim(x, x.flatten().argsort()),
        ["float32[b,5]"],
        [(r(3, 5),), (r(1, 5),)],
    ),
    "slice from before the first": (lambda x: x[-(2**62) :] * 2, ["float32[b,5]"], [(r(3, 5),), (r(1, 5),)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_capture_holds_for_every_size(name: str) -> None:
    function, specs, calls = PROGRAMS[name]
    source = Source("torch-module-object", model=Calling(function))
    model = frontend.read(source, make_options(specs, {}), Report("convert"))
    for tensors in calls:
        (got,) = run(model, *(t.numpy() for t in tensors))
        np.testing.assert_allclose(got, function(*tensors), rtol=1e-5, atol=1e-5)


# -- outputs of classes ------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Pair:
    y: torch.Tensor
    rest: list[torch.Tensor]
    none: torch.Tensor | None = None


class Held:
    """An object that is no container: its tensors are outputs, its settings are not."""

    def __init__(self, y: torch.Tensor) -> None:
        self.mean, self.deterministic, self._cache = y, True, y


class Unkeyed(OrderedDict[str, Any]):
    """Registered as diffusers registers its outputs: without the keys of its content."""


pytree.register_pytree_node(
    Unkeyed,
    lambda value: (list(value.values()), list(value)),
    lambda values, keys: Unkeyed(zip(keys, values, strict=True)),
    serialized_type_name="tests.Unkeyed",
)

RESULTS: dict[str, tuple[Callable[[torch.Tensor], Any], list[str]]] = {
    "dataclass": (lambda x: Pair(x + 1, [x * 2, x * 3]), ["y", "rest.0", "rest.1"]),
    "object": (lambda x: Held(x + 1), ["mean"]),
    "mapping without keys": (lambda x: Unkeyed(a=x + 1, b=x * 2), ["a", "b"]),
    "nested": (lambda x: {"one": Unkeyed(a=x + 1), "two": Pair(x * 2, [])}, ["one.a", "two.y"]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_outputs_of_classes_are_named_by_what_they_hold(name: str) -> None:
    function, names = RESULTS[name]
    source = Source("torch-module-object", model=Calling(function))
    model = frontend.read(source, make_options(["float32[b,3]"], {}), Report("convert"))
    x = r(2, 3)
    want = named_outputs(function(x))
    assert [v.name for v in model.graph.outputs] == names == list(want)
    for got, expected in zip(run(model, x.numpy()), want.values(), strict=True):
        np.testing.assert_array_equal(got, expected)


# -- modules and examples ----------------------------------------------------------------------------------------------


class Named(nn.Module):
    def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return image * mask


@pytest.mark.slow
def test_a_compiled_module_has_the_names_of_its_own() -> None:
    compiled = torch.compile(Named())
    model = convert.to_onnx(compiled, {"mask": r(2, 3), "image": r(2, 3)}, verify=False)
    assert [v.name for v in model.graph.input] == ["image", "mask"]


def test_examples_may_be_bfloat16() -> None:
    x = r(2, 3).bfloat16()
    source = Source("torch-module-object", model=nn.Linear(3, 4).bfloat16())
    model = frontend.read(source, make_options([x], {}), Report("convert"))
    assert str(model.graph.inputs[0].dtype) == "BFLOAT16"
    np.testing.assert_array_equal(make_options([x], {}).examples[0].astype(np.float32), x.float())


# -- gradients ---------------------------------------------------------------------------------------------------------


class Potential(nn.Module):
    """Forces and a curvature; gradients are enabled, as in programs that do not disable them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.energy = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, places: torch.Tensor) -> dict[str, torch.Tensor]:
        places = places.clone().requires_grad_()
        gaps = torch.cdist(places, places * 0.5)
        energy = self.energy(places).sum() + (-gaps).exp().sum()
        (slope,) = torch.autograd.grad(energy, places, create_graph=True)
        return {"energy": energy, "forces": -slope}


def test_forward_may_rely_on_gradients_being_on() -> None:
    module = Potential().eval()
    model = frontend.read(Source("torch-module-object", model=module), make_options([r(4, 3)], {}), Report("convert"))
    assert all(p.requires_grad for p in module.parameters())
    for rows in (5, 2):
        x = r(rows, 3)
        for got, want in zip(run(model, x.numpy()), module(x).values(), strict=True):
            np.testing.assert_allclose(got, want.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_such_a_program_is_verified(tmp_path: Path) -> None:
    verdict = convert.convert(Potential().eval(), "onnx", tmp_path / "m.onnx", inputs=[r(4, 3)]).verdict
    assert verdict is not None
    assert verdict.status == "PASS", verdict.reason


# -- counts ------------------------------------------------------------------------------------------------------------


def pieces(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    a, b = x.split(torch.bincount(n, minlength=2).tolist())
    return torch.cat([a * 2, b * 3])


@pytest.mark.slow
def test_counts_are_as_long_as_their_list_and_others_fail() -> None:
    source = Source("torch-module-object", model=Calling(pieces))
    report = Report("convert")
    model = frontend.read(source, make_options(["float32[b,3]", "int64[b]"], {}), report)
    assert any("below its minlength, 2: for others the model fails" in note for note in report.notes)
    x = r(4, 3)
    for numbers in ([0, 1, 1, 0], [0, 0, 0, 0]):
        n = torch.tensor(numbers)
        np.testing.assert_array_equal(run(model, x.numpy(), n.numpy())[0], pieces(x, n))
    with pytest.raises(Exception, match=r"(?i)indices|out of"):
        run(model, x.numpy(), np.array([0, 1, 2, 0]))
