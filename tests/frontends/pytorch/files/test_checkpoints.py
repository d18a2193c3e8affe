"""Checkpoints as trainers write them: weights are found and named, everything else stays data, and nothing is run."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import enum
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from torch import nn

import convert
from convert.errors import BadInput, UnsafeInput, UsageError
from convert.files.sniff import sniff
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.suites.hostile_files.pickle_files import before_zip, checkpoints
from tests.support.hostile import write_torch_legacy, write_torch_zip
from tests.support.marks import slow
from tests.support.pytorch_tools import Call

FACTORY = "tests.frontends.pytorch.files.test_checkpoints:build"
TIED = "tests.frontends.pytorch.files.test_checkpoints:Tied"


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x))


def weights(seed: int = 1, make: Any = build) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return make().state_dict()


def renamed(prefix: str, seed: int = 1) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in weights(seed).items()}


def load(path: Path, report: Report | None = None, model: str = FACTORY) -> Any:
    source = Source(sniff(path), path)
    from convert.frontends.pytorch.files.loader import load as load_source

    return load_source(source, Options(model=model), report or Report("convert"))


def check(path: Path, report: Report | None = None, seed: int = 1) -> None:
    """Assert that the file's weights are in the module."""
    found = load(path, report).state_dict()
    for name, tensor in weights(seed).items():
        assert torch.equal(found[name], tensor), name


# -- names -----------------------------------------------------------------------------------------------------------

PREFIXES = [
    "model.", "module.", "net.", "_orig_mod.", "module._orig_mod.", "module._orig_mod.model.", "_orig_mod.module.",
    "network.module.", "student.",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_is_found_by_matching(prefix: str, tmp_path: Path) -> None:
    torch.save(renamed(prefix), tmp_path / "weights.pt")
    report = Report("convert")
    check(tmp_path / "weights.pt", report)
    (note,) = [n for n in report.notes if n.code == "weights-prefix"]
    assert ("DataParallel" in note) == ("module" in prefix)


def test_a_weight_of_two_names_is_the_last_as_in_pytorch(tmp_path: Path) -> None:
    state = weights(make=Tied)
    state["last.weight"] = state["first.weight"] * 3
    torch.save(state, tmp_path / "tied.pt")
    wanted = Tied()
    wanted.load_state_dict(state)
    found = load(tmp_path / "tied.pt", model=TIED)
    torch.testing.assert_close(found(torch.ones(1, 3)), wanted(torch.ones(1, 3)))


def normalized() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)))


def test_names_that_the_module_itself_renames_fit(tmp_path: Path) -> None:
    """Names of weight_norm before torch 2.0, under a prefix."""
    old = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 4)))
    torch.save({"model." + name: tensor for name, tensor in old.state_dict().items()}, tmp_path / "old.pt")
    report = Report("convert")
    found = load(tmp_path / "old.pt", report, FACTORY.replace("build", "normalized"))
    torch.testing.assert_close(found(torch.ones(1, 3)), old(torch.ones(1, 3)))
    assert any(note.code == "weights-prefix" for note in report.notes)


def test_weights_of_several_dtypes_are_those_of_the_module(tmp_path: Path) -> None:
    state = weights()
    state["0.weight"] = state["0.weight"].half()
    torch.save(state, tmp_path / "mixed.pt")
    report = Report("convert")
    found = load(tmp_path / "mixed.pt", report).state_dict()
    assert torch.equal(found["0.weight"], state["0.weight"].float())
    assert any("0.weight were cast" in note for note in report.notes)


def test_a_wrapper_inside_is_left_out(tmp_path: Path) -> None:
    state = {n.replace("0.", "0._orig_mod.").replace("3.", "3.module."): t for n, t in renamed("model.").items()}
    torch.save({"state_dict": state}, tmp_path / "last.ckpt")
    check(tmp_path / "last.ckpt")


def test_weights_of_the_inner_network_fit_a_factory_that_wraps_it(tmp_path: Path) -> None:
    torch.save(weights(make=lambda: nn.Linear(3, 3)), tmp_path / "weights.pt")
    (tmp_path / "factory.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(3, 3))"
    )
    report = Report("convert")
    module = load(tmp_path / "weights.pt", report, f"{tmp_path / 'factory.py'}:build")
    assert torch.equal(module[0].weight, weights(make=lambda: nn.Linear(3, 3))["weight"])
    assert any("'0.' was put before" in note for note in report.notes)


def test_what_is_beside_the_prefix_is_left_and_said(tmp_path: Path) -> None:
    torch.save({**renamed("model."), "loss.weight": torch.ones(2)}, tmp_path / "weights.pt")
    report = Report("convert")
    check(tmp_path / "weights.pt", report)
    assert any("1 tensors beside the weights were left: loss.weight" in note for note in report.notes)


