"""Metadata of TensorFlow Lite files: labels and normalization, written and read back."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from convert.backends.tensorflow.lite.metadata import FileMetadata, Picture, add_metadata
from convert.frontends.tensorflow.lite.file_metadata import described_tensors

import convert
from convert.errors import UsageError
from convert.request.options import Options
from tests.backends.tensorflow.lite.test_io_dtypes import MNIST, digits
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def labels(folder: Path, words: list[str]) -> str:
    path = folder / "digits.txt"
    path.write_text("\n".join(words) + "\n\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode(graph_of(MNIST), tmp_path_factory.mktemp("plain"))


def test_labels_and_normalization_are_read_back(tmp_path: Path, plain: Path) -> None:
    given = {"labels": labels(tmp_path, DIGITS), "image_input": "28x28,channels=gray,mean=0.5,std=0.25"}
    path = encode(graph_of(MNIST), tmp_path / "lite", Options(extra=given))
    assert described_tensors(memoryview(path.read_bytes())) == [
        "input image: gray picture 28x28, (pixel - 127.5) / 63.75",
        "output log_probs: labels in labels.txt",
    ]
    with zipfile.ZipFile(path) as archive:
        assert archive.read("labels.txt").decode().split() == DIGITS
    images = digits(4)
    for expected, got in zip(*(run(p, {"image": images}).values() for p in (plain, path)), strict=True):
        np.testing.assert_array_equal(got, expected)
    notes = [note for note in convert.inspect(path).notes if note.code == "file-metadata"]
    assert [note.level for note in notes] == ["action", "action"]


def test_channels_have_numbers_of_their_own(plain: Path) -> None:
    picture = Picture("image", [123.675, 116.28, 103.53], [58.395, 57.12, 57.375], size=[224, 320])
    data = add_metadata(plain.read_bytes(), FileMetadata(["image"], ["log_probs"], picture))
    assert described_tensors(memoryview(data)) == [
        "input image: RGB picture 224x320, (pixel - 123.675:116.28:103.53) / 58.395:57.12:57.375"
    ]


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    given = Options(extra={"labels": labels(tmp_path, DIGITS)})
    first, second = (encode(graph_of(MNIST), tmp_path / name, given).read_bytes() for name in "ab")
    assert first == second


def test_a_file_without_metadata_says_nothing(plain: Path) -> None:
    assert described_tensors(memoryview(plain.read_bytes())) == []


def test_damaged_metadata_is_left_out(plain: Path) -> None:
    data = add_metadata(plain.read_bytes(), FileMetadata(["image"], ["log_probs"], Picture("image", [0.0], [1.0])))
    at = data.index(b"M001")
    rng = np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(data)
        for place in rng.integers(at - 4, at + 200, 6):
            broken[place] = rng.integers(256)
        assert len(described_tensors(memoryview(bytes(broken)))) <= 2


@pytest.mark.parametrize(
    ("words", "why"), [(DIGITS[:9], "has 9 labels, and no output has as many"), ([], "holds no labels")]
)
def test_labels_that_fit_no_output_are_refused(tmp_path: Path, words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        encode(graph_of(MNIST), tmp_path / "lite", Options(extra={"labels": labels(tmp_path, words)}))


@pytest.mark.parametrize(("text", "why"), [("input=picture", "'picture'"), ("mean=a", "no number")])
def test_pictures_that_fit_no_input_are_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        encode(graph_of(MNIST), tmp_path, Options(extra={"image_input": text}))


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"quantize": "int8", "calibrate": {"image": digits()}, "io_dtype": "uint8"}])
def test_files_with_metadata_are_verified(tmp_path: Path, more: dict[str, object]) -> None:
    path = tmp_path / "m.tflite"
    report = convert.convert(MNIST, "tflite", path, labels=labels(tmp_path, DIGITS), image_input="28x28", **more)
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert len(described_tensors(memoryview(path.read_bytes()))) == 2


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "folder"])
def test_labels_that_are_no_file_are_refused(tmp_path: Path, place: str) -> None:
    """A pipe or a device may never end."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a file"):
        encode(graph_of(MNIST), tmp_path / "lite", Options(extra={"labels": str(tmp_path / place)}))
