"""Outputs that depend only on the sizes of an input, in TensorFlow Lite, which computes these before it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.onnx_support import info, model, run_ort  # noqa: E402
from tests.support.run_targets import run_target  # noqa: E402
from tests.support.tensorflow_lite_helper import encode, graph_of  # noqa: E402  (after what it needs)


class Sizes(torch.nn.Module):
    """Shapes, and tensors made from them; x itself is not read."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        n, m = x.shape
        return {
            "size": torch.full((1,), n * m) * 3,
            "numbers": torch.arange(n) + m,
            "floats": torch.sin(torch.arange(n) * 0.5),
            "filled": x.new_full((n, 2), 0.5),
            "ones": torch.ones_like(x)[:, :2].cumsum(0),
            "tiled": torch.eye(3).repeat(n, 1),
        }


@pytest.mark.slow
def test_one_interpreter_at_several_sizes(tmp_path: Path) -> None:
    path = encode(graph_of(Sizes(), "x:float32[n,4]"), tmp_path)
    runner = interpreter.Interpreter(str(path), num_threads=1).get_signature_runner("serving_default")
    for n in (2, 5, 1, 3):
        x = np.ones((n, 4), np.float32)
        got = runner(x=x)
        for name, want in Sizes()(torch.from_numpy(x)).items():
            assert got[name].dtype == want.numpy().dtype
            np.testing.assert_allclose(got[name], want.numpy(), rtol=1e-6, atol=1e-6, err_msg=name)


class Rows(torch.nn.Module):
    """Rows of an image joined again by a reshape with -1 for the channels, next to a dim of unknown size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 6, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x.reshape(x.shape[0], 4, 4, -1).permute(0, 3, 1, 2))


def test_channels_that_are_what_is_left(tmp_path: Path) -> None:
    module = Rows()
    path = encode(graph_of(module, "x:float32[n,16,8]"), tmp_path)
    runner = interpreter.Interpreter(str(path), num_threads=1).get_signature_runner("serving_default")
    for n in (2, 1):
        x = torch.randn(n, 16, 8)
        (got,) = runner(x=x.numpy()).values()
        np.testing.assert_allclose(got, module(x).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_channels_beside_two_dims_that_the_run_tells(tmp_path: Path) -> None:
    """The boxes of a YOLO with unknown batch and map size: four distributions over sixteen bins, by a computed
    Reshape.
    """
    nodes = [
        helper.make_node("Shape", ["x"], ["whole"]),
        *(
            helper.make_node("Slice", ["whole", f"at{start}", f"at{start + 1}"], [name])
            for name, start in (("batch", 0), ("anchors", 2))
        ),
        helper.make_node("Concat", ["batch", "sides", "bins", "anchors"], ["apart"], axis=0),
        helper.make_node("Reshape", ["x", "apart"], ["four"]),
        helper.make_node("Transpose", ["four"], ["moved"], perm=[0, 2, 1, 3]),
        helper.make_node("Softmax", ["moved"], ["shares"], axis=1),
        helper.make_node("Conv", ["shares", "w"], ["y"]),
    ]
    numbers = {"at0": [0], "at1": [1], "at2": [2], "at3": [3], "sides": [4], "bins": [16]}
    weights = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in numbers.items()]
    weights.append(numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1), "w"))
    proto = model(nodes, [info("x", ["n", 64, "m"])], [info("y", ["n", 1, 4, "m"])], weights)
    path = encode(graph_of(proto), tmp_path)
    feeds = [{"x": np.random.default_rng(n).standard_normal((n, 64, n + 3)).astype(np.float32)} for n in (2, 1)]
    for feed, got in zip(feeds, run_target("tflite", path, feeds), strict=True):
        np.testing.assert_allclose(got["y"], run_ort(proto, feed)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
def test_norms_of_five_dims(p: int, tmp_path: Path) -> None:
    """From `tests.suites.compose --source onnx --seed 942`: DivNoNan, which zero vectors require, would not load."""
    node = helper.make_node("LpNormalization", ["x"], ["y"], axis=3, p=p)
    proto = model([node], [info("x", ["n", 4, 2, 3, 2])], [info("y", None)])
    path = encode(graph_of(proto), tmp_path)
    feeds = [{"x": np.random.default_rng(n).standard_normal((n, 4, 2, 3, 2)).astype(np.float32)} for n in (3, 1)]
    feeds[0]["x"][1, 2] = 0
    for feed, got in zip(feeds, run_target("tflite", path, feeds), strict=True):
        np.testing.assert_allclose(got["y"], run_ort(proto, feed)[0], rtol=1e-6, atol=1e-7)


class Kept(torch.nn.Module):
    """Convolutions around a ceil_mode pool of unknown size, as in facenet-pytorch's PNet."""

    def __init__(self, kernel: int, stride: int, padding: int, average: bool) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 5, 2)
        kind = torch.nn.AvgPool2d if average else torch.nn.MaxPool2d
        self.pool = kind(kernel, stride, padding, ceil_mode=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.pool(self.first(x)))


@pytest.mark.slow
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 0), (3, 2, 1)])
def test_pools_that_keep_the_rest(kernel: int, stride: int, padding: int, average: bool, tmp_path: Path) -> None:
    """With computed pads no dim is known any more, and there is no convolution of unknown channels."""
    module = Kept(kernel, stride, padding, average)
    path = encode(graph_of(module, "x:float32[n,3,height=9..,width=9..]"), tmp_path)
    feeds = [{"x": torch.randn(2, 3, 9 + h, 14 - h).numpy()} for h in range(5)]
    for feed, got in zip(feeds, run_target("tflite", path, feeds), strict=True):
        (found,) = got.values()
        np.testing.assert_allclose(found, module(torch.from_numpy(feed["x"])).detach(), rtol=1e-5, atol=1e-5)
