"""The preparation of images and the storage of input sets, for each key and name."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from convert.errors import BadInput, UsageError
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.saved import input_sets, save_feeds
from convert.request.given_arrays import load_inputs
from convert.request.image_inputs import ImagePreparation, image_batch, parse_preparation


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ImagePreparation()),
        (" , ", ImagePreparation()),
        ("224x192", ImagePreparation(size=(224, 192))),
        ("size=224x192", ImagePreparation(size=(224, 192))),
        ("mean=0.5", ImagePreparation(mean=(0.5,))),
        ("mean=0.1:0.2:0.3, std=1:2:3", ImagePreparation(mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 3.0))),
        ("scale=1", ImagePreparation(scale=1.0)),
        ("channels=gray,mean=0.5,std=2", ImagePreparation(channels="gray", mean=(0.5,), std=(2.0,))),
        ("channels=bgr,layout=nhwc,resize=lanczos,dtype=uint8",
         ImagePreparation(channels="bgr", layout="nhwc", resize="lanczos", dtype="uint8")),
        ("input=x:0", ImagePreparation(input="x:0")),
    ],
)  # fmt: skip
def test_a_preparation_is_read(text: str, found: ImagePreparation) -> None:
    assert parse_preparation(text) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("big", "does not know 'big'"),
        ("layout=hwc", "does not know 'layout=hwc'"),
        ("input=", "does not know 'input='"),
        ("mean=a", "'mean=a' holds no number"),
        ("scale=", "'scale=' holds no number"),
        ("mean=1:2", "mean needs one number for each of 3 channels"),
        ("std=1:2:3:4", "std needs one number for each of 3 channels"),
        ("channels=gray,mean=1:2:3", "mean needs one number for each of 1 channels"),
        ("std=0", "std, scale or a size is 0"),
        ("std=1:0:1", "std, scale or a size is 0"),
        ("scale=0", "std, scale or a size is 0"),
        ("0x5", "std, scale or a size is 0"),
        ("5x0", "std, scale or a size is 0"),
    ],
)
def test_a_preparation_that_makes_no_sense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        parse_preparation(text)
    assert "224x224" in str(caught.value.hint)


PIXELS = np.random.default_rng(1).integers(0, 256, (4, 6, 3), dtype=np.uint8)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pytest.importorskip("PIL.Image").fromarray(PIXELS).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_pixels_are_scaled_shifted_and_laid_out(picture: Path) -> None:
    found = image_batch([picture, picture], parse_preparation("mean=0.5:0.25:0,std=2:4:1"))
    assert list(found) == [0]
    wanted = ((PIXELS / 255 - [0.5, 0.25, 0]) / [2, 4, 1]).transpose(2, 0, 1).astype(np.float32)
    assert (found[0].shape, found[0].dtype) == ((2, 3, 4, 6), np.float32)
    np.testing.assert_allclose(found[0], np.stack([wanted, wanted]), rtol=1e-6)
    (turned,) = image_batch([picture], parse_preparation("channels=bgr,layout=nhwc,scale=1,input=x"))["x"]
    np.testing.assert_array_equal(turned, PIXELS[..., ::-1])
    (whole,) = image_batch([picture], parse_preparation("dtype=uint8,scale=1,mean=10.4,layout=nhwc"))[0]
    np.testing.assert_array_equal(whole, np.clip(np.rint(PIXELS - 10.4), 0, 255))
    (gray,) = image_batch([picture], parse_preparation("channels=gray,3x2"))[0]
    assert gray.shape == (1, 3, 2)


def test_pictures_of_one_batch_have_one_size(picture: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image").fromarray(PIXELS[:, :4]).save(tmp_path / "b.png")
    with pytest.raises(UsageError, match="the images have different sizes"):
        image_batch([picture, tmp_path / "b.png"], ImagePreparation())
    assert image_batch([picture, tmp_path / "b.png"], parse_preparation("8x8"))[0].shape == (2, 3, 8, 8)
    picture.write_bytes(b"no picture")
    with pytest.raises(BadInput, match="is not a readable image"):
        image_batch([picture], ImagePreparation())


def test_every_set_comes_back_with_its_dtypes(tmp_path: Path) -> None:
    half = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    small = np.array([0.5, 1.0], ml_dtypes.float8_e4m3fn)
    text = np.array(["a", "bc"], object)
    feeds = [Feed("a", {"x": half, "file": np.arange(3)}), Feed("b", {"x": 2 * half, "args": text}),
             Feed("c", {"x@": small})]  # fmt: skip
    save_feeds(tmp_path / "in.npz", feeds)
    loaded = load_inputs(tmp_path / "in.npz")
    assert sorted(loaded) == ["args@1", "file", "x:bfloat16", "x@1:bfloat16", "x@@2:float8_e4m3fn"]
    sets = input_sets(loaded)
    assert [sorted(s) for s in sets] == [["file", "x"], ["args", "x"], ["x@"]]
    for feed, found in zip(feeds, sets, strict=True):
        for name, array in feed.arrays.items():
            assert found[name].dtype == array.dtype
            assert (found[name] == array).all()
    with zipfile.ZipFile(tmp_path / "in.npz") as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())


@pytest.mark.parametrize(
    ("arrays", "names"),
    [
        ({"x": 1}, [["x"]]),
        ({0: 1, 1: 2}, [[0, 1]]),
        ({"x": 1, "x@1": 2, "y@1": 3}, [["x"], ["x", "y"]]),
        ({"x@0": 1}, [["x"]]),
        ({"@1": 1}, [["@1"]]),
        ({"x@a": 1}, [["x@a"]]),
        ({"x:0": 1}, [["x:0"]]),
        ({"x:bfloat16": 1}, [["x:bfloat16"]]),  # not bfloat16's storage dtype, so it stays in the name
    ],
)
def test_sets_are_told_by_their_numbers(arrays: dict[Any, int], names: list[list[Any]]) -> None:
    found = input_sets({k: np.array(v) for k, v in arrays.items()})
    assert [list(s) for s in found] == names


@pytest.mark.parametrize("names", [["x", "x@2"], ["x@1"], ["x@1", "x@2"]])
def test_a_set_that_lacks_is_an_error(names: list[str]) -> None:
    with pytest.raises(BadInput, match="the sets of inputs are numbered"):
        input_sets({n: np.zeros(1) for n in names})


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--save-inputs"):
        save_feeds(tmp_path, [Feed("a", {"x": np.zeros(1)})])


def _array(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(16)


def _archive(path: Path, name: str, content: bytes, method: int = 0) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content)
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the width in which it is packed
        data[data.find(mark) + offset] = method
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: os.mkfifo(path), "is no file"),
        (lambda path: path.symlink_to("/dev/zero"), "is no file"),
        (lambda path: (path.mkdir(), os.mkfifo(path / "x.npy")), "is no file"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 40)), "1,099.5 GB"),
        (Path.mkdir, "no array"),
        (lambda path: np.savez(path), "no array"),
        (lambda path: _archive(path, "x.npy", b""), "'x' is not an array"),
        (lambda path: _archive(path, "x.npy", b"\x09\x04\x05\x00" + b"\xff" * 300, 14), "options"),
        (lambda path: _archive(path, "x.npy", _array(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 1)}\n")), "integer"),
    ],
)  # fmt: skip
def test_what_holds_no_arrays_is_bad_input(make: Callable[[Path], object], reason: str, tmp_path: Path) -> None:
    make(tmp_path / "in.npz")
    with pytest.raises(BadInput, match=reason):
        load_inputs(tmp_path / "in.npz")


@pytest.mark.parametrize("dtype", ["S2", "float32", "int64", "bool", "complex64", "datetime64[D]"])
def test_what_is_no_text_stays_what_it_is(dtype: str) -> None:
    """Bytes are no text: they are refused where text is expected."""
    array = np.zeros(2, dtype)
    assert input_sets({"x": array})[0]["x"] is array
    words = input_sets({"x": np.array(["a", "bc"])})[0]["x"]
    assert (words.dtype, words.tolist()) == (np.dtype(object), ["a", "bc"])


@pytest.mark.parametrize("name", ["x@²", "x@" + "9" * 5000])
def test_a_name_that_only_looks_numbered_is_a_name(name: str) -> None:
    assert input_sets({name: np.zeros(1)})[0].keys() == {name}


def test_no_program_is_started_for_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    (tmp_path / "gs").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n%%EOF\n"
    (tmp_path / "picture.png").write_bytes(postscript)
    with pytest.raises(BadInput, match="not a readable image"):
        image_batch([tmp_path / "picture.png"], ImagePreparation())
    assert not (tmp_path / "started").exists()


def test_a_pipe_is_no_picture(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "picture.png")
    with pytest.raises(BadInput, match="is not a file"):
        image_batch([tmp_path / "picture.png"], ImagePreparation())
