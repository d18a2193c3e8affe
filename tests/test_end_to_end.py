"""Convert every fixture to every format, verified, and with the accuracy of the source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import convert
from convert import api, plugin
from convert.processes.process import execute
from convert.request.options import Options
from convert.request.source import Source
from tests.support.hostile import OLD_ONNX
from tests.support.marks import slow_but

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
FACTORY = "fixtures/mnist_model.py:build"

needs_caffe2 = pytest.mark.skipif(
    not os.environ.get("CONVERT_CAFFE2_PYTHON"), reason="needs a real Caffe2: set CONVERT_CAFFE2_PYTHON"
)
needs_tflite = pytest.mark.skipif(not find_spec("ai_edge_litert"), reason="needs ai-edge-litert to run .tflite")
TARGETS = [
    pytest.param("onnx", id="onnx"),
    pytest.param("tf", id="tf"),
    pytest.param("tf-frozen", id="tf-frozen"),
    pytest.param("keras", id="keras"),
    pytest.param("tflite", id="tflite", marks=needs_tflite),
    pytest.param("caffe2", id="caffe2", marks=[pytest.mark.caffe2, needs_caffe2]),
]
PYTORCH = {
    "mnist_cnn.pt": {},
    "mnist_cnn_traced.pt": {},
    "mnist_cnn_scripted.pt": {},
    "mnist_cnn.pt2": {},
    "mnist_cnn_state.pt": {"model": FACTORY},
    "mnist_cnn_checkpoint.pt": {"model": FACTORY},
    "mnist_cnn.safetensors": {"model": FACTORY},
}
OTHERS: dict[str, dict[str, str]] = {
    "mnist_cnn.onnx": {},
    "mnist_cnn.keras": {},
    "mnist_cnn.savedmodel": {},
    "mnist_cnn_frozen.pb": {},
}


def digits(nhwc: bool) -> tuple[np.ndarray, np.ndarray]:
    with np.load(FIXTURES / "digits_test.npz") as data:
        images, labels = data["images"], data["labels"]
    return (images.transpose(0, 2, 3, 1).copy() if nhwc else images), labels


def predictions(source: Source, name: str, images: np.ndarray, options: Options) -> np.ndarray:
    outputs = execute(source, [{name: images}], ("float32",), options).results()["float32"]
    assert isinstance(outputs, list)
    (log_probs,) = outputs[0].values()
    return log_probs.argmax(axis=1)


def run_cli(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "convert", *args], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


# Each takes 10 to 30 seconds, most of them for the frameworks that verification imports. Other quick tests convert
# and verify these fixtures to SavedModels (README's command) and from Keras (`test_round_trip.py`).
_QUICK = {
    ("mnist_cnn.pt2", "onnx"),
    ("mnist_cnn.pt", "tflite"),
    ("mnist_cnn.pt", "caffe2"),
    ("mnist_cnn.savedmodel", "onnx"),
    ("mnist_cnn.onnx", "onnx"),
}
_LONG = {target: [pytest.mark.long] for target in ("onnx", "tf", "tf-frozen", "keras", "tflite")}
_PAIRS = [
    pytest.param(
        file,
        target.values[0],
        id=f"{file}-{target.id}",
        marks=[*target.marks, *([] if (file, target.id) in _QUICK else [pytest.mark.long])],
    )
    for file in (*PYTORCH, *OTHERS)
    for target in TARGETS
]


@pytest.mark.parametrize(("file", "target"), _PAIRS)
def test_every_mnist_fixture_converts_verified_with_the_same_accuracy(
    file: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    options = {**PYTORCH, **OTHERS}[file]
    form = plugin.formats()[target]
    output = tmp_path / f"out{form.suffix}"
    report = convert.convert(FIXTURES / file, target, output, verify=True, **options)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.verdict.reference == "the source in float64"
    assert report.inputs[0].shape is not None
    assert isinstance(report.inputs[0].shape[0], str), "the batch must stay dynamic"
    images, labels = digits(nhwc=report.inputs[0].shape[-1] == 1)
    name = report.inputs[0].name
    theirs = predictions(api.open_source(FIXTURES / file), name, images, Options(**options))
    ours = predictions(Source(form.kind, output), name, images, Options())
    assert np.mean(theirs == labels) == pytest.approx(0.975, abs=1e-9)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", [pytest.param(*p.values, id=p.id, marks=[*p.marks, *_LONG.get(str(p.id), [])]) for p in TARGETS]
)
def test_super_resolution_keeps_height_and_width_dynamic(target: str, tmp_path: Path) -> None:
    form = plugin.formats()[target]
    output = tmp_path / f"out{form.suffix}"
    report = convert.convert(FIXTURES / "super_resolution.pt", target, output, verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    (tensor,) = report.inputs
    assert tensor.shape is not None
    assert [isinstance(d, str) for d in tensor.shape] == [True, False, True, True]
    image = np.random.default_rng(0).random((1, 1, 17, 23), np.float32)
    for shape in ((1, 1, 17, 23), (3, 1, 40, 12)):
        image = np.random.default_rng(0).random(shape, np.float32)
        outputs = execute(Source(form.kind, output), [{tensor.name: image}]).results()["float32"]
        assert isinstance(outputs, list)
        (upscaled,) = outputs[0].values()
        assert upscaled.shape == (shape[0], 1, 3 * shape[2], 3 * shape[3])


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize("target", [p for p in TARGETS if p.id == "tf"])
def test_the_command_of_the_readme(target: str, tmp_path: Path) -> None:
    done = run_cli(str(FIXTURES / "mnist_cnn.pt"), "--to", target, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "PASS" in done.stdout
    assert "the source's own rounding error" in done.stdout
    assert f"mnist_cnn{plugin.formats()[target].suffix}" in os.listdir(tmp_path)


@pytest.mark.slow
def test_verify_passes_a_good_pair_and_fails_a_bad_one(tmp_path: Path) -> None:
    good = run_cli(
        "verify", str(FIXTURES / "mnist_cnn.pt"), str(FIXTURES / "mnist_cnn_scripted.pt"), "--json", folder=tmp_path
    )
    told = json.loads(good.stdout)
    # The two kinds give inputs and outputs the same names, so that the pair can be compared.
    assert (good.returncode, told["verdict"]["status"]) == (0, "PASS"), good.stdout + good.stderr
    other = np.load(FIXTURES / "digits_test.npz")["images"][:4]
    np.savez(tmp_path / "x.npz", input=other)
    import onnx
    from onnx import numpy_helper

    report = convert.convert(FIXTURES / "mnist_cnn.pt", "onnx", tmp_path / "m.onnx")
    assert report.ok
    model = onnx.load(tmp_path / "m.onnx")
    for initializer in model.graph.initializer:
        array = numpy_helper.to_array(initializer).copy()
        if array.ndim == 4 and array.shape[1] == 1:
            array[0, 0, 1, 1] *= 1.001
            initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))
    onnx.save(model, tmp_path / "planted.onnx")
    bad = run_cli(
        "verify", str(FIXTURES / "mnist_cnn.pt"), "planted.onnx", "--inputs", "x.npz", "--json", folder=tmp_path
    )
    told = json.loads(bad.stdout)
    assert bad.returncode == 3, bad.stderr
    assert told["verdict"]["status"] == "FAIL"
    assert told["verdict"]["at_fault"] == ""
    assert told["verdict"]["reason"].startswith("weights differ: 1 of ")


def test_a_failing_target_leaves_an_existing_output_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verification finds a backend's wrong output before the output gets its final name."""
    output = tmp_path / "m.onnx"
    output.write_bytes(OLD_ONNX)
    backend = plugin.backend_for("onnx")
    write = backend.write

    def sabotage(model: object, path: Path, form: str, options: object, report: object) -> None:
        write(model, path, form, options, report)
        import onnx
        from onnx import numpy_helper

        written = onnx.load(path)
        first = next(i for i in written.graph.initializer if i.data_type == 1)
        first.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(first), first.name))
        onnx.save(written, path)

    monkeypatch.setattr(backend, "write", sabotage)
    with pytest.raises(convert.ParityError, match="backend") as caught:
        convert.convert(FIXTURES / "mnist_cnn.pt", "onnx", output, force=True)
    assert caught.value.exit_code == 3
    assert output.read_bytes() == OLD_ONNX
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_python_api_takes_objects_arrays_and_specs(tmp_path: Path) -> None:
    import onnx
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2)).eval()
    proto = convert.to_onnx(module, torch.zeros(3, 5))
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == 20
    report = convert.convert(module, "tf", tmp_path / "m.savedmodel", inputs="input:float32[batch,5]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.inputs[0].shape == ("batch", 5)
    shown = convert.inspect(FIXTURES / "mnist_cnn.onnx")
    assert shown.operators["Conv"] == 2
    assert not hasattr(shown.verdict, "status")


@needs_tflite
@pytest.mark.parametrize("suffix", slow_but([".keras", ""], ""))
def test_a_source_that_computes_while_it_is_read_leaves_no_threads_to_wait_for(suffix: str, tmp_path: Path) -> None:
    """TensorFlow Lite's converter transposes a weight of this size in threads, which a fork of the reader would
    lack.
    """
    from tests.support.keras_helper import keras, layers

    image = keras.Input((8, 8, 64))
    path = tmp_path / f"net{suffix}"
    network = keras.Model(image, layers.GlobalAveragePooling2D()(layers.Conv2D(128, 3)(image)))
    network.save(path) if suffix else network.export(path, verbose=False)
    done = run_cli(str(path), "--to", "tflite", "-o", "net.tflite", "--timeout", "120", folder=tmp_path)
    assert (done.returncode, "PASS" in done.stdout) == (0, True), done.stderr[-2000:]
