"""Calibration data from arrays, images and folders of both, in the layout of the source or of the output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput
from convert.graph import Graph
from convert.passes.layout.boundary import boundary_permutations
from convert.request.samples import fit_samples, load_samples, moved_samples


def graph(*shape: int | str) -> ir.Model:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, shape)
    g.output(g.Relu(x), "y")
    return g.model()


@pytest.mark.parametrize("leading", [(), (5,)])
@pytest.mark.parametrize("batch", ["n", 1])
def test_samples_of_either_layout_fit(leading: tuple[int, ...], batch: str | int) -> None:
    model = graph(batch, 3, 6, 8)
    moves = boundary_permutations(model, "nhwc")
    x = np.random.default_rng(0).normal(size=(*leading, 1, 3, 6, 8)).astype(np.float32)
    for given in (x, np.moveaxis(x, -3, -1)):
        found = fit_samples(model, {"x": given}, moves)
        np.testing.assert_array_equal(found["x"], x)
        np.testing.assert_array_equal(moved_samples(found, moves)["x"], np.moveaxis(x, -3, -1))


def test_samples_that_fit_both_layouts_are_the_sources() -> None:
    model = graph("n", 3, 3, 3)
    moves = boundary_permutations(model, "nhwc")
    x = np.random.default_rng(0).normal(size=(4, 3, 3, 3))
    np.testing.assert_array_equal(fit_samples(model, {"x": x}, moves)["x"], x)


def test_without_a_layout_nothing_is_moved() -> None:
    model = graph("n", 3, 6, 8)
    x = np.zeros((4, 6, 8, 3))
    assert fit_samples(model, {"x": x}, {})["x"].shape == (4, 6, 8, 3)
    assert moved_samples({"x": x}, {})["x"].shape == (4, 6, 8, 3)


def test_what_has_no_name_is_for_the_first_input(tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "any.npy", x)
    found = load_samples(tmp_path / "any.npy")
    np.testing.assert_array_equal(fit_samples(graph("n", 3), found, {})["x"], x)
    np.savez(tmp_path / "named.npz", x=x)
    np.testing.assert_array_equal(load_samples(tmp_path / "named.npz")["x"], x)


def test_a_folder_of_pictures_is_one_set_of_samples(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for number in range(3):
        image.fromarray(rng.integers(0, 255, (9, 7, 3), np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "labels.txt").write_text("no picture")
    found = fit_samples(graph("n", 3, 6, 8), load_samples(tmp_path, "6x8,mean=0.5,std=0.5"), {})
    assert found["x"].shape == (3, 3, 6, 8)
    assert -1 <= found["x"].min() < 0 < found["x"].max() <= 1


def test_a_folder_without_any_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("no picture")
    with pytest.raises(BadInput, match=r"neither images nor \.npy"):
        load_samples(tmp_path)
