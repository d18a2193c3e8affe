"""The Core ML backend: what coremltools converts, what is read back from it, and what is refused.

Core ML itself runs on macOS only, so the numbers of a package are not compared here.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from convert.backends import coreml as backend
from convert.backends.coreml import runner

import convert
from convert.cli import cli
from convert.errors import BadInput, Unsupported, UsageError
from convert.request.options import Options
from convert.request.source import Source

pytestmark = pytest.mark.not_core  # every test imports PyTorch and starts processes
MNIST = Path(__file__).resolve().parents[3] / "fixtures" / "mnist_cnn.onnx"
BOUNDED = "image:float32[batch=1..20,1,28,28]"
needs_coreml = pytest.mark.skipif(
    importlib.util.find_spec("coremltools") is None, reason="needs coremltools (pip install 'convert-models[coreml]')"
)
needs_torch = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="the route goes through PyTorch")


def network(path: Path, text: str) -> Path:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> net {text}')
    onnx.save(model, path)
    return path


@needs_coreml
@pytest.mark.slow
def test_a_network_keeps_its_ends_and_weights_and_has_the_same_bytes(tmp_path: Path) -> None:
    reports = [
        convert.convert(MNIST, "coreml", tmp_path / name, inputs=BOUNDED) for name in ("a.mlpackage", "b.mlpackage")
    ]
    files = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in tmp_path.iterdir()]
    assert len(files[0]) == 3
    assert files[0] == files[1]
    assert len(files[0][Path(backend.WEIGHTS)]) > 150_000  # in float32
    if runner.available():
        assert reports[0].unverified == "Core ML runs on macOS only"
        (note,) = [note for note in reports[0].notes if note.code == "other-machine"]
        assert "all 6 weights" in str(note)
    import coremltools

    spec = coremltools.utils.load_spec(str(tmp_path / "a.mlpackage"))
    (image,), (out,) = spec.description.input, spec.description.output
    assert (image.name, out.name) == ("image", "log_probs")
    sizes = [(r.lowerBound, r.upperBound) for r in image.type.multiArrayType.shapeRange.sizeRanges]
    assert sizes == [(1, 20), (1, 1), (28, 28), (28, 28)]
    assert spec.specificationVersion == 8  # of iOS 17


def recurrent(name: str, **options: Any) -> Any:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = getattr(torch.nn, name)(8, 16, num_layers=2, batch_first=True, **options)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.rnn(x)[0]
            return output

    torch.manual_seed(0)
    return Net().eval()


@needs_coreml
@pytest.mark.slow
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])  # coremltools 9 lacks a bidirectional RNN
def test_recurrent_layers_are_converted_which_coremltools_takes_from_torchscript_only(
    name: str, tmp_path: Path
) -> None:
    net = recurrent(name, bidirectional=name != "RNN")
    report = convert.convert(net, "coreml", tmp_path / "net.mlpackage", inputs="x:float32[2,5,8]")
    (output,) = report.outputs
    assert output.shape is not None
    assert output.shape[:2] == (2, 5)
    import coremltools

    spec = coremltools.utils.load_spec(str(tmp_path / "net.mlpackage"))
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    assert sum(op.type in ("lstm", "while_loop", "rnn") for op in block.operations) in (2, 4)


@needs_coreml
@pytest.mark.slow
def test_other_dtypes_are_noted(tmp_path: Path) -> None:
    source = network(
        tmp_path / "net.onnx",
        "(int64[2,3] ids, float[2,3] x) => (bool[2,3] large, int64[2,3] twice)"
        " { large = Greater (x, x) twice = Add (ids, ids) }",
    )
    report = convert.convert(source, "coreml", tmp_path / "net.mlpackage")
    found = [str(note).partition(" in the package")[0] for note in report.notes if note.code == "other-dtype"]
    assert found == [
        "the input 'ids' of int64 is int32",
        "the output 'large' of bool is float32",
        "the output 'twice' of int64 is int32",
    ]


@needs_coreml
@pytest.mark.slow
def test_what_coremltools_lacks_is_an_error_of_one_paragraph(tmp_path: Path) -> None:
    text = "(float[2,9] x) => (float[2,3] y, int64[2,3] i) { k = Constant <value_ints = [3]> () y, i = TopK (x, k) }"
    source = network(tmp_path / "net.onnx", text)
    with pytest.raises(Unsupported) as raised:
        convert.convert(source, "coreml", tmp_path / "net.mlpackage")
    assert "\n" not in raised.value.message
    assert not (tmp_path / "net.mlpackage").exists()


@needs_coreml
@pytest.mark.slow
def test_a_dim_that_pytorch_fixes_is_refused(tmp_path: Path) -> None:
    spec = "x:float32[batch=1..8,seq=1..20,8]"
    with pytest.raises(Unsupported, match="PyTorch fixes the dim seq of x"):
        convert.convert(recurrent("LSTM"), "coreml", tmp_path / "net.mlpackage", inputs=spec)


REFUSED = [
    ("(double[2] x) => (double[2] y) { y = Add (x, x) }", "Core ML has no inputs of float64, as x is"),
    ("(float x) => (float y) { y = Add (x, x) }", "Core ML takes inputs of 1 to 5 dims, and x has 0"),
    ("(float[1,1,1,1,1,2] x) => (float[1,1,1,1,1,2] y) { y = Add (x, x) }", "and x has 6"),
    ("(float[2] x) => (float[2] x, float[2] y) { y = Add (x, x) }", "an output that is an input: x"),
    ("(float[2] x) => (float[2] y) { d = Cast <to = 11> (x) e = Exp (d) y = Cast <to = 1> (e) }", "in float64"),
]


@needs_torch
@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_core_ml_has_none_like_is_refused_before_anything_is_written(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "missing_reason", lambda: "")
    with pytest.raises(Unsupported, match=why):
        convert.convert(network(tmp_path / "net.onnx", text), "coreml", tmp_path / "net.mlpackage", dry_run=True)


def test_a_dim_without_a_bound_is_refused_with_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backend, "missing_reason", lambda: "")
    with pytest.raises(UsageError, match="the dim batch of image has no greatest size") as raised:
        convert.convert(MNIST, "coreml", tmp_path / "net.mlpackage", verify=False)
    assert "--input 'image:float32[batch=1..16,1,28,28]'" in raised.value.hint


def test_without_the_package_one_paragraph_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "missing_reason", lambda: "not here")
    done = CliRunner().invoke(cli, [str(MNIST), "--to", "coreml", "-o", str(tmp_path / "net.mlpackage")])
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "error: --to coreml takes Apple's own converter, the package coremltools, which is not installed",
        "hint: pip install 'convert-models[coreml]', or write torch, a .pt2 that coremltools converts elsewhere",
    ]


@pytest.fixture
def core_ml(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[dict[str, np.ndarray]]]:
    """Replace coremltools by a stand-in whose models predict by a function; return what was fed to it."""
    fed: list[dict[str, np.ndarray]] = []

    def install(predict: Any) -> list[dict[str, np.ndarray]]:
        ends = SimpleNamespace(input=[SimpleNamespace(name="ids")], output=[SimpleNamespace(name="y")])

        class Model:
            def __init__(self, path: str, compute_units: str) -> None:
                assert compute_units == "cpu only"
                if not Path(path).is_dir():
                    raise RuntimeError("no such\npackage")

            def get_spec(self) -> Any:
                return SimpleNamespace(description=ends)

            def predict(self, feed: dict[str, np.ndarray]) -> Any:
                fed.append(feed)
                return predict(feed)

        fake = SimpleNamespace(
            models=SimpleNamespace(MLModel=Model), ComputeUnit=SimpleNamespace(CPU_ONLY="cpu only")
        )  # fmt: skip
        monkeypatch.setitem(sys.modules, "coremltools", fake)  # type: ignore[arg-type]
        return fed

    return install


def run(place: Path, feed: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    return runner.run(Source("coreml", place), [feed], precision="float32", options=Options())


def test_a_run_feeds_integers_of_32_bits_and_returns_outputs_by_name(tmp_path: Path, core_ml: Any) -> None:
    fed = core_ml(lambda feed: {"y": feed["ids"] * 2.0})
    (found,) = run(tmp_path, {"ids": np.array([1, 2], np.int64)})
    assert fed[0]["ids"].dtype == np.int32
    assert found["y"].tolist() == [2.0, 4.0]


def test_a_run_refuses_what_core_ml_cannot_be_fed(tmp_path: Path, core_ml: Any) -> None:
    core_ml(lambda feed: {"y": feed["ids"]})
    with pytest.raises(Unsupported, match="32 bits"):
        run(tmp_path, {"ids": np.array([2**40])})
    with pytest.raises(UsageError, match="no input 'other'"):
        run(tmp_path, {"other": np.zeros(2)})
    with pytest.raises(BadInput, match=r"cannot load gone: no such package"):
        run(tmp_path / "gone", {"ids": np.zeros(2)})
    with pytest.raises(Unsupported, match="float64"):
        runner.run(Source("coreml", tmp_path), [], precision="float64", options=Options())


def test_a_package_is_recognized_by_its_content(tmp_path: Path) -> None:
    package = tmp_path / "net"
    (package / backend.MODEL).parent.mkdir(parents=True)
    (package / backend.MODEL).write_bytes(b"")
    (package / backend.MANIFEST).write_text(json.dumps({}))
    assert convert.api.open_source(package).kind == "coreml"
