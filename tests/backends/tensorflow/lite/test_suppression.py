"""NonMaxSuppression by TensorFlow Lite's kernel, which has other rules for ties, equal overlaps and empty boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.outcome.verdict import FAIL, PASS
from convert.parity.method import VerifyMethod
from convert.request.options import Options
from tests.backends.tensorflow.lite.test_quantized import onnxruntime_outputs, operators_of
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

Dims = tuple[int | str, int | str, int | str]


def suppression(
    dims: Dims, most: int, overlap: float | None, least: float | None, *, computed: bool = False, **attributes: int
) -> onnx.ModelProto:
    """Return a model of one NonMaxSuppression. dims: batch, classes, boxes. computed: whether the overlap is an
    input.
    """
    batch, classes, count = dims
    constants = {"most": np.array([most]), "overlap": overlap, "least": least}
    given = {k: np.float32([v]) if isinstance(v, float) else v for k, v in constants.items() if v is not None}
    names = ["boxes", "scores", *(k if constants[k] is not None else "" for k in constants)]
    node = helper.make_node("NonMaxSuppression", names, ["rows"], **attributes)
    inputs = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [batch, count, 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, classes, count]),
    ]
    if computed:
        inputs.append(helper.make_tensor_value_info("overlap", TensorProto.FLOAT, [1]))
        del given["overlap"]
    outputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, [None, 3])]
    initializers = [numpy_helper.from_array(v, k) for k, v in given.items()]
    graph = helper.make_graph([node], "suppression", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def some_boxes(batch: int, classes: int, count: int) -> dict[str, np.ndarray]:
    """Return boxes, of which some are equal, empty or share half of their area, with scores, of which some are
    equal.
    """
    rng = np.random.default_rng(0)
    corners = rng.random((batch, count, 2)) * 0.7
    boxes = np.concatenate([corners, corners + rng.random((batch, count, 2)) * 0.5], 2).astype(np.float32)
    boxes[:, 1] = boxes[:, 0]
    boxes[:, 2, 2:] = boxes[:, 2, :2]
    boxes[:, 3:5] = [[2, 2, 3, 3], [2, 2, 3, 2.5]]
    boxes[:, 5] = [3, 3, 2, 2]
    scores = rng.random((batch, classes, count)).astype(np.float32)
    scores[..., :4] = 0.9
    return {"boxes": boxes, "scores": scores}


CASES: dict[str, tuple[onnx.ModelProto, tuple[int, int, int]]] = {
    "known dims": (suppression((2, 3, 12), 4, 0.5, 0.3), (2, 3, 12)),
    "all boxes": (suppression((1, 2, 12), 2**62, 0.5, None), (1, 2, 12)),
    "no boxes": (suppression((1, 2, 12), 0, 0.5, None), (1, 2, 12)),
    "no overlap": (suppression((1, 2, 12), 9, None, 0.2), (1, 2, 12)),
    "centres": (suppression((1, 2, 12), 9, 0.4, 0.2, center_point_box=1), (1, 2, 12)),
    "none above": (suppression((1, 2, 12), 9, 0.4, 2.0), (1, 2, 12)),
    "unknown batch": (suppression(("n", 2, 12), 5, 0.5, 0.3), (3, 2, 12)),
    "unknown count": (suppression((1, 2, "n"), 5, 0.5, 0.3), (1, 2, 15)),
    "many classes": (suppression((1, 150, 9), 5, 0.5, 0.3), (1, 150, 9)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rows_are_those_of_onnxruntime(tmp_path: Path, name: str) -> None:
    proto, sizes = CASES[name]
    path = encode(graph_of(proto), tmp_path)
    feed = some_boxes(*sizes)
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    np.testing.assert_array_equal(got, expected)
    kernels = [operator for operator, _, _ in operators_of(path)]
    assert {"NON_MAX_SUPPRESSION_V4", "WHILE"} & set(kernels) or name == "no boxes"


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 0.3])
def test_an_overlap_that_is_computed_drops_what_is_above(tmp_path: Path, overlap: float) -> None:
    proto = suppression((1, 2, 12), 9, 0.5, 0.2, computed=True)
    path = encode(graph_of(proto), tmp_path)
    feed = some_boxes(1, 2, 12) | {"overlap": np.float32([overlap])}
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    np.testing.assert_array_equal(got, expected)


def test_scores_are_sorted_and_compared_in_floats(tmp_path: Path) -> None:
    """TensorFlow 2.21 quantizes operators with several results, or a boolean one, that are to stay in floats."""
    proto, feed = suppression((1, 2, 12), 9, 0.5, 0.3), some_boxes(1, 2, 12)
    given = {name: np.repeat(array[None], 4, 0) for name, array in feed.items()}
    path = encode(graph_of(proto), tmp_path, Options(quantize="int8", calibrate=given))
    dtypes = {operator: inputs for operator, inputs, _ in operators_of(path)}
    assert dtypes["TOPK_V2"][0] == dtypes["GREATER"][0] == dtypes["GREATER"][1] == "float32"
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["yolo", "ssd"])
def test_a_detector_with_suppression_inside_passes(tmp_path: Path, head: str) -> None:
    proto = selecting(tmp_path, head, batch=2)
    onnx.save(proto, tmp_path / "net.onnx")
    report = convert.convert(tmp_path / "net.onnx", "tflite", tmp_path / "net.tflite")
    assert report.verdict is not None
    assert report.verdict.status == PASS


DEFECTS: dict[str, dict[str, Any]] = {
    "another overlap": {"overlap": 0.3},
    "another least score": {"least": 0.9},
    "fewer boxes": {"most": 3},
    "larger boxes": {"boxes": 1.5},
    "lower scores": {"scores": 0.8},
}


@pytest.mark.slow
@pytest.mark.parametrize(("head", "quantize"), [("ssd", ""), ("yolo", "int8")])
def test_a_selection_from_nearly_equal_boxes_is_judged_in_two_steps(tmp_path: Path, head: str, quantize: str) -> None:
    """Rounding selects other boxes than in the source, for large inputs in floats too. A wrong setting, box or score
    is still found.
    """
    samples = np.random.default_rng(0).standard_normal((20, 1, 3, 32, 32)).astype(np.float32)
    options: dict[str, Any] = {"quantize": quantize, "calibrate": {"x": samples}} if quantize else {}
    path = tmp_path / "net.tflite"
    report = convert.convert(selecting(tmp_path, head), "tflite", path, **options)
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    codes = {note.code for note in report.verdict.notes}
    assert "compared-before-selection" in codes
    dtypes = {operator: given for operator, given, _ in operators_of(path)}
    assert dtypes["TOPK_V2"][0] == dtypes["GREATER"][0] == "float32"
    method = VerifyMethod(arrays={"x": samples[0]})
    for defect, changed in DEFECTS.items():
        found = convert.verify(selecting(tmp_path, head, **changed), path, method=method).verdict
        assert found is not None
        assert found.status == FAIL, (defect, found.reason)


def selecting(folder: Path, head: str, *, batch: int = 1, boxes: float = 1, scores: float = 1, most: int = 20,
              overlap: float = 0.5, least: float = 0.4) -> onnx.ModelProto:  # fmt: skip
    """Return a detector that ends with the rows that NonMaxSuppression selects, and their boxes and scores.

    boxes, scores: factors of both before the selection.
    """
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    net = detector(torch, head)
    x = torch.randn(8, 3, 32, 32)
    net.train()(x)
    torch.onnx.export(net.eval(), (x[:batch],), folder / "head.onnx", dynamo=False, opset_version=17,
                      input_names=["x"], output_names=["own_boxes", "own_scores"])  # fmt: skip
    proto = onnx.load(folder / "head.onnx")
    numbers = {"most": np.array([most]), "overlap": np.float32([overlap]), "least": np.float32([least])}
    factors = {"boxes": boxes, "scores": scores}
    for name, factor in factors.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), f"{name}_factor"))
        proto.graph.node.append(helper.make_node("Mul", [f"own_{name}", f"{name}_factor"], [name]))
    proto.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in numbers.items())
    proto.graph.initializer.append(numpy_helper.from_array(np.array([0, 2]), "columns"))
    made = [
        helper.make_node("NonMaxSuppression", ["boxes", "scores", *numbers], ["rows"], center_point_box=1),
        helper.make_node("Gather", ["rows", "columns"], ["places"], axis=1),
        helper.make_node("GatherND", ["boxes", "places"], ["kept"]),
        helper.make_node("GatherND", ["scores", "rows"], ["sure"]),
    ]
    proto.graph.node.extend(made)
    del proto.graph.output[:]
    for name, kind, dims in (("rows", TensorProto.INT64, [None, 3]), ("kept", 1, [None, 4]), ("sure", 1, [None])):
        proto.graph.output.append(helper.make_tensor_value_info(name, kind, dims))
    return proto


def detector(torch, head: str):
    """Return a small network with the head of a YOLO (decoded grids) or of an SSD (anchors and softmax)."""
    nn = torch.nn

    def block(given: int, made: int) -> object:
        return nn.Sequential(nn.Conv2d(given, made, 3, 2, 1), nn.BatchNorm2d(made), nn.SiLU())

    class Yolo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Sequential(block(3, 8), block(8, 16)), block(16, 16)
            self.heads = nn.ModuleList([nn.Conv2d(16, 7, 1), nn.Conv2d(16, 7, 1)])

        def forward(self, x):
            a = self.a(x)
            made = []
            for features, last, step in zip((a, self.b(a)), self.heads, (4.0, 8.0), strict=True):
                size = features.shape[-1]
                y = last(features).flatten(2)
                rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
                grid = torch.stack([columns, rows]).flatten(1).float()
                centre = (torch.sigmoid(y[:, :2]) * 2 - 0.5 + grid) * step
                made.append(
                    torch.cat([centre, (torch.sigmoid(y[:, 2:4]) * 2) ** 2 * step * 2, torch.sigmoid(y[:, 4:] * 3)], 1)
                )
            y = torch.cat(made, 2)
            return y[:, :4].transpose(1, 2), y[:, 4:]

    class Ssd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Sequential(block(3, 8), block(8, 16)), block(16, 16)
            self.boxes = nn.ModuleList([nn.Conv2d(16, 8, 3, 1, 1) for _ in range(2)])
            self.classes = nn.ModuleList([nn.Conv2d(16, 8, 3, 1, 1) for _ in range(2)])
            self.register_buffer("anchors", torch.rand(160, 4) * 0.5 + 0.2)

        def forward(self, x):
            a = self.a(x)
            maps = a, self.b(a)
            boxes, classes = (
                torch.cat(
                    [m(f).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4) for m, f in zip(ms, maps, strict=True)], 1
                )
                for ms in (self.boxes, self.classes)
            )
            centre = self.anchors[:, :2] + boxes[..., :2] * 0.1 * self.anchors[:, 2:]
            sides = self.anchors[:, 2:] * torch.exp(boxes[..., 2:] * 0.2)
            return torch.cat([centre, sides], -1), torch.softmax(classes * 4, -1)[..., 1:].transpose(1, 2)

    return Yolo() if head == "yolo" else Ssd()


def test_ranks_and_corners_are_floats_in_a_calibrated_model(tmp_path: Path) -> None:
    """In 8 bits there would be 255 ranks, and boxes of equal rank are selected in any order."""
    rng = np.random.default_rng(0)
    samples = {"boxes": rng.random((4, 300, 4), np.float32), "scores": rng.random((4, 2, 300), np.float32)}
    model = suppression((1, 2, 300), 5, 0.5, 0.3, center_point_box=1)
    path = encode(graph_of(model), tmp_path, Options(quantize="int8", calibrate=samples))
    rows = operators_of(path)
    assert "NON_MAX_SUPPRESSION_V4" in {name for name, _, _ in rows}
    computing = [made for name, _, made in rows if name in ("ADD", "MUL", "SELECT", "SELECT_V2", "SUB")]
    assert "float32" in {dtype for made in computing for dtype in made}
    assert "int8" not in {dtype for made in computing for dtype in made}
