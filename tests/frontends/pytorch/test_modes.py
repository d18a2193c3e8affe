"""Modules whose result depends on mode, seed or kernel, or that never end: notes and refusals."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import convert
from convert.cli.output_options import exit_on_error
from convert.errors import BadInput, ResourceLimit, Unsupported
from convert.outcome.report import Report
from tests.support.pytorch_tools import agrees, noise, read, run
from tests.support.run_targets import run_target
from tests.support.torchscript_tools import scripted


class Drops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.norm, self.fc = nn.Dropout(0.5), nn.BatchNorm1d(3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.drop(self.fc(x)))


def test_training_mode_is_told_and_left_as_it_was() -> None:
    report, module = Report("test"), Drops()
    model = read(module, "x:float32[n,3]", report=report)
    assert [note for note in report.notes if "training mode (drop, norm)" in note]
    assert module.training
    agrees(module.eval(), model, noise(4, 3))
    report = Report("test")
    read(module, "x:float32[n,3]", report=report)
    read(nn.Linear(3, 3), "input:float32[n,3]", report=report)
    assert not [note for note in report.notes if note.code == "training-mode"]


@pytest.mark.parametrize("form", ["module", "script"])
def test_files_in_training_mode_are_told(tmp_path: Path, form: str) -> None:
    path, report = tmp_path / "m.pt", Report("test")
    if form == "module":
        torch.save(nn.Sequential(nn.Linear(3, 3), nn.Dropout()), path)
    else:
        torch.jit.script(Drops()).save(str(path))
    read(path, "float32[n,3]", report=report)
    assert [note for note in report.notes if note.code == "training-mode"], report.notes


class Encodes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.layers(x, src_key_padding_mask=mask)


@pytest.mark.slow
def test_the_fast_path_is_told_and_other_places_agree(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, path = Encodes().eval(), tmp_path / "m.onnx"
    report = convert.convert(module, "onnx", path, inputs=["x:float32[n,5,8]", "mask:bool[n,5]"], verify=False)
    assert any(note.code == "kernel-ways" for note in report.notes)
    for n in (1, 3):
        x, mask = noise(n, 5, 8), np.arange(5) >= np.array([[3]] * n)
        with torch.no_grad():
            want = module(torch.from_numpy(x), torch.from_numpy(mask)).numpy()
        (got,) = run_target("onnx", path, [{"x": x, "mask": mask}])
        np.testing.assert_allclose(got["output"][:, :3], want[:, :3], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_a_scripted_encoder_is_verified_with_the_kernels_that_are_converted(frozen: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = torch.jit.script(Encodes().eval())
    module = torch.jit.freeze(module) if frozen else module
    specs = ["x:float32[n,5,8]", "mask:bool[n,5]"]
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs=specs)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any(note.code == "kernel-ways" for note in report.notes)


class Seeds(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        return x + torch.rand(3)


class Forks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.random.manual_seed(1)
            return x + torch.randn(3)


@pytest.mark.parametrize("make", [Seeds, Forks, lambda: torch.jit.script(Seeds())])
def test_numbers_that_a_seed_fixes_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(Unsupported, match="seeds PyTorch's generator") as caught:
        read(make(), "x:float32[n,3]")
    assert "buffer" in caught.value.hint


def test_a_seed_without_a_draw_is_no_matter() -> None:
    class Idle(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(0)
            return nn.functional.dropout(x, 0.5, self.training) + 1

    agrees(Idle().eval(), read(Idle().eval(), "x:float32[n,3]"), noise(2, 3))


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


class ByMode(nn.Module):
    def __init__(self, mode: Mode) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mode == Mode.PLUS:
            return x + 1
        if self.mode != Mode.MINUS:
            return x
        return x * self.mode.value


@pytest.mark.parametrize("mode", list(Mode))
def test_members_of_an_enum_decide(mode: Mode) -> None:
    module = torch.jit.script(ByMode(mode))
    agrees(module, read(module, "x:float32[n,3]"), noise(2, 3))


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = Twice()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step.forward(x) + 1


Steps.__annotations__ = {"step": Step}  # TorchScript's compiler does not read string annotations


def test_module_interfaces() -> None:
    module = scripted(Steps())
    agrees(module, read(module, "x:float32[n,3]"), noise(2, 3))


class Every(nn.Module):
    """Assigns to a buffer at every second call only, which is known at run time only."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("h", torch.zeros(3))
        self.register_buffer("rare", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls % 2 == 0:
            self.h = self.h + x[0]
            if bool(self.h.sum() > 0):
                self.rare = self.rare + 1.0
        return x + self.h + self.rare


def test_state_behind_a_branch_on_state_is_kept() -> None:
    module = scripted(Every())
    model = read(module, "x:float32[n,3]")
    assert [v.name for v in model.graph.inputs] == ["x", "calls", "h", "rare"]
    state = [np.array(0), np.zeros(3, np.float32), np.zeros(3, np.float32)]
    for call in range(5):
        x = np.abs(noise(2, 3, seed=call))
        want = module(torch.from_numpy(x)).numpy()
        got, *state = run(model, x, *state)
        np.testing.assert_allclose(got, want, rtol=1e-6)


class Builtin(nn.Module):
    forward = staticmethod(torch.relu)


class Nothing(nn.Module):
    forward = None


ODD = {"a function of PyTorch": torch.relu, "one of torch.nn": torch._C._nn.gelu, "a partial one": partial(torch.relu),
       "a number": 5, "a dtype": torch.float32, "a class of Python's": dict.fromkeys}  # fmt: skip


@pytest.mark.parametrize("inputs", [None, "x:float32[2,3]"])
@pytest.mark.parametrize("how", [*ODD, "Builtin", "Nothing"])
def test_a_forward_that_names_no_inputs(how: str, inputs: str | None) -> None:
    module: nn.Module = {"Builtin": Builtin, "Nothing": Nothing}.get(how, lambda: nn.Linear(3, 3))()
    if how in ODD:
        vars(module)["forward"] = ODD[how]
    try:
        inspect.signature(module.forward)
    except (TypeError, ValueError):
        with pytest.raises(BadInput, match="which does not name its inputs"):
            convert.inspect(module, inputs=inputs)


def test_a_file_whose_forward_names_no_inputs(tmp_path: Path) -> None:
    module = nn.Linear(3, 3)
    vars(module)["forward"] = torch._C._nn.gelu
    torch.save(module, tmp_path / "m.pt")
    with pytest.raises(BadInput, match="forward of Linear is gelu, which does not name its inputs"):
        convert.inspect(tmp_path / "m.pt")


def test_modules_without_an_end() -> None:
    module = nn.Sequential(nn.Linear(3, 3))
    module._modules["again"] = module
    with pytest.raises(BadInput, match="again contains itself"):
        read(module, "x:float32[n,3]")
    deep: nn.Module = nn.Linear(3, 3)
    for _ in range(3000):
        deep = nn.Sequential(deep)
    with pytest.raises(ResourceLimit, match="nested deeper than Python goes"):
        read(deep, "x:float32[n,3]")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(27, "File too large"), "the disk takes no more"),
        (OSError(28, "No space left on device"), "the disk takes no more"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (ModuleNotFoundError("No module named 'ray'", name="ray"), "pip install 'convert-models[ray]'"),
    ],
)
def test_causes_outside_are_no_defects(error: Exception, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise error

    with pytest.raises(SystemExit):
        exit_on_error(work, 0)
    told = capsys.readouterr().err
    assert said in told
    assert "defect" not in told