def test_two_networks_of_which_neither_is_meant_are_refused(tmp_path: Path) -> None:
    torch.save({**renamed("first."), **renamed("second.", 2)}, tmp_path / "weights.pt")
    with pytest.raises(BadInput, match=r"fit under 2 prefixes: first\., second\."):
        load(tmp_path / "weights.pt")


def test_the_model_stands_before_its_average(tmp_path: Path) -> None:
    torch.save({**renamed("model_ema.", 2), **renamed("model.")}, tmp_path / "flat.pt")
    report = Report("convert")
    check(tmp_path / "flat.pt", report)
    assert any("under model_ema. would fit too" in note for note in report.notes)
    torch.save({"state_dict_ema": weights(2), "state_dict": weights(), "epoch": 3}, tmp_path / "nested.pt")
    check(tmp_path / "nested.pt", report)
    assert any("others that fit: state_dict_ema" in note for note in report.notes)
    torch.save({"ema": weights(2), "optimizer": {"state": {}}}, tmp_path / "average.pt")
    check(tmp_path / "average.pt", seed=2)


def test_the_dict_that_fits_is_taken(tmp_path: Path) -> None:
    torch.save({"generator": {"w": torch.ones(3)}, "discriminator": weights()}, tmp_path / "gan.pt")
    check(tmp_path / "gan.pt")


def test_layers_that_share_a_weight_need_it_once(tmp_path: Path) -> None:
    state = weights(make=Tied)
    del state["last.weight"]
    torch.save(state, tmp_path / "tied.pt")
    module = load(tmp_path / "tied.pt", model=TIED)
    assert torch.equal(module.last.weight, state["first.weight"])


def test_what_does_not_fit_is_listed_as_before(tmp_path: Path) -> None:
    state = renamed("model.")
    state["model.9.weight"] = state.pop("model.3.weight")
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(BadInput, match=r"missing: 0\.weight.*unexpected: model\.0\.weight"):
        load(tmp_path / "other.pt")


# -- data beside the weights -----------------------------------------------------------------------------------------


class Mode(enum.Enum):
    FAST = "fast"


class AttributeDict(dict[str, Any]):
    """A dict whose items are attributes, like Lightning's."""


class Settings:
    def __init__(self) -> None:
        self.depth = 3


class Names(list[str]):
    pass


def hyper_parameters() -> dict[str, Any]:
    return {
        "lr": np.float64(1e-3),
        "best": np.int64(3),
        "scores": np.arange(3.0),
        "kind": np.dtype("float32"),
        "args": argparse.Namespace(depth=3, root=Path("data")),
        "where": Path("x") / "y",
        "mode": Mode.FAST,
        "settings": Settings(),
        "attributes": AttributeDict(a=1),
        "names": Names(["a", "b"]),
        "counts": defaultdict(int, a=1),
        "when": datetime.datetime(2024, 1, 1),
        "optimizer": torch.optim.Adam,
        "layer": nn.Linear,
        "function": nn.functional.relu,
        "complex": 1 + 2j,
    }


