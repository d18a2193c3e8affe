"""Inputs of a verification: images, files, saved sets, and the sizes of dynamic dims."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from onnx import TensorProto, helper
from PIL import Image

from convert.cli import cli
from convert.errors import BadInput, UsageError
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.saved import input_sets, save_feeds
from convert.request.given_arrays import load_inputs
from convert.request.image_inputs import image_batch, parse_preparation

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args])


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A lossless picture of 12 × 10 pixels of three colours."""
    pixels = np.random.default_rng(0).integers(0, 256, (10, 12, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return Softplus of images of any number and size with 3 channels."""
    shape = ["batch", 3, "height", "width"]
    node = helper.make_node("Softplus", ["x"], ["y"])
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)] for n in ("x", "y")]
    graph = helper.make_graph([node], "net", *ends)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_picture_is_normalized_as_told(picture: Path) -> None:
    """Against PyTorch's arithmetic on the pixels."""
    how = parse_preparation("mean=0.485:0.456:0.406,std=0.229:0.224:0.225,input=x")
    (array,) = image_batch([picture, picture], how).values()
    pixels = torch.from_numpy(np.asarray(Image.open(picture)).copy()).permute(2, 0, 1).double() / 255
    mean, std = (
        torch.tensor(v, dtype=torch.float64)[:, None, None] for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    )
    assert array.shape == (2, 3, 10, 12)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array[1], ((pixels - mean) / std).float().numpy())


def test_it_is_resized_and_laid_out_as_told(picture: Path) -> None:
    (array,) = image_batch([picture], parse_preparation("6x8,layout=nhwc,channels=bgr,scale=1,dtype=uint8")).values()
    expected = np.asarray(Image.open(picture).resize((8, 6), Image.Resampling.BILINEAR))[..., ::-1]
    np.testing.assert_array_equal(array, expected[None])
    (gray,) = image_batch([picture], parse_preparation("channels=gray,mean=0.5,std=0.25")).values()
    assert gray.shape == (1, 1, 10, 12)


def test_a_camera_that_was_turned_is_undone(tmp_path: Path) -> None:
    image = Image.fromarray(np.arange(72, dtype=np.uint8).reshape(4, 6, 3))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.png", exif=exif)
    (array,) = image_batch([tmp_path / "turned.png"], parse_preparation("layout=nhwc,scale=1,dtype=uint8")).values()
    np.testing.assert_array_equal(array[0], np.rot90(np.asarray(image), -1))


@pytest.mark.parametrize(
    "text",
    ["224", "mean=a", "mean=1:2", "std=0", "layout=hwc", "colour=red", "input=", "0x4", "scale=0", "dtype=int4"],
)
def test_a_preparation_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_preparation(text)


def test_what_is_no_picture_and_sizes_that_differ_are_refused(picture: Path, tmp_path: Path) -> None:
    (tmp_path / "no.png").write_bytes(b"GIF89a but not really")
    with pytest.raises(BadInput, match=r"no\.png"):
        image_batch([tmp_path / "no.png"], parse_preparation(""))
    Image.new("RGB", (4, 4)).save(tmp_path / "small.png")
    with pytest.raises(UsageError, match="different sizes"):
        image_batch([picture, tmp_path / "small.png"], parse_preparation(""))


def test_saved_inputs_come_back_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = [
        Feed(
            str(i),
            {
                "file": rng.standard_normal((i + 1, 2)).astype(np.float32),
                "half": rng.standard_normal(3).astype(ml_dtypes.bfloat16),
                "a@b:0": np.arange(4),
                "text": np.array(["", "ab"], dtype=object),
            },
        )
        for i in range(3)
    ]
    save_feeds(tmp_path / "in.npz", feeds)
    back = input_sets(load_inputs(tmp_path / "in.npz"))
    assert len(back) == 3
    for feed, arrays in zip(feeds, back, strict=True):
        assert set(arrays) == set(feed.arrays)
        for name, array in feed.arrays.items():
            assert arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(arrays[name], array)


def test_arrays_of_files_are_of_the_byte_order_of_this_machine(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=x.astype(">f4"))
    loaded = load_inputs(tmp_path / "in.npz")["x"]
    assert loaded.dtype == np.float32
    assert loaded.dtype.isnative
    np.testing.assert_array_equal(loaded, x)


def test_a_set_that_is_missing_is_refused() -> None:
    with pytest.raises(BadInput, match="numbered"):
        input_sets({"x": np.zeros(1), "x@2": np.zeros(1)})


@pytest.mark.slow
def test_a_picture_is_what_is_verified_on_and_the_saved_file_says_so(
    picture: Path, model: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "in.npz"
    words = ["--image", picture, "--image", picture, "--image-as", "8x8,mean=0.5,std=0.5"]
    done = invoke("verify", model, model, *words, "--save-inputs", saved, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["verdict"]["feeds"] == ["given inputs"]
    with np.load(saved) as arrays:
        (expected,) = image_batch([picture] * 2, parse_preparation("8x8,mean=0.5,std=0.5")).values()
        np.testing.assert_array_equal(arrays["x"], expected)


@pytest.mark.slow
def test_saved_sets_make_the_verdict_again(model: Path, tmp_path: Path) -> None:
    """There are three sets of several sizes, numbers far from zero, many rows, every dim at 1; the file gives the same
    errors.
    """
    saved = tmp_path / "in.npz"
    first = json.loads(invoke("verify", model, model, "--save-inputs", saved, "--json").stdout)["verdict"]
    again = json.loads(invoke("verify", model, model, "--inputs", saved, "--json").stdout)["verdict"]
    with np.load(saved) as arrays:
        shapes = [arrays[name].shape for name in ("x", *(f"x@{i}" for i in range(1, len(arrays.files))))]
    assert shapes[-1] == (1, 3, 1, 1)
    assert [s[0] for s in shapes[:6]] == [2, 1, 3, 1, 2, 65]
    assert len({s[3] for s in shapes[:3]}) == 2
    assert len(again["feeds"]) == len(shapes)
    assert len(first["feeds"]) == len(shapes) + 1
    assert "special values" in first["feeds"][-1]  # the user does not need to keep these
    assert [o["error"] for o in again["outputs"]] == [o["error"] for o in first["outputs"]]


def pooled(path: Path, size: int) -> Path:
    """Return a MaxPool over `size` rows and columns; smaller images are rejected."""
    shape = ["batch", 3, "height", "width"]
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[size, size])
    ends = [[helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]]
    ends += [[helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3, "rows", "columns"])]]
    onnx.save(
        helper.make_model(
            helper.make_graph([node], "net", *ends), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ),
        path,
    )
    return path


