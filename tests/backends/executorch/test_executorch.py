"""The ExecuTorch backend: .pte files run by ExecuTorch's own runtime, verified, or refused without bounds or the
package.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from convert.backends import executorch as backend

import convert
from convert.cli import cli
from convert.errors import UsageError

pytestmark = pytest.mark.not_core  # every test imports PyTorch and starts processes
MNIST = Path(__file__).resolve().parents[3] / "fixtures" / "mnist_cnn.onnx"
BOUNDED = "image:float32[batch=1..20,1,28,28]"
needs_executorch = pytest.mark.skipif(
    importlib.util.find_spec("executorch") is None,
    reason="needs ExecuTorch (pip install 'convert-models[executorch]')",
)


@needs_executorch
@pytest.mark.slow
def test_a_network_is_verified_and_runs_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "net.pte"
    report = convert.convert(MNIST, "executorch", file, inputs=BOUNDED, verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    import torch
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(file).load_method("forward")
    images = np.random.default_rng(0).random((20, 1, 28, 28), np.float32)
    (found,) = method.execute([torch.from_numpy(images)])
    (wanted,) = onnxruntime.InferenceSession(str(MNIST)).run(["log_probs"], {"image": images})
    assert (found.numpy().argmax(axis=1) == wanted.argmax(axis=1)).all()


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="the PyTorch backend checks the graph first")
def test_a_dim_without_a_bound_is_refused_with_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backend, "missing_reason", lambda: "")
    with pytest.raises(UsageError, match="the dim batch of image has no greatest size") as raised:
        convert.convert(MNIST, "executorch", tmp_path / "net.pte", verify=False)
    assert "--input 'image:float32[batch=1..16,1,28,28]'" in raised.value.hint
    assert not (tmp_path / "net.pte").exists()


def test_without_the_package_one_paragraph_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "missing_reason", lambda: "not here")
    done = CliRunner().invoke(cli, [str(MNIST), "--to", "executorch", "-o", str(tmp_path / "net.pte")])
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "error: --to executorch takes ExecuTorch's own lowering, the package executorch, which is not installed",
        "hint: pip install 'convert-models[executorch]', or write torch, a .pt2 that ExecuTorch lowers elsewhere",
    ]
