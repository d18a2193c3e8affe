"""Compare one network in thirteen formats with itself, each format with every other, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from convert.frontends.caffe2.runner import runner
from torch import nn

import convert
from convert.batch.fork_server_pool import fork_server_socket
from convert.processes.fork_client import ADDRESS
from convert.processes.marks import MARK, new_mark

pytestmark = pytest.mark.long

SPEC = "input:float32[batch,3,8,8]"
FORMATS = {"onnx": ".onnx", "tf": ".savedmodel", "tf-frozen": ".pb", "keras": ".keras", "tflite": ".tflite",
           "caffe2": ".caffe2", "torch": ".torch.pt2", "torch-script": ".script.pt",
           "torch-code": ".torch"}  # fmt: skip
SUFFIXES = [".pt", ".pt2", ".ts", *FORMATS.values(), ".h5"]


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with `net` under every suffix; meanwhile models run in forks of a warm process."""
    folder = tmp_path_factory.mktemp("pairs")
    torch.manual_seed(0)
    body = [nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    net = nn.Sequential(*body, nn.Linear(96, 5)).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    example = torch.randn(2, 3, 8, 8)
    torch.save(net, folder / "net.pt")
    dims = ({0: torch.export.Dim("batch", min=1)},)
    torch.export.save(torch.export.export(net, (example,), dynamic_shapes=dims), folder / "net.pt2")
    torch.jit.trace(net, example).save(folder / "net.ts")
    for form, suffix in FORMATS.items():
        convert.convert(net, form, folder / f"net{suffix}", inputs=SPEC, verify=False)
    import keras

    keras.saving.load_model(folder / "net.keras").save(folder / "net.h5")
    kinds = ("onnx", "torch-module", "torch-export", "torchscript", "savedmodel")
    with (
        fork_server_socket(kinds, ("onnx", "tf", "keras", "tflite", "caffe2")) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(ADDRESS, address)
        patch.setenv(MARK, new_mark())
        yield folder


@pytest.mark.parametrize("source", SUFFIXES)
def test_every_pair_passes(source: str, artefacts: Path) -> None:
    told = {}
    for target in SUFFIXES:
        if ".caffe2" in (source, target) and runner.available():
            continue
        inputs = SPEC if source in (".pt", ".ts", ".script.pt", ".torch") else None
        code = ".torch" in (source, target)  # the loader executes this code
        verdict = convert.verify(
            artefacts / f"net{source}", artefacts / f"net{target}", inputs=inputs, trust=code
        ).verdict
        assert verdict is not None
        told[target] = f"{verdict.status} {verdict.reason}".strip()
    assert set(told.values()) == {"PASS"}, told
