"""The OpenVINO backend: IR run by OpenVINO's own runtime, verified, or refused if the package or an operator is
missing.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from click.testing import CliRunner
from convert.backends import openvino as backend

import convert
from convert.cli import cli
from convert.errors import ConvertError, ParityError, UsageError

pytestmark = pytest.mark.not_core  # each starts OpenVINO in processes of its own
MNIST = Path(__file__).resolve().parents[3] / "fixtures" / "mnist_cnn.onnx"
needs_openvino = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="needs OpenVINO (pip install 'convert-models[openvino]')"
)


def network(path: Path, body: str) -> Path:
    text = f'<ir_version: 10, opset_import: ["": 20]> net (float[n, 3, 8, 8] x) => (float[a, b, c, d] y) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@needs_openvino
def test_a_network_is_verified_and_runs_as_its_users_run_it(tmp_path: Path) -> None:
    report = convert.convert(MNIST, "openvino", tmp_path / "net.openvino", verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.output_bytes > 150_000  # the weights are what is compared, and they stay in float32
    assert sorted(path.name for path in (tmp_path / "net.openvino").iterdir()) == ["model.bin", "model.xml"]
    import openvino

    images = np.random.default_rng(0).random((5, 1, 28, 28), np.float32)
    compiled = openvino.Core().compile_model(str(tmp_path / "net.openvino" / "model.xml"), "CPU")
    found = compiled({"image": images})["log_probs"]
    (wanted,) = onnxruntime.InferenceSession(str(MNIST)).run(["log_probs"], {"image": images})
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()


@pytest.mark.slow
@needs_openvino
def test_it_is_replaced_with_force_alone_and_has_the_same_bytes(tmp_path: Path) -> None:
    place = tmp_path / "net.openvino"
    convert.convert(MNIST, "openvino", place, verify=False)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(UsageError, match="exists"):
        convert.convert(MNIST, "openvino", place, verify=False)
    convert.convert(MNIST, "openvino", place, verify=False, force=True)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.slow
@needs_openvino
def test_other_weights_are_a_mismatch(tmp_path: Path) -> None:
    convert.convert(MNIST, "openvino", tmp_path / "net.openvino", verify=False)
    weights = tmp_path / "net.openvino" / "model.bin"
    numbers = np.frombuffer(weights.read_bytes(), np.float32).copy()
    numbers[:72] *= 1.01  # the weight of the first convolution
    weights.write_bytes(numbers.tobytes())
    verdict = convert.verify(MNIST, tmp_path / "net.openvino").verdict
    assert verdict is not None
    assert verdict.status == "FAIL"


@needs_openvino
def test_what_openvino_refuses_is_an_error_of_one_paragraph(tmp_path: Path) -> None:
    """OpenVINO has no string tensors on its CPU."""
    text = '<ir_version: 10, opset_import: ["": 20]> net (string[n] x) => (string[n] y) { y = StringConcat (x, x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "words.onnx")
    with pytest.raises(ConvertError) as raised:
        convert.convert(tmp_path / "words.onnx", "openvino", tmp_path / "words.openvino", verify=False)
    assert "\n" not in raised.value.message
    assert not (tmp_path / "words.openvino").exists()


@needs_openvino
@pytest.mark.slow
@pytest.mark.parametrize("operator", ["Relu", "Sigmoid", "Softmax", "Exp", "Gelu", "LeakyRelu", "Tanh"])
def test_special_values_are_declared(operator: str, tmp_path: Path) -> None:
    source = network(tmp_path / "net.onnx", f"y = {operator} (x)")
    verdict = convert.convert(source, "openvino", tmp_path / "net.openvino", verify=True).verdict
    assert verdict is not None
    assert verdict.status == "PASS"
    assert not [note for note in verdict.notes if note.code == "special-differs" and note.level == "action"]


@needs_openvino
@pytest.mark.slow
def test_a_comparison_of_nan_is_declared(tmp_path: Path) -> None:
    body = "zero = Constant <value = float {0.0}> () larger = Greater (x, zero) y = Where (larger, x, zero)"
    source = network(tmp_path / "net.onnx", body)
    try:
        verdict = convert.convert(source, "openvino", tmp_path / "net.openvino", verify=True).verdict
    except ParityError as error:
        pytest.fail(error.message)
    assert verdict is not None
    assert verdict.status == "PASS"


def test_without_the_package_one_paragraph_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "missing_reason", lambda: "not here")
    done = CliRunner().invoke(cli, [str(MNIST), "--to", "openvino", "-o", str(tmp_path / "net.openvino")])
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    assert lines == [
        "error: --to openvino takes OpenVINO's own converter, the package openvino, which is not installed",
        "hint: pip install 'convert-models[openvino]', or write onnx, which OpenVINO reads as it is",
    ]
    assert not (tmp_path / "net.openvino").exists()
