"""Given, sampled and special inputs for each dtype, size and range, with values worked out by hand."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, ResourceLimit, UsageError
from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.parity.inputs.feeds import (
    closer_spans,
    feed_sizes,
    generate_feeds,
    given_feed,
    inputs_from_samples,
    smallest_feed,
)
from convert.request.given_arrays import load_inputs
from tests.convert.parity.input_models import plain, sized

T = ir.DataType


# -- given ------------------------------------------------------------------------------------------------------------


def test_a_folder_and_an_archive_hold_the_same(tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    np.save(folder / "b.npy", np.arange(3))
    np.save(folder / "a.npy", np.ones(2))
    np.savez(tmp_path / "in.npz", a=np.ones(2), b=np.arange(3))
    for path in (folder, tmp_path / "in.npz"):
        found = load_inputs(path)
        assert list(found) == ["a", "b"]
        np.testing.assert_array_equal(found["b"], np.arange(3))


@pytest.mark.parametrize("form", ["folder", "archive"])
def test_pickled_content_is_refused(form: str, tmp_path: Path) -> None:
    array = np.array([{"a": 1}], object)
    if form == "folder":
        (path := tmp_path / "in").mkdir()
        np.save(path / "a.npy", array, allow_pickle=True)
    else:
        np.savez(path := tmp_path / "in.npz", a=array)
    with pytest.raises(BadInput, match="contains no readable inputs"):
        load_inputs(path)


def zipped(**content: bytes) -> bytes:
    with zipfile.ZipFile(stream := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, held in content.items():
            archive.writestr(f"{name}.npy", held)
    return stream.getvalue()


def stored(array: np.ndarray) -> bytes:
    np.save(stream := io.BytesIO(), array)
    return stream.getvalue()


WHOLE = zipped(a=stored(np.random.default_rng(0).standard_normal(100)))


@pytest.mark.parametrize(
    "content",
    [
        None, b"", b"no archive", stored(np.zeros(2)), WHOLE[:-30], WHOLE[:4], zipped(a=stored(np.zeros(20))[:-9]),
        WHOLE[:200] + bytes(100) + WHOLE[300:], WHOLE.replace(b"\x14\x00\x00\x00\x08", b"\x14\x00\x01\x00\x08"),
        WHOLE.replace(b"\x00\x00\x08\x00", b"\x00\x00\x63\x00"),
        zipped(a=b"\x93NUMPY\x01\x00\x28\x23" + b"(" * 9000),
    ],
    ids=["missing", "empty", "text", "one array", "cut", "signature", "short member", "zeros in it", "encrypted",
         "unknown compression", "a header of brackets"],
)  # fmt: skip
def test_what_is_no_archive_of_arrays_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match="contains no readable inputs"):
        load_inputs(path)


def two_inputs() -> ir.Model:
    g = Graph()
    g.output(g.Add(g.input("a", T.FLOAT, ["n", 4]), g.input("b", T.FLOAT, [4])), "y")
    return g.model()


A, B = np.zeros((2, 4), np.float32), np.ones(4, np.float32)


@pytest.mark.parametrize("arrays", [{"a": A, "b": B}, {"b": B, "a": A}, {0: A, 1: B}, {"a": A, 1: B}])
def test_arrays_by_name_or_place_come_in_the_models_order(arrays: dict[Any, np.ndarray]) -> None:
    feed = given_feed(two_inputs(), arrays)
    assert (feed.label, list(feed.arrays), feed.edge, feed.special) == ("given inputs", ["a", "b"], False, False)
    assert feed.arrays["a"] is A


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"a": A}, r"the inputs given are \['a'\], the model's are \['a', 'b'\]"),
        ({0: A, 1: B, 3: B}, r"the inputs given are \['3', 'a', 'b'\]"),
        ({0: A, 1: B, 2: B}, r"the inputs given are \['2', 'a', 'b'\]"),
        ({"a": A.astype(np.float64), "b": B}, "input 'a' is float64, the model takes float32"),
        ({"a": A[:, :3], "b": B}, r"input 'a' has shape \[2, 3\], the model takes \[n,4\]"),
        ({"a": A[0], "b": B}, r"input 'a' has shape \[4\], the model takes"),
        ({"a": A, "b": B[None]}, r"input 'b' has shape \[1, 4\], the model takes \[4\]"),
        ({"a": A, "b": B[:, None]}, r"input 'b' has shape \[4, 1\], the model takes \[4\]"),
    ],
)
def test_other_arrays_are_refused(arrays: dict[Any, np.ndarray], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        given_feed(two_inputs(), arrays)


def test_samples_make_a_batch_of_at_most_so_many() -> None:
    samples = {"x": np.arange(400.0).reshape(100, 4)}
    np.testing.assert_array_equal(inputs_from_samples(plain(), samples)["x"], samples["x"][:32])
    assert inputs_from_samples(plain(), samples, most=3)["x"].shape == (3, 4)
    one = inputs_from_samples(plain(shape=(4,)), samples)["x"]
    np.testing.assert_array_equal(one, samples["x"][0])
    # Inputs with a fixed batch size, without a batch, or of unknown rank take the samples unchanged.
    assert inputs_from_samples(plain(shape=(100, 4)), samples)["x"].shape == (100, 4)
    assert inputs_from_samples(plain(shape=()), {"x": np.float32(3)})["x"].shape == ()
    assert inputs_from_samples(plain(shape=None), samples)["x"].shape == (100, 4)


# -- drawn ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (sized(["n", "h"]), [{"n": 2, "h": 16}, {"n": 1, "h": 16}, {"n": 3, "h": 17}, {"n": 2, "h": 16}]),
        (sized(["n", None]), [{"n": 2, "x.1": 16}, {"n": 1, "x.1": 16}, {"n": 3, "x.1": 17}]),
        (sized(["n", "h"], {"n": [4, 8], "h": [6, 64]}), [{"n": 4, "h": 16}, {"n": 4, "h": 6}, {"n": 8, "h": 64}]),
        (sized(["n", "h"], {"h": [2, 64]}), [{"n": 2, "h": 16}, {"n": 1, "h": 2}, {"n": 3, "h": 64}]),
        (sized(["n", "h"], {"h": [1, 65]}), [{"n": 2, "h": 16}, {"n": 1, "h": 16}, {"n": 3, "h": 17}]),
        (sized(["n", "h"], {"h": [None, 12], "n": [0, None]}), [{"n": 2, "h": 12}, {"n": 0, "h": 12}]),
        (sized(["n", "2*n"]), [{"n": 2, "2*n": 4}, {"n": 1, "2*n": 2}, {"n": 3, "2*n": 6}]),
        (sized(list("nabcde")), [{"n": 2} | dict.fromkeys("abcde", 16)]),
        (sized(list("nabcdef")), [{"n": 2} | dict.fromkeys("abcdef", 4)]),  # 16 of each would take gigabytes
        (sized(["n", "h"], guards=["h % 8 == 0"]), [{"n": 2, "h": 16}, {"n": 1, "h": 16}, {"n": 3, "h": 16}]),
    ],
)
def test_sizes_are_usual_least_and_most_in_turn(model: ir.Model, sizes: list[dict[str, int]]) -> None:
    assert list(feed_sizes(model, len(sizes))) == sizes


def test_a_dim_is_a_batch_if_it_leads_anywhere() -> None:
    g = Graph()
    g.output(g.Concat(g.Transpose(g.input("a", T.FLOAT, [3, "n"]), perm=[1, 0]), g.input("b", T.FLOAT, ["n", 3]),
                      axis=1), "y")  # fmt: skip
    assert next(iter(feed_sizes(g.model(), 1))) == {"n": 2}


def test_sets_are_normal_and_uniform_in_turn_and_the_same_each_time() -> None:
    model = plain(shape=(4000,))
    feeds = generate_feeds(model, 4)
    assert [f.label for f in feeds] == [f"seed {i}, {k}" for i, k in enumerate(("normal", "uniform") * 2)]
    for feed in feeds:
        x = feed.arrays["x"]
        assert x.dtype == np.float32
        normal = "normal" in feed.label
        assert abs(x.mean() - (0 if normal else 0.5)) < 0.06
        assert (x.min() < -2.5) if normal else (0 <= x.min() < 0.01 and 0.99 < x.max() <= 1)
    np.testing.assert_array_equal(generate_feeds(model, 1)[0].arrays["x"], feeds[0].arrays["x"])
    assert not np.array_equal(feeds[0].arrays["x"], feeds[2].arrays["x"])
    at = [f.arrays["x"].shape for f in generate_feeds(plain(), 3, [{"n": 7}, {"n": 5}])]
    assert at == [(7, 4), (5, 4), (7, 4)]


@pytest.mark.parametrize("dtype", [T.FLOAT16, T.BFLOAT16, T.DOUBLE, T.COMPLEX64, T.BOOL, T.STRING, T.UINT8, T.INT32])
def test_every_dtype_gets_its_own_kind_of_numbers(dtype: ir.DataType) -> None:
    for feed in generate_feeds(plain(dtype, (300,)), 2):
        x = feed.arrays["x"]
        assert x.shape == (300,)
        if dtype == T.STRING:
            assert set(x) == {"", "a", "bc", "Hello"}
            continue
        assert x.dtype == dtype.numpy()
        if dtype == T.BOOL:
            assert 100 < x.sum() < 200
        elif dtype == T.COMPLEX64:
            assert np.abs(x.imag).max() > 2
            assert abs(x.imag.mean()) < 0.2
            # The real part is what a real input would get.
            real = generate_feeds(plain(T.DOUBLE, (300,)), 2)["uniform" in feed.label].arrays["x"]
            np.testing.assert_allclose(x.real, real, rtol=1e-6)
        elif dtype == T.UINT8:  # a picture
            assert 150 < len(set(x.tolist())) <= 256
        elif x.dtype.kind in "iu":
            assert set(x.tolist()) == set(range(10))


def test_what_has_no_rank_is_drawn_with_several() -> None:
    model = plain(shape=None)
    feeds = generate_feeds(model)
    assert [f.arrays["x"].shape for f in feeds] == [(8, 4), (4,), (3, 8, 4)]
    assert "number of dims=3" in feeds[2].label
    edge = smallest_feed(model, 3)
    assert edge is not None
    assert edge.arrays["x"].shape == ()


def test_what_has_no_dtype_cannot_be_drawn() -> None:
    model = plain()
    model.graph.inputs[0].type = None
    with pytest.raises(UsageError, match="the dtype of input 'x' is not known"):
        generate_feeds(model)


def test_an_input_that_no_machine_holds_is_a_limit() -> None:
    with pytest.raises(ResourceLimit, match="which no machine holds"):
        generate_feeds(plain(T.FLOAT, (1 << 30, 1 << 30, 4)), 1)


def drawn(build: Callable[[Graph, ir.Value], ir.Value], shape: Any = (400,), noted: Any = None) -> np.ndarray:
    """Return integers sampled for a graph that reads them in this way."""
    g = Graph()
    ids = g.input("ids", T.INT64, shape)
    if noted is not None:
        ids.metadata_props[RANGE_KEY] = json.dumps(noted)
    g.output(build(g, ids), "y")
    return generate_feeds(g.model(), 1)[0].arrays["ids"]


TABLE = np.zeros((5, 7, 3), np.float32)


@pytest.mark.parametrize(
    ("build", "rows"),
    [
        (lambda g, i: g.Gather(TABLE, i), 5),
        (lambda g, i: g.Gather(TABLE, i, axis=1), 7),
        (lambda g, i: g.Gather(TABLE, i, axis=-1), 3),
        (lambda g, i: g.Gather(TABLE, g.Cast(i, to=T.INT32)), 5),
        (lambda g, i: g.Gather(TABLE, g.Reshape(g.Unsqueeze(i, np.array([0])), np.array([-1]))), 5),
        (lambda g, i: g.Gather(TABLE, g.Where(np.ones(400, bool), i, np.zeros(400, np.int64))), 5),
        (lambda g, i: g.Gather(TABLE, g.Where(np.ones(400, bool), np.zeros(400, np.int64), i)), 5),
        (lambda g, i: g.Add(g.ReduceSum(g.Gather(TABLE, i)), g.ReduceSum(g.Gather(TABLE[:2], i))), 2),
        (lambda g, i: g.GatherElements(np.zeros(6, np.float32), i), 6),
        (lambda g, i: g.GatherND(TABLE, g.Unsqueeze(i, np.array([1]))), 5),
        (lambda g, i: g.ScatterND(TABLE, g.Unsqueeze(i, np.array([1])), np.zeros((400, 7, 3), np.float32)), 5),
        (lambda g, i: g.ScatterElements(np.zeros(6, np.float32), i, np.zeros(400, np.float32)), 6),
        (lambda g, i: g.OneHot(i, np.array(4), np.array([0, 1])), 4),
        (lambda g, i: g.OneHot(i, np.array([4]), np.array([0, 1])), 4),
        # The sum of two is no index of its own, and the table of Gather is not indexed by its content.
        (lambda g, i: g.Gather(TABLE, g.Add(i, i)), 10),
        (lambda g, i: g.Gather(i, np.array([0])), 10),
        (lambda g, i: g.GatherND(TABLE, g.Reshape(i, np.array([200, 2]))), 10),
        (lambda g, i: g.GatherND(np.zeros((400, 3), np.float32), g.Unsqueeze(i, np.array([1])), batch_dims=1), 10),
    ],
)
def test_integers_stay_within_what_reads_them(build: Callable[[Graph, ir.Value], ir.Value], rows: int) -> None:
    assert set(drawn(build).tolist()) == set(range(rows))


@pytest.mark.parametrize(("limit", "rows"), [(2.0**31, 5), (9.0, None)])
def test_floats_behind_a_cast_that_saturates(limit: float, rows: int | None) -> None:
    """TensorFlow's Cast is written with the limits of the integer dtype; a limit of the model's own is different."""
    g = Graph()
    x = g.input("x", T.FLOAT, [400])
    kept = g.Cast(g.Max(x, np.float32(-limit)), to=T.INT32)
    g.output(g.Gather(TABLE, g.Where(g.Less(x, np.float32(limit)), kept, np.int32(7))), "y")
    found = generate_feeds(g.model(), 1)[0].arrays["x"]
    assert (set(found.tolist()) == set(range(rows))) if rows else not np.array_equal(found, np.round(found))


def test_places_in_a_cache_are_drawn_within_it() -> None:
    g = Graph()
    values = [
        g.input("cache", T.FLOAT, [400, 6, 2]),
        g.input("new", T.FLOAT, [400, 1, 2]),
        g.input("at", T.INT64, [400]),
    ]
    model = g.model()
    model.graph.append(node := ir.Node("", "TensorScatter", values))  # new in opset 24
    model.graph.outputs.append(node.outputs[0])
    assert set(generate_feeds(model, 1)[0].arrays["at"].tolist()) == set(range(6))


def test_rows_may_be_a_dim_of_an_input() -> None:
    g = Graph()
    table, ids = g.input("table", T.FLOAT, ["n", 3]), g.input("ids", T.INT64, [200])
    g.output(g.Gather(table, ids), "y")
    for feed in generate_feeds(g.model(), 3):
        assert set(feed.arrays["ids"].tolist()) == set(range(len(feed.arrays["table"])))


@pytest.mark.parametrize(
    ("noted", "found"), [([3, 5], {3, 4, 5}), ([5, 3], {5}), ([0, "n-1"], {0, 1}), ([-2, -1], {-2, -1})]
)
def test_noted_ranges_hold_both_ends(noted: Any, found: set[int]) -> None:
    assert set(drawn(lambda g, i: g.Neg(i), ("n", 200), noted).ravel().tolist()) == found


def test_noted_lengths_descend() -> None:
    lengths = drawn(lambda g, i: g.Neg(i), (50,), [1, 9, "descending"])
    assert (np.diff(lengths) <= 0).all()
    assert lengths[0] > lengths[-1]
    assert (np.diff(drawn(lambda g, i: g.Neg(i), (50,), [1, 9])) > 0).any()


@pytest.mark.parametrize("dtype", [T.BOOL, T.INT64, T.FLOAT])
def test_scalars_are_arrays(dtype: ir.DataType) -> None:
    """onnxruntime takes no numbers of numpy."""
    for feed in generate_feeds(plain(dtype, ())):
        assert isinstance(feed.arrays["x"], np.ndarray)
        assert feed.arrays["x"].shape == ()


def test_what_a_constant_index_picks_is_an_index_still() -> None:
    g = Graph()
    edges = g.input("x", T.INT64, (2, 400))
    g.output(g.Gather(np.zeros((3, 2), np.float32), g.Gather(edges, np.array(1), axis=0)), "y")
    assert {int(feed.arrays["x"].max()) for feed in generate_feeds(g.model())} == {2}


def test_closer_integers_stay_within_what_reads_them() -> None:
    g = Graph()
    g.output(g.Gather(TABLE, g.input("ids", T.INT64, (50,))), "y")
    drawn_at = [generate_feeds(g.model(), 1, spans={"ids": span})[0].arrays["ids"] for span in ((7, 9), (2, 3), (3, 9))]
    assert [(int(found.min()), int(found.max())) for found in drawn_at] == [(4, 4), (2, 3), (3, 4)]


def test_closer_integers_are_those_of_the_example_or_not_zero() -> None:
    g = Graph()
    a, b = g.input("a", T.INT64, (3,)), g.input("b", T.INT32, (3,))
    g.output(g.Add(a, g.Cast(b, to=T.INT64)), "y")
    model = g.model()
    assert closer_spans(model, {}) == [{"a": (1, 9), "b": (1, 9)}, {"a": (1, 1), "b": (1, 1)}]
    assert closer_spans(model, {1: np.array([4, -2, 7])}) == [{"a": (1, 9), "b": (-2, 7)}, {"a": (1, 1), "b": (-2, 7)}]
    assert closer_spans(model, {"a": np.array([3]), "b": np.array([0, 2])}) == [{"a": (3, 3), "b": (0, 2)}]
    assert closer_spans(plain(), {"x": np.ones((2, 4))}) == []
    drawn = generate_feeds(model, 9, (), {"a": (1, 1), "b": (-2, 7)})
    assert {int(n) for feed in drawn for n in feed.arrays["a"]} == {1}
    values = {int(n) for feed in drawn for n in feed.arrays["b"]}
    assert values <= set(range(-2, 8))
    assert len(values) > 5
