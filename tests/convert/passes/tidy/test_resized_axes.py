"""A Resize names the axes that it resizes; onnxruntime gives the same for both forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import convert
from convert.passes.tidy.resized_axes import name_resized_axes
from tests.support.onnx_support import read, run_ort

TEXT = """<ir_version: 9, opset_import: ["": 19]>
    g (float[n, 3, h, w] x, float[n, 2, p, q] other) => (float[a, b, c, d] y)
    <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[2] wide = {12, 7}, int64[1] seven = {7},
     int64[1] three = {3}, int64 first = {0}> {
    own = Shape (x) like = Shape (other) lead = Slice (own, zero, two, zero) rest = Slice (like, two, four)
    SIZES
    y = Resize <mode = "linear" MORE> (x, , , sizes)
}"""
SIZES = {
    "numbers": ("sizes = Concat <axis = 0> (lead, wide)", [2, 3]),
    "the dims of another tensor": ("sizes = Concat <axis = 0> (lead, rest)", [2, 3]),
    "one by one": (
        "count = Gather (own, first) up = Unsqueeze (count, zero) high = Shape <start = 2, end = 3> (x) "
        "sizes = Concat <axis = 0> (up, three, high, seven)",
        [3],
    ),
    "through int32": ("less = Cast <to = 6> (lead) more = Cast <to = 7> (less) sizes = Concat <axis = 0> (more, wide)",
                      [2, 3]),
}  # fmt: skip


def model_of(sizes: str, more: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT.replace("SIZES", sizes).replace("MORE", more))


@pytest.mark.parametrize("name", SIZES)
def test_what_stays_as_it_is_is_no_axis(name: str) -> None:
    sizes, axes = SIZES[name]
    proto = model_of(sizes)
    model = read(proto)
    assert name_resized_axes(model)
    (resize,) = [n for n in model.graph if n.op_type == "Resize"]
    assert list(resize.attributes["axes"].as_ints()) == axes
    assert not name_resized_axes(model)
    written = ir.serde.serialize_model(model)
    written.ir_version = 9
    chance = np.random.default_rng(0)
    for n, h, w in ((2, 5, 4), (1, 8, 6)):
        x, other = (chance.standard_normal(s).astype(np.float32) for s in ((n, 3, h, w), (n, 2, h + 3, w * 2)))
        feed = {"x": x, "other": other}
        np.testing.assert_allclose(run_ort(written, feed)[0], run_ort(proto, feed)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "more"),
    [
        ("sizes = Concat <axis = 0> (Slice (like, zero, two), wide)", ""),  # the batch and channels of another tensor
        (SIZES["numbers"][0], ', keep_aspect_ratio_policy = "not_larger"'),
        ("flat = Mul (own, own) sizes = Identity (flat)", ""),
    ],
)
def test_what_stays(sizes: str, more: str) -> None:
    sizes = sizes.replace("Slice (like, zero, two)", "front").replace(
        "sizes = Concat", "front = Slice (like, zero, two) sizes = Concat"
    )
    assert not name_resized_axes(read(model_of(sizes, more)))


@pytest.mark.slow
@pytest.mark.parametrize("to", ["tflite", "caffe2"])
def test_a_convolution_behind_it_knows_its_channels(to: str, tmp_path: Path) -> None:
    keras = pytest.importorskip("keras", reason="Keras makes the model")
    x = keras.Input((8, 8, 3))
    y = keras.layers.Conv2D(2, 3)(keras.layers.UpSampling2D(2, interpolation="bilinear")(x))
    verdict = convert.convert(keras.Model(x, y), to, tmp_path / "m").verdict
    assert verdict is not None
    assert verdict.status == "PASS", verdict.reason
