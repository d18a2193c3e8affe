"""Ten networks of timm with random weights: PyTorch → ONNX and PyTorch → SavedModel, verified; CNNs run NHWC
internally.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

import convert
from convert.parity.method import VerifyMethod
from tests.support import timm_helper

# Spatial sizes that keep the suite quick; the ViT is fixed to 224, and VGG has a window of 7 after five halvings.
NETWORKS = {
    "resnet18": 64,
    "resnet50": 64,
    "mobilenetv2_100": 64,
    "mobilenetv3_small_100": 64,
    "efficientnet_b0": 64,
    "densenet121": 64,
    "vgg11_bn": 224,
    "convnext_atto": 64,
    "vit_tiny_patch16_224": 224,
    "regnetx_002": 64,
}
QUICK = ("mobilenetv3_small_100",)
CNNS = [n for n in NETWORKS if not n.startswith(("vit", "convnext"))]


def spec(name: str) -> str:
    return f"x:float32[batch,3,{NETWORKS[name]},{NETWORKS[name]}]"


@pytest.mark.slow
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in NETWORKS])
def test_network_converts_to_onnx_and_savedmodel_and_verifies(name: str, tmp_path: Path) -> None:
    module = timm_helper.create(name, NETWORKS[name])
    for target in ("onnx", "tf"):
        output = tmp_path / f"{name}.{target}"
        report = convert.convert(module, target, output, inputs=spec(name), verify=True, method=VerifyMethod(seeds=2))
        assert report.verdict is not None
        assert report.verdict.status == "PASS"
        assert report.verdict.reference == "the source in float64"
        (row,) = report.verdict.outputs
        assert row.twin is not None
        assert row.twin < 1e-9
        assert report.inputs[0].shape == ("batch", 3, NETWORKS[name], NETWORKS[name])
        assert report.outputs[0].shape == ("batch", 1000)
    if name != "vit_tiny_patch16_224":
        # TensorFlow's graph has one, at the NCHW input. Everything inside is NHWC, and no weight is transposed.
        assert transposes(tmp_path / f"{name}.tf") == 1
    if name in CNNS:
        counts = Counter(n.op_type for n in onnx.load(tmp_path / f"{name}.onnx", load_external_data=False).graph.node)
        assert counts["Transpose"] == 0


def transposes(path: Path) -> int:
    """Return the number of Transposes in the functions of a SavedModel file."""
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    (meta,) = proto.meta_graphs
    nodes = [n for f in meta.graph_def.library.function for n in f.node_def] + list(meta.graph_def.node)
    return sum(n.op == "Transpose" for n in nodes)
