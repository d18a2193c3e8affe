"""Scatters with repeated indices, and into NaN and infinities, in TensorFlow Lite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.tensorflow_lite_helper import encode, graph_of, run  # noqa: E402  (after what it needs)


class Scattered(torch.nn.Module):
    """Every form of Scatter in several dtypes. If updates have the same index, the last one is used, as on PyTorch's
    CPU.
    """

    def forward(self, x: torch.Tensor, i: torch.Tensor, u: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.scatter(x, 1, i, 0.5),
            torch.scatter(x, 1, i, u),
            torch.scatter(x.long(), 1, i, u.long()),
            torch.scatter(x > 0, 1, i, u > 0),
            torch.scatter_add(x, 1, i, u),
            torch.scatter(x, 0, i[:, :3], u[:, :3]),
            x.index_put((i[0],), u[:, :3].sum(0)),
            x.index_put((i[0], i[1]), u[0]),
            torch.zeros_like(x).index_put((i[0],), u[0, 0]),
        ]


class Filled(torch.nn.Module):
    """A model with as many updates as indices."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.scatter(x, 1, i, 0.5)


class Unpooled(torch.nn.Module):
    """Overlapping windows may share a maximum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, places = torch.nn.functional.max_pool2d(x, 2, 1, return_indices=True)
        return torch.nn.functional.max_unpool2d(y, places, 2, 1)


@pytest.mark.parametrize("rows", [5, pytest.param("n", marks=pytest.mark.long)])
def test_the_last_of_several_updates_stays(rows: int | str, tmp_path: Path) -> None:
    specs = [f"x:float32[{rows},3]", "i:int64[2,4]", "u:float32[2,4]"]
    path = encode(graph_of(Scattered(), specs), tmp_path)
    i = np.array([[0, 0, 2, 0], [1, 1, 1, 2]])
    for count in (5,) if rows == 5 else (5, 3):
        x, u = (
            np.random.default_rng(s).standard_normal(d).astype(np.float32) for s, d in ((0, (count, 3)), (1, (2, 4)))
        )
        x[0, 0], x[1, 1], x[2, 0] = np.nan, np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            want = [y.numpy() for y in Scattered()(*map(torch.from_numpy, (x, i, u)))]
        for place, (got, y) in enumerate(zip(run(path, {"x": x, "i": i, "u": u}).values(), want, strict=True)):
            if place == 2:  # integers converted from NaN are arbitrary
                got, y = got[3:], y[3:]
            np.testing.assert_array_equal(got, y, err_msg=str(place), strict=True)


@pytest.mark.long
def test_no_updates(tmp_path: Path) -> None:
    path = encode(graph_of(Filled(), ["x:float32[4,3]", "i:int64[2,k]"]), tmp_path)
    x, i = np.ones((4, 3), np.float32), np.zeros((2, 0), np.int64)
    np.testing.assert_array_equal(next(iter(run(path, {"x": x, "i": i}).values())), x)


@pytest.mark.slow
def test_maxima_that_share_a_place_are_written_once(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
    (got,) = run(encode(graph_of(Unpooled(), "x:float32[1,2,4,4]"), tmp_path), {"x": x}).values()
    np.testing.assert_array_equal(got, Unpooled()(torch.from_numpy(x)).numpy())
