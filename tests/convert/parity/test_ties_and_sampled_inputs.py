"""Ties of selected scores, the worst elements, sampled inputs and images, with numbers worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import UsageError
from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.parity.explain.picks import worst_elements
from convert.parity.inputs.feeds import generate_feeds, inputs_from_samples
from convert.request.image_inputs import ImagePreparation, image_batch, parse_preparation

F, I64, I32 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT32

NEAR = np.nextafter(np.float32(0.7), np.float32(0))
SCORES = np.array([[0.1, 0.7, NEAR, 0.2], [0.5, 0.1, 0.2, 0.3], [0.3, 0.2, 0.1, 0.9]], np.float32)


def picker(operator: str, axis: int | None = None, keep: int = 1, then: str = "") -> ir.Model:
    g = Graph()
    x = g.input("x", F, list(SCORES.shape))
    at = {} if axis is None else {"axis": axis}
    y = g.TopK(x, [2], outputs=2, **at)[1] if operator == "TopK" else getattr(g, operator)(x, keepdims=keep, **at)
    g.output({"Cast": lambda: g.Cast(y, to=I32), "Add": lambda: g.Add(y, y), "": lambda: y}[then](), "y")
    return g.model()


def test_the_worst_elements_come_first_and_are_five_at_most() -> None:
    reference = np.array([[1.0, -1.0], [1.0, -1.0]])
    target = np.array([[1.1, -1.0], [0.7, -1.2]])
    first, second, third = worst_elements([reference], [target], ["a"])
    assert [e.index for e in (first, second, third)] == [(1, 0), (1, 1), (0, 0)]
    assert (first.reference, first.target, first.feed) == (1.0, 0.7, "a")
    assert [e.error for e in (first, second, third)] == pytest.approx([0.3, 0.2, 0.1])
    both = worst_elements([reference, 10 * reference], [target, 10 * reference + 20], ["a", "b"], most=3)
    assert [e.feed for e in both] == ["b"] * 3
    assert [e.error for e in both] == pytest.approx([2.0] * 3)
    assert len(worst_elements([np.zeros(9)], [np.ones(9)], ["a"])) == 5
    (count,) = worst_elements([np.array([3, 4])], [np.array([3, 9])], ["a"])
    assert (count.index, count.error) == ((1,), 5.0)
    for kind in (np.array(["a"], object), np.zeros((0,)), np.array([1j])):
        assert worst_elements([kind], [kind + kind if kind.size and kind.dtype.kind == "O" else kind], ["a"]) == []
    assert worst_elements([np.zeros(2)], [np.ones(3)], ["a"]) == []
    infinite = worst_elements([np.array([1.0, np.inf, -np.inf])], [np.array([1.5, np.inf, np.inf])], ["a"])
    assert [e.index for e in infinite] == [(2,), (0,)]
    assert infinite[0].error == np.inf


def test_drawn_inputs_keep_to_what_their_readers_hold() -> None:
    g = Graph()
    ids = g.input("ids", I64, ["n", 50])
    noted = g.input("noted", I64, [400])
    lengths = g.input("lengths", I64, [40])
    noted.metadata_props[RANGE_KEY] = json.dumps([3, 5])
    lengths.metadata_props[RANGE_KEY] = json.dumps([1, "n", "descending"])
    deep = g.Gather(np.zeros((7, 4), np.float32), g.Reshape(ids, [-1]), axis=0)
    for name, value in (
        ("a", deep),
        ("b", g.Abs(noted)),
        ("c", g.Abs(lengths)),
        ("d", g.Neg(g.input("x", F, ["n", 300]))),
    ):
        g.output(value, name)
    feeds = generate_feeds(g.model(), 4)
    assert len(feeds) >= 4
    for feed in feeds[:4]:
        arrays = feed.arrays
        assert arrays["ids"].shape == (arrays["x"].shape[0], 50)
        assert set(np.unique(arrays["noted"])) <= {3, 4, 5}
        assert (np.diff(arrays["lengths"]) <= 0).all()
        assert arrays["lengths"].min() >= 1
        assert arrays["lengths"].max() <= arrays["x"].shape[0]
        assert arrays["ids"].min() >= 0
        assert arrays["ids"].max() < 7
    assert np.concatenate([f.arrays["noted"] for f in feeds[:4]]).max() == 5
    assert np.concatenate([f.arrays["ids"].ravel() for f in feeds[:4]]).max() == 6
    assert len({f.arrays["x"].shape[0] for f in feeds[:3]}) > 1


def test_calibration_samples_become_one_batch() -> None:
    g = Graph()
    for name, shape in (("a", ["n", 2]), ("b", [3, 2]), ("c", [2])):
        g.output(g.Neg(g.input(name, F, shape)), f"{name}_out")
    samples = {"a": np.zeros((40, 2)), "b": np.arange(24.0).reshape(4, 3, 2), "c": np.array([5.0, 6.0])}
    found = inputs_from_samples(g.model(), samples, most=8)
    assert found["a"].shape == (8, 2)
    np.testing.assert_array_equal(found["b"], samples["b"][0])
    np.testing.assert_array_equal(found["c"], samples["c"])


PIXELS = np.random.default_rng(0).integers(0, 256, (3, 5, 3), dtype=np.uint8)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(PIXELS).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_pictures_are_normalized_by_channel_and_laid_out(picture: Path) -> None:
    how = parse_preparation("mean=0.1:0.2:0.3,std=0.5:0.25:2,scale=100,layout=nhwc,dtype=float64,input=x")
    (found,) = image_batch([picture], how)["x"]
    np.testing.assert_allclose(found, (PIXELS / 100 - [0.1, 0.2, 0.3]) / [0.5, 0.25, 2.0])
    plain = image_batch([picture, picture], ImagePreparation())[0]
    assert (plain.shape, plain.dtype) == ((2, 3, 3, 5), np.float32)
    np.testing.assert_allclose(plain[1], (PIXELS / 255).transpose(2, 0, 1), rtol=1e-6)
    (turned,) = image_batch([picture], ImagePreparation(channels="bgr", layout="nhwc", scale=1.0))[0]
    np.testing.assert_array_equal(turned, PIXELS[..., [2, 1, 0]])
    (bytes_,) = image_batch([picture], ImagePreparation(dtype="uint8", layout="nhwc", scale=0.5))[0]
    assert bytes_.dtype == np.uint8
    np.testing.assert_array_equal(bytes_, np.minimum(PIXELS.astype(int) * 2, 255))


def test_pictures_are_resized_to_height_by_width(picture: Path) -> None:
    how = parse_preparation("6x20,resize=nearest,channels=gray")
    assert how.size == (6, 20)
    (found,) = image_batch([picture], how)[0]
    assert found.shape == (1, 6, 20)
    assert parse_preparation("size=4x7").size == (4, 7)


@pytest.mark.parametrize(
    "text",
    ["mean=1:2", "std=1:2:3:4", "std=0", "std=1:0:1", "scale=0", "0x4", "4x0", "channels=gray,mean=1:2:3", "mean=a",
     "layout=nc", "input=", "4x", "shape=4x4"],
)  # fmt: skip
def test_preparations_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="--image-as"):
        parse_preparation(text)
