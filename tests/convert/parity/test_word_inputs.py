"""If the graph reads numbers from text inputs, the sampled texts are numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.inputs.word_inputs import drawn_words

TEXT = ir.DataType.STRING


def words(*kinds: ir.DataType, moved: bool = False, shape: tuple[int, ...] = (4, 50)) -> np.ndarray:
    """Return the samples of an input that is cast to these dtypes and compared with a word."""
    g = Graph()
    x = g.input("x", TEXT, ["n", 50])
    read = g.Unsqueeze(x, np.array([1])) if moved else x
    g.output(g.Equal(x, g.const(np.array(["a"], object))), "same")
    for i, kind in enumerate(kinds):
        g.output(g.Cast(read, to=kind), f"y{i}")
    return drawn_words(x, shape, np.random.default_rng(0))


@pytest.mark.parametrize("moved", [False, True])
def test_numbers_are_drawn_where_numbers_are_read(moved: bool) -> None:
    floats = words(ir.DataType.FLOAT, moved=moved)
    assert (floats.shape, floats.dtype) == ((4, 50), np.dtype(object))
    numbers = floats.astype(np.float32)
    assert len(np.unique(numbers)) > 30
    assert (numbers < 0).any()
    assert (numbers != np.rint(numbers)).any()
    assert any("e" in text for text in floats.ravel())


def test_whole_numbers_are_drawn_where_an_integer_is_read() -> None:
    for kinds in ([ir.DataType.INT64], [ir.DataType.FLOAT, ir.DataType.INT32]):
        numbers = words(*kinds).astype(np.int64)
        assert (numbers.min() < 0, numbers.max() > 9) == (True, True)


def test_other_texts_are_words() -> None:
    assert set(words().ravel()) == set(words(TEXT).ravel()) == {"", "a", "bc", "Hello"}


def test_scalars_and_nothing() -> None:
    assert words(ir.DataType.FLOAT, shape=()).shape == words(shape=()).shape == ()
    assert words(ir.DataType.FLOAT, shape=(0, 3)).shape == (0, 3)
