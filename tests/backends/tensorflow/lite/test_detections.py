"""`--postprocess detection`: boxes and scores become TFLite_Detection_PostProcess, run by TensorFlow's interpreter.

The expected detections come from onnxruntime, which runs the graph with the detections written in ONNX's operators.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.errors import BadInput, Unsupported, UsageError
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, PASS
from convert.parity.method import VerifyMethod
from convert.processes.model_reading import read_for_target
from convert.request.detections import CANDIDATE_NAMES, DETECTIONS, NAMES, Detections, parse_detections
from convert.request.options import Options
from convert.runtimes.detections import detect
from tests.backends.tensorflow.lite.test_quantized import onnxruntime_outputs, operators_of
from tests.support.tensorflow_lite_helper import encode, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

COUNT, CLASSES = 40, 3


def head(
    scores_dims: tuple[int | str, ...] = (1, COUNT, CLASSES), *, suppressed: bool = False, per_class: int = 5
) -> onnx.ModelProto:
    """Return a model that clips boxes and scores, which changes none.

    suppressed: it returns the rows that NonMaxSuppression selects instead, at most `per_class` of a class.
    """
    nodes = [helper.make_node("Clip", [f"{name}_in", "low", "high"], [name]) for name in ("boxes", "scores")]
    inputs = [
        helper.make_tensor_value_info("boxes_in", TensorProto.FLOAT, [scores_dims[0], COUNT, 4]),
        helper.make_tensor_value_info("scores_in", TensorProto.FLOAT, scores_dims),
    ]
    outputs = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [scores_dims[0], COUNT, 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, scores_dims),
    ]
    numbers = {
        "most": np.array([per_class]),
        "overlap": np.array([0.4], np.float32),
        "least": np.array([0.3], np.float32),
    }
    constants = [numpy_helper.from_array(np.array(n, np.float32), k) for k, n in (("low", -99), ("high", 99))]
    if suppressed:
        nodes.append(helper.make_node("NonMaxSuppression", ["boxes", "scores", *numbers], ["rows"], center_point_box=1))
        outputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, [None, 3])]
        constants += [numpy_helper.from_array(v, k) for k, v in numbers.items()]
    graph = helper.make_graph(nodes, "head", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def some_boxes(form: str, scores_dims: tuple[int, ...] = (1, COUNT, CLASSES)) -> dict[str, np.ndarray]:
    """Return boxes of a form, some of them without an area, and scores of which no two are equal."""
    rng = np.random.default_rng(5)
    centre, size = rng.random((1, COUNT, 2)), 0.05 + rng.random((1, COUNT, 2)) * 0.4
    size[0, :2] = 0
    boxes = np.concatenate([centre, size] if form.startswith("c") else [centre, centre + size], 2)
    if form.startswith("d"):
        boxes = rng.standard_normal((1, COUNT, 4)) * 3
    scores = rng.permutation(np.linspace(0.01, 0.99, COUNT * scores_dims[1] * scores_dims[2] // COUNT))
    return {"boxes_in": boxes.astype(np.float32), "scores_in": scores.reshape(scores_dims).astype(np.float32)}


def expected_and_got(
    folder: Path, proto: onnx.ModelProto, option: str, feed: dict[str, np.ndarray]
) -> tuple[Detections, dict[str, np.ndarray], dict[str, np.ndarray], Path]:
    options, model = read_for_target(
        convert.api.open_source(proto), Options(extra={"postprocess": option}), Report("t")
    )
    expected = onnxruntime_outputs(ir.to_proto(model), feed)
    path = encode(model, folder, options)
    return options.extra[DETECTIONS], dict(zip(NAMES, expected, strict=True)), run(path, feed), path


ROWS = {
    "corners": ((1, COUNT, CLASSES), "boxes=xyxy,score=0.3,iou=0.4"),
    "corners, y first": ((1, COUNT, CLASSES), "boxes=yxyx,score=0.3,iou=0.4"),
    "centres": ((1, COUNT, CLASSES), "boxes=cxcywh,score=0.3,iou=0.4"),
    "centres, y first": ((1, COUNT, CLASSES), "boxes=cycxhw"),
    "classes first": ((1, CLASSES, COUNT), "boxes=cxcywh,score=0.2"),
    "a background": ((1, COUNT, CLASSES), "boxes=xyxy,background=first"),
    "few places": ((1, COUNT, CLASSES), "boxes=xyxy,max=4"),
    "few of a class": ((1, COUNT, CLASSES), "boxes=xyxy,per_class=2"),
    "none": ((1, COUNT, CLASSES), "boxes=xyxy,score=2"),
    "no overlap": ((1, COUNT, CLASSES), "boxes=xyxy,iou=0"),
}


@pytest.mark.parametrize("name", ROWS)
def test_detections_are_those_of_onnxruntime(tmp_path: Path, name: str) -> None:
    dims, keys = ROWS[name]
    form = parse_detections(f"detection,{keys}").form or ""
    feed = some_boxes(form, dims)
    how, expected, got, path = expected_and_got(tmp_path, head(dims), f"detection,{keys}", feed)
    assert list(got) == list(NAMES)
    assert operators_of(path)[-1][0] == "TFLite_Detection_PostProcess"
    for output, array in detect(feed["boxes_in"], feed["scores_in"], how).items():
        np.testing.assert_allclose(got[output], expected[output], atol=3e-6, err_msg=output)
        np.testing.assert_allclose(array, expected[output], atol=3e-6, err_msg=output)


@pytest.mark.parametrize("form", ["dxdydwdh", "dydxdhdw"])
def test_offsets_go_to_the_operator_with_their_anchors(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "anchors.npy", 0.1 + rng.random((COUNT, 4), np.float32) * 0.5)
    option = f"detection,boxes={form},anchors={tmp_path / 'anchors.npy'},scales=10:9:5:4,score=0.3"
    how, expected, got, path = expected_and_got(tmp_path / "job", head(), option, feed := some_boxes(form))
    for output, array in detect(feed["boxes_in"], feed["scores_in"], how).items():
        np.testing.assert_allclose(got[output], expected[output], atol=3e-6, err_msg=output)
        np.testing.assert_allclose(array, expected[output], atol=3e-6, err_msg=output)
    assert "LOG" not in {name for name, _, _ in operators_of(path)}


def test_suppression_inside_gives_tensors_and_thresholds(tmp_path: Path) -> None:
    dims = (1, CLASSES, COUNT)
    feed = some_boxes("cxcywh", dims)
    how, expected, got, path = expected_and_got(tmp_path, head(dims, suppressed=True), "detection,max=9", feed)
    assert how == replace(how, boxes="boxes", scores="scores", form="cxcywh", per_class=5, limit=9)
    assert how.thresholds == (5, pytest.approx(0.4), pytest.approx(0.3))
    assert "NON_MAX_SUPPRESSION_V4" not in {name for name, _, _ in operators_of(path)}
    for output, array in expected.items():
        np.testing.assert_allclose(got[output], array, atol=3e-6, err_msg=output)


def test_the_options_are_read_back(tmp_path: Path) -> None:
    from convert.frontends.tensorflow.lite.detection_options import detection_options
    from tensorflow.lite.python import schema_py_generated as schema

    option = "detection,boxes=xyxy,max=7,per_class=3,score=0.25,iou=0.625,background=first"
    *_, path = expected_and_got(tmp_path, head(), option, some_boxes("xyxy"))
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    assert detection_options(bytes(model.subgraphs[0].operators[-1].customOptions)) == {
        "max_detections": 7,
        "max_classes_per_detection": 1,
        "detections_per_class": 3,
        "use_regular_nms": True,
        "num_classes": CLASSES - 1,
        "nms_score_threshold": pytest.approx(0.25),
        "nms_iou_threshold": 0.625,
        "scales": (1.0, 1.0, 1.0, 1.0),
    }


WRONG: dict[str, tuple[onnx.ModelProto, str, type[Exception], str]] = {
    "an unknown kind": (head(), "segmentation", UsageError, "only detection"),
    "an unknown key": (head(), "detection,box=xyxy", UsageError, "does not know 'box=xyxy'"),
    "an overlap above 1": (head(), "detection,iou=1.5", UsageError, "does not know 'iou=1.5'"),
    "no number": (head(), "detection,max=many", UsageError, "does not know 'max=many'"),
    "no score": (head(), "detection,score=nan", UsageError, "does not know 'score=nan'"),
    "a suppression that keeps nothing": (
        head((1, CLASSES, COUNT), suppressed=True, per_class=0),
        "detection",
        Unsupported,
        "keeps no box",
    ),
    "offsets without anchors": (head(), "detection,boxes=dxdydwdh", UsageError, "need each other"),
    "no file of anchors": (head(), "detection,boxes=dxdydwdh,anchors=no.npy", BadInput, "no.npy"),
    "an open batch": (head(("n", COUNT, CLASSES)), "detection", UsageError, "needs two outputs"),
    "several images": (head((2, COUNT, CLASSES)), "detection", UsageError, "needs two outputs"),
    "scores of other boxes": (head((1, 7, CLASSES)), "detection", UsageError, "needs two outputs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(tmp_path: Path, name: str) -> None:
    proto, option, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        convert.convert(proto, "tflite", tmp_path / "x.tflite", postprocess=option, verify=False)
    assert not list(tmp_path.iterdir())


def test_only_onnx_models_are_cut_before_their_suppression(tmp_path: Path) -> None:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([9, 4]), tf.TensorSpec([9])])
    def select(boxes, scores):
        return tf.gather(boxes, tf.image.non_max_suppression(boxes, scores, 5, 0.5))

    with pytest.raises(Unsupported, match="suppresses itself"):
        convert.convert(select, "tflite", tmp_path / "x.tflite", postprocess="detection")


def ssd(torch):
    """Return an SSD with two feature maps, 160 anchors and two classes behind a background."""
    nn = torch.nn

    def block(given: int, made: int) -> object:
        return nn.Sequential(nn.Conv2d(given, made, 3, 2, 1), nn.BatchNorm2d(made), nn.ReLU())

    class Ssd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Sequential(block(3, 8), block(8, 16)), block(16, 16)
            self.boxes = nn.ModuleList([nn.Conv2d(16, 8, 3, 1, 1) for _ in range(2)])
            self.classes = nn.ModuleList([nn.Conv2d(16, 6, 3, 1, 1) for _ in range(2)])
            self.register_buffer("anchors", torch.rand(160, 4) * 0.5 + 0.2)

        def forward(self, x):
            a = self.a(x)
            boxes, classes = (
                torch.cat(
                    [
                        m(f).permute(0, 2, 3, 1).reshape(x.shape[0], -1, columns)
                        for m, f in zip(ms, (a, self.b(a)), strict=True)
                    ],
                    1,
                )
                for ms, columns in ((self.boxes, 4), (self.classes, 3))
            )
            centre = self.anchors[:, :2] + boxes[..., :2] * 0.1 * self.anchors[:, 2:]
            sides = self.anchors[:, 2:] * torch.exp(boxes[..., 2:] * 0.2)
            return torch.cat([centre, sides], -1), torch.softmax(classes, -1)

    torch.manual_seed(3)
    net = Ssd()
    net.train()(torch.randn(8, 3, 32, 32))
    return net.eval()


OPTION = "detection,boxes=cxcywh,background=first,max=20,score=0.2"


@pytest.mark.slow
def test_an_ssd_from_pytorch_passes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "ssd.tflite"
    # Scores of random networks are so alike on large inputs that rounding decides their order.
    given = {"inputs": "x:float32[1,3,32,32]", "postprocess": OPTION, "layout": "nhwc"}
    report = convert.convert(ssd(torch), "tflite", path, verify=True, **given)
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    assert str(report.outputs[0]) == "detection_boxes: float32[1,20,4]"
    again = convert.verify(ssd(torch), path, **given)
    assert again.verdict is not None
    assert again.verdict.status == PASS, again.verdict.reason


@pytest.mark.slow
def test_a_wrong_threshold_fails(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "ssd.tflite"
    given = {"inputs": "x:float32[1,3,32,32]"}
    convert.convert(ssd(torch), "tflite", path, postprocess=OPTION, verify=False, **given)
    report = convert.verify(ssd(torch), path, postprocess=f"{OPTION},iou=0.3", **given)
    assert report.verdict is not None
    assert report.verdict.status == FAIL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantize", "io_dtype", "softmax"),
    [("int8", "float32", "float32"), ("int8", "uint8", "int8"), ("int16x8", "float32", "int16")],
)
def test_boxes_are_computed_in_floats(tmp_path: Path, quantize: str, io_dtype: str, softmax: str) -> None:
    """Boxes move by less than a step of their arithmetic would, although the backbone is in integers."""
    torch = pytest.importorskip("torch")
    net, path = ssd(torch), tmp_path / "ssd.tflite"
    samples = np.random.default_rng(0).standard_normal((20, 3, 32, 32)).astype(np.float32)
    report = convert.convert(
        net, "tflite", path, inputs="x:float32[1,3,32,32]", postprocess=OPTION, quantize=quantize,
        calibrate={"x": samples}, io_dtype=io_dtype,
    )  # fmt: skip
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    assert [row.name for row in report.verdict.outputs] == list(CANDIDATE_NAMES)
    assert "compared-before-selection" in {note.code for note in report.verdict.notes}
    rows = operators_of(path)
    dtypes = {name: {dtype for other, _, made in rows for dtype in made if other == name} for name, _, _ in rows}
    assert dtypes["EXP"] == dtypes["LOG"] == {"float32"}
    assert dtypes["CONV_2D"] == {quantize.removesuffix("x8")}
    assert dtypes["SOFTMAX"] == {softmax}


@pytest.mark.slow
def test_a_wrong_threshold_fails_in_8_bits(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "ssd.tflite"
    samples = np.random.default_rng(0).standard_normal((20, 3, 32, 32)).astype(np.float32)
    given = {"inputs": "x:float32[1,3,32,32]"}
    convert.convert(
        ssd(torch), "tflite", path, postprocess=OPTION, quantize="int8", calibrate={"x": samples}, verify=False, **given
    )
    method = VerifyMethod(arrays={"x": samples[:1]})
    for option in (OPTION, f"{OPTION},iou=0.3"):
        report = convert.verify(ssd(torch), path, postprocess=option, method=method, **given)
        assert report.verdict is not None
        assert (report.verdict.status == FAIL) == (option != OPTION), report.verdict.reason
        assert ("overlap by more than allowed" in report.verdict.reason) == (option != OPTION)