@pytest.mark.slow
def test_a_size_that_the_source_refuses_is_left_out_and_one_that_only_the_target_does_is_a_failure(
    tmp_path: Path,
) -> None:
    one, three, saved = pooled(tmp_path / "one.onnx", 1), pooled(tmp_path / "three.onnx", 3), tmp_path / "in.npz"
    told = json.loads(invoke("verify", three, three, "--save-inputs", saved, "--json").stdout)["verdict"]
    assert told["status"] == "PASS"
    labels = [f.partition(",")[0] for f in told["feeds"]]
    assert labels[:6] == ["seed 0", "seed 1", "seed 2", "seed 5", "seed 7", "seed 4"]
    assert labels[-1] == "special values (NaN"
    assert not any("height=1, width=1" in f for f in told["feeds"])
    with np.load(saved) as arrays:
        assert len(arrays.files) == len(labels) - 1
    told = json.loads(invoke("verify", one, three, "--json").stdout)["verdict"]
    assert (told["status"], told["at_fault"]) == ("FAIL", "")
    assert "height=1, width=1" in told["reason"]


def test_a_folder_of_npy_is_taken(model: Path, tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "x.npy", np.random.default_rng(1).standard_normal((1, 3, 4, 4)).astype(np.float32))
    done = invoke("verify", model, model, "--inputs", tmp_path / "arrays", "--json")
    assert json.loads(done.stdout)["verdict"]["status"] == "PASS"


@pytest.mark.parametrize("words", [["--image-as", "4x4"], ["--image", "P", "--inputs", "P"]])
def test_options_that_contradict_each_other(words: list[str], picture: Path, model: Path) -> None:
    done = invoke("verify", model, model, *(str(picture) if w == "P" else w for w in words))
    assert done.exit_code == 2
    assert "hint:" in done.stderr


def test_ends_that_are_sequences_are_not_judged(tmp_path: Path) -> None:
    """The verdict says so, instead of being based on nothing."""
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "net", [x], [y])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    result = invoke(path, "--to", "tf", "-o", tmp_path / "m.savedmodel", "--json")
    assert result.exit_code == 7, result.output
    verdict = json.loads(result.stdout)["verdict"]
    assert verdict["status"] == "INCONCLUSIVE"
    assert verdict["reason"].endswith("are not compared: y")
    assert (tmp_path / "m.savedmodel").is_dir()


def test_the_data_of_a_calibration_is_not_written_over(tmp_path: Path) -> None:
    samples = tmp_path / "c.npz"
    np.savez(samples, image=np.zeros((1, 1, 28, 28), np.float32))
    words = ["--to", "onnx", "-o", str(tmp_path / "m.onnx"), "--quantize", "int8", "--calibrate", str(samples)]
    done = CliRunner().invoke(cli, [str(FIXTURES / "mnist_cnn.onnx"), *words, "--save-inputs", str(samples)])
    assert done.exit_code == 2, done.output
    assert "which would be overwritten" in done.output