def test_hyper_parameters_are_data_and_their_classes_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is as Lightning writes it: names of modules of a trainer that is not installed, values of every kind."""
    trainer = ModuleType("trainer_of_somebody")
    for kind in (Settings, AttributeDict, Names, Mode):
        monkeypatch.setattr(kind, "__module__", trainer.__name__)
        setattr(trainer, kind.__name__, kind)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, trainer.__name__, trainer)
        told = {"state_dict": renamed("model."), "hyper_parameters": hyper_parameters(), "epoch": np.int32(3)}
        torch.save({**told, "pytorch-lightning_version": "2.1.0", "callbacks": {"k": {"best": torch.tensor(1.0)}}},
                   tmp_path / "last.ckpt")  # fmt: skip
    assert sniff(tmp_path / "last.ckpt") == "torch-state-dict"
    check(tmp_path / "last.ckpt")


class Wide(nn.Module):
    """A module that Lightning would rebuild from the arguments stored beside its weights."""

    def __init__(self, width: int, act: str = "relu", *, bias: bool = True) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width, bias), nn.GELU() if act == "gelu" else nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


WIDE = "tests.frontends.pytorch.files.test_checkpoints:Wide"


def test_hyper_parameters_are_arguments_of_the_factory(tmp_path: Path) -> None:
    state, report = Wide(5, "gelu").state_dict(), Report("convert")
    kept = {"width": 5, "act": "gelu", "lr": 0.1, "settings": Settings()}
    torch.save({"state_dict": state, "hyper_parameters": kept}, tmp_path / "last.ckpt")
    found = load(tmp_path / "last.ckpt", report, WIDE)
    assert isinstance(found.net[1], nn.GELU)
    assert torch.equal(found.net[0].weight, state["net.0.weight"])
    assert any("hyper_parameters: width=5, act='gelu'" in str(note) for note in report.notes)


@pytest.mark.parametrize("beside", [{}, {"hyper_parameters": {"act": "gelu"}}, {"hyper_parameters": {"width": Tied}}])
def test_arguments_that_a_file_does_not_hold_are_asked_for(beside: dict[str, Any], tmp_path: Path) -> None:
    torch.save({"state_dict": Wide(5).state_dict(), **beside}, tmp_path / "last.ckpt")
    with pytest.raises(UsageError, match="takes width, of which the file says nothing"):
        load(tmp_path / "last.ckpt", model=WIDE)


def test_a_module_of_somebody_beside_the_weights_is_not_loaded(tmp_path: Path) -> None:
    torch.save({"state_dict": weights(), "hyper_parameters": {"encoder": Tied()}}, tmp_path / "last.ckpt")
    with pytest.raises(UnsafeInput, match="Tied"):
        load(tmp_path / "last.ckpt", model="")
    check(tmp_path / "last.ckpt")


@pytest.mark.parametrize("call", [Call(open, "MARK", "w"), Call(eval, "open('MARK', 'w')"), Call(Path.touch, "MARK")])
def test_a_call_beside_the_weights_is_refused_and_not_made(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": weights(), "hyper_parameters": {"x": call}}, "evil.ckpt")
    with pytest.raises(BadInput):
        load(Path("evil.ckpt"))
    assert not Path("MARK").exists()


# -- dtypes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_weights_say_what_their_inputs_are(dtype: str, tmp_path: Path) -> None:
    state = {n: t.to(getattr(torch, dtype)) if t.is_floating_point() else t for n, t in weights().items()}
    torch.save(state, tmp_path / "half.pt")
    with pytest.raises(UsageError) as error:
        convert.to_onnx(tmp_path / "half.pt", "input:float32[n,3]", model=FACTORY, verify=False)
    assert f"--input input:{dtype}[2,3]" in error.value.hint
    made = convert.to_onnx(tmp_path / "half.pt", f"input:{dtype}[n,3]", model=FACTORY, verify=False)
    # bfloat16 becomes float32, which onnxruntime computes in.
    assert made.graph.input[0].type.tensor_type.elem_type == {"float16": 10, "bfloat16": 1}[dtype]


# -- inspect ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["pt", "ckpt", "bin", "safetensors"])
def test_weights_are_listed_without_their_code(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"weights.{suffix}"
    state = {n: t.half() if t.is_floating_point() else t for n, t in weights().items()}
    if suffix == "safetensors":
        from safetensors.torch import save_file

        save_file(state, path)
    else:
        torch.save({"state_dict": state, "args": argparse.Namespace(a=1)} if suffix == "ckpt" else state, path)
    report = convert.inspect(path)
    assert {t.name: (t.dtype, t.shape) for t in report.weights} == {
        n: (str(t.dtype).removeprefix("torch."), tuple(t.shape)) for n, t in state.items()
    }
    assert report.parameters == sum(t.numel() for t in state.values() if t.is_floating_point())
    assert any("x:float16[…]" in note for note in report.notes)


def test_a_module_is_not_listed_as_weights(fixtures: Path) -> None:
    options, report = Options(), Report("inspect")
    assert frontend.list_weights(Source("torch-module", fixtures / "mnist_cnn.pt"), options, report) is None


@pytest.mark.parametrize("zipped", [True, False])
def test_no_tensor_is_listed_that_is_not_in_the_file(zipped: bool, tmp_path: Path) -> None:
    data, keys, content = before_zip()["a long storage that is not listed"]
    if zipped:
        write_torch_zip(tmp_path / "m.pt", data, [bytes(4)])
    else:
        write_torch_legacy(tmp_path / "m.pt", data, keys, content)
    with pytest.raises(UnsafeInput, match="not in the file"):
        convert.inspect(tmp_path / "m.pt")


def test_damaged_weights_are_not_listed(tmp_path: Path) -> None:
    torch.save({"w": torch.full((100,), 7.0)}, tmp_path / "m.pt")
    data = (tmp_path / "m.pt").read_bytes()
    (tmp_path / "m.pt").write_bytes(data.replace(torch.full((100,), 7.0).numpy().tobytes()[:8], bytes(8), 1))
    with pytest.raises(BadInput, match="checksum"):
        convert.inspect(tmp_path / "m.pt")


@pytest.mark.parametrize("name", slow(checkpoints(), "weights at 3,000 places"))
def test_what_lies_beside_weights_costs_nothing(name: str, tmp_path: Path) -> None:
    path = write_torch_zip(tmp_path / "m.ckpt", checkpoints()[name], [bytes(16)])
    with contextlib.suppress(BadInput):
        report = convert.inspect(path)
        assert [t.shape for t in report.weights] == [(2, 2)]
        assert all(len(note) < 300 for note in report.notes)
