"""Image files that TensorFlow has no decoder for, against Pillow: read exactly, or the model stops."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.support.tensorflow_networks import write

tf = pytest.importorskip("tensorflow")
image = pytest.importorskip("PIL.Image")

PIXELS = np.random.default_rng(0).integers(0, 256, (37, 21, 3), dtype=np.uint8)


def encoded(form: str, mode: str = "RGB", **options: object) -> bytes:
    stream = io.BytesIO()
    image.fromarray(PIXELS).convert(mode).save(stream, form, **options)
    return stream.getvalue()


def motorola(rows: int) -> bytes:
    """Return a TIFF in big-endian order, in strips of this many rows, which are stored from last to first."""
    strips = [PIXELS[i : i + rows].tobytes() for i in range(0, len(PIXELS), rows)]
    count, bits = len(strips), 10 + 9 * 12 + 4
    offsets, sizes = bits + 6, bits + 6 + 4 * count
    places, at = [], sizes + 4 * count
    for strip in reversed(strips):
        places.append(at)
        at += len(strip)
    height, width, samples = PIXELS.shape
    short = [(257, height), (259, 1), (262, 2), (277, samples), (278, rows)]
    fields = [(256, 4, 1, width), (258, 3, 3, bits), (273, 4, count, offsets), (279, 4, count, sizes)]
    fields += [(tag, 3, 1, value << 16) for tag, value in short]
    return b"".join(
        [b"MM\0*", struct.pack(">IH", 8, 9), *(struct.pack(">HHII", *f) for f in sorted(fields)), bytes(4),
         struct.pack(">3H", 8, 8, 8), struct.pack(f">{count}I", *reversed(places)),
         struct.pack(f">{count}I", *map(len, strips)), *reversed(strips)]
    )  # fmt: skip


@pytest.fixture(scope="module")
def decode(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], np.ndarray]:
    """Return a function that decodes an image file with the model."""
    graph = helper.make_graph(
        [helper.make_node("ImageDecoder", ["file"], ["pixels"])],
        "g",
        [helper.make_tensor_value_info("file", TensorProto.UINT8, ["bytes"])],
        [helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["height", "width", 3])],
    )
    path = tmp_path_factory.mktemp("images") / "m.savedmodel"
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), Path(path))
    loaded = tf.saved_model.load(str(path))
    serving = loaded.signatures["serving_default"]

    def run(data: bytes) -> np.ndarray:
        assert loaded is not None  # this also keeps the model's functions alive
        return serving(file=tf.constant(np.frombuffer(data, np.uint8)))["pixels"].numpy()

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        encoded("ppm"), encoded("ppm", "L"), encoded("tiff"), encoded("tiff", "L"), encoded("png"), encoded("bmp"),
        b"P6 # a comment\n# another 12\n21  \t37\n#\n255\n" + PIXELS.tobytes(), motorola(10), motorola(37),
    ],
    ids=["ppm", "pgm", "tiff", "grey tiff", "png", "bmp", "comments", "big-endian strips", "one strip"],
)  # fmt: skip
def test_pixels_are_exact(data: bytes, decode: Callable[[bytes], np.ndarray]) -> None:
    wanted = np.asarray(image.open(io.BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(decode(data), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (encoded("tiff", "RGBA"), "a TIFF other than"),
        (encoded("tiff", "1"), "a TIFF other than"),
        (encoded("tiff", "P"), "a TIFF other than"),
        (b"P6 1 1 65535\n      ", "another range"),
        (b"P3 1 1 255 1 2 3", "no decoder"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "Unknown image file format"),
        (encoded("ppm")[:-3], "values"),
        (encoded("tiff")[:200], "indices"),
    ],
    ids=["alpha", "bits", "palette", "16 bits", "as text", "jpeg 2000", "cut ppm", "cut tiff"],
)
def test_anything_else_is_an_error(data: bytes, told: str, decode: Callable[[bytes], np.ndarray]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        decode(data)
