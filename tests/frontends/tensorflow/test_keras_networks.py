"""The ten networks in Keras, and families of keras.applications: .keras and SavedModel → ONNX, verified."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

import convert
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import CLASSES, NETWORKS, create, size_of
from tests.support.tensorflow_helper import agrees, images, rms, shapes

# Counts of the important layers in the shared graph as it was read.
EXPECTED: dict[str, dict[str, int]] = {
    "ResNet50": {"Conv": 53, "BatchNormalization": 53, "Gemm": 1},
    "VGG16": {"Conv": 13, "Gemm": 3},
    "MobileNetV2": {"Conv": 52, "BatchNormalization": 52, "Gemm": 1},
    "MobileNetV3Small": {"Conv": 54, "BatchNormalization": 34},
    "EfficientNetB0": {"Conv": 81, "BatchNormalization": 49},
    "DenseNet121": {"Conv": 120, "BatchNormalization": 121},
    "ConvNeXtTiny": {"Conv": 22, "LayerNormalization": 23, "Gelu": 18},
    "EfficientNetV2B0": {"Conv": 91, "BatchNormalization": 59},
    "InceptionResNetV2": {"Conv": 244, "BatchNormalization": 204},
    "InceptionV3": {"Conv": 94, "BatchNormalization": 94},
    "MobileNet": {"Conv": 28, "BatchNormalization": 27},
    "MobileNetV3Large": {"Conv": 64, "BatchNormalization": 46},
    "NASNetMobile": {"Conv": 356, "BatchNormalization": 192},
    "ResNet50V2": {"Conv": 53, "BatchNormalization": 49},
    "VGG19": {"Conv": 16, "Gemm": 3},
    "Xception": {"Conv": 74, "BatchNormalization": 40},
    "small_convnext": {"Conv": 9, "LayerNormalization": 10, "Gelu": 5},
    "vision_transformer": {"Conv": 1, "LayerNormalization": 5, "Gelu": 2, "Attention": 2},
    "resnet18": {"Conv": 20, "BatchNormalization": 20, "Gemm": 1},
    "regnet": {"Conv": 16, "BatchNormalization": 16, "Gemm": 1},
}
# Networks without a batch norm keep their Transposes around LayerNormalization and attention.
CNNS = [n for n in EXPECTED if "ConvNeXt" not in n and n not in ("small_convnext", "vision_transformer")]
QUICK = {"small_convnext", "vision_transformer", "resnet18"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in NETWORKS])
def test_graph(name: str) -> None:
    model = create(name)
    key, size = model.layers[0].name, size_of(name)
    feeds = [{key: images(n, size, size, 3)} for n in (2, 1)]
    graph = agrees(Source("keras-object", model=model), feeds)
    counts = Counter(n.op_type for n in graph.graph)
    assert {k: counts[k] for k in EXPECTED[name]} == EXPECTED[name]
    assert not {"Shape", "Gather", "Cast"} & set(counts)  # the shape arithmetic is gone
    assert counts["Slice"] == sum(type(layer).__name__ == "Cropping2D" for layer in model.layers)
    assert all(v.shape is not None and None not in shapes(graph)[str(v.name)] for v in graph.graph.outputs)
    outputs = run(graph, feeds[0])
    other = run(graph, {key: feeds[0][key][::-1].copy()})
    assert all(rms(outputs[k] - other[k]) > 1e-3 * rms(outputs[k]) for k in outputs), "the output ignores the input"


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_keras_file_to_onnx(name: str, tmp_path: Path) -> None:
    model = create(name)
    model.save(tmp_path / f"{name}.keras")
    verified(tmp_path / f"{name}.keras", name, model.layers[0].name, model.layers[-1].name)


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_saved_model_to_onnx(name: str, tmp_path: Path) -> None:
    model = create(name)
    model.export(tmp_path / f"{name}.savedmodel", verbose=False)
    verified(tmp_path / f"{name}.savedmodel", name, model.inputs[0].name, "output_0")


def verified(source: Path, name: str, given: str, result: str) -> None:
    """Assert that it converts with PASS, in float64 to 1e-9; names and the dynamic batch are the source's."""
    output = source.with_suffix(".onnx")
    report = convert.convert(source, "onnx", output, verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.verdict.reference == "the source in float64"
    (row,) = report.verdict.outputs
    assert row.twin is not None
    assert row.twin < 1e-9
    assert [(t.name, t.shape) for t in report.inputs] == [(given, ("batch", size_of(name), size_of(name), 3))]
    assert [(t.name, t.shape) for t in report.outputs] == [(result, ("batch", CLASSES))]
    graph = onnx.load(output).graph
    assert [v.name for v in (*graph.input, *graph.output)] == [given, result]
    transposes = sum(n.op_type == "Transpose" for n in graph.node)
    assert transposes == 1 or name not in CNNS, "only the input, which arrives channels-last, is transposed"
