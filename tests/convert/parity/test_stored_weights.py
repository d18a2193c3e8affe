"""Stored weights are matched to the graph's in any layout, and may differ by half a step."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.pairing.stored_weights import place_weights
from convert.request.stored import StoredWeight

F32 = ir.DataType.FLOAT
RNG = np.random.default_rng(0)
DENSE, OTHER = (RNG.standard_normal((24, 40)).astype(np.float32) for _ in range(2))
KERNEL = RNG.standard_normal((8, 6, 3, 3)).astype(np.float32)
BIAS = RNG.standard_normal(40).astype(np.float32)


def graph(*weights: np.ndarray) -> ir.Model:
    g = Graph()
    for number, weight in enumerate(weights):
        value = g.initializer(f"w{number}", ir.tensor(weight))
        g.output(g.Add(g.input(f"x{number}", F32, list(weight.shape)), value), f"y{number}")
    return g.model()


def eight_bits(weight: np.ndarray, axis: int = 0, name: str = "stored") -> StoredWeight:
    others = tuple(i for i in range(weight.ndim) if i != axis)
    scale = (np.abs(weight).max(others, keepdims=True) / 127).astype(np.float32)
    return StoredWeight(name, np.round(weight / scale).astype(np.int8), scale)


def half(weight: np.ndarray) -> StoredWeight:
    return StoredWeight("half", weight.astype(np.float16))


LAYOUTS: dict[str, tuple[np.ndarray, Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "as it is": (DENSE, lambda w: w, lambda w: w),
    "transposed": (DENSE, lambda w: w.T, lambda w: w.T),
    "channels last": (KERNEL, lambda w: w.transpose(0, 2, 3, 1), lambda w: w.transpose(0, 3, 1, 2)),
    "dims of 1": (DENSE, lambda w: w[:, None, None, :], lambda w: w[:, 0, 0]),
    "rows in another order": (DENSE, lambda w: w[::-1], lambda w: w[::-1]),
    "columns behind a flatten": (
        DENSE,
        lambda w: w.reshape(24, 5, 8).transpose(0, 2, 1).reshape(24, 40),
        lambda w: w.reshape(24, 8, 5).transpose(0, 2, 1).reshape(24, 40),
    ),
    "a bias in another order": (BIAS, lambda w: np.roll(w, 7), lambda w: np.roll(w, -7)),
}


@pytest.mark.parametrize("store", [eight_bits, half])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_weight_is_found_in_any_layout(layout: str, store: Callable[[np.ndarray], StoredWeight]) -> None:
    weight, there, back = LAYOUTS[layout]
    stored = store(there(weight))
    placed = place_weights(graph(OTHER, weight), [stored, StoredWeight("other", OTHER)])
    assert (placed.wrong, placed.unpaired, placed.scalars) == ([], [], [])
    found = placed.model.graph.initializers["w1"].const_value.numpy()
    np.testing.assert_array_equal(found, back(stored.numbers()).astype(np.float32))


def test_parts_of_a_weight_are_put_together() -> None:
    parts = [eight_bits(part, name=f"gate {i}") for i, part in enumerate(np.split(DENSE, 4))]
    placed = place_weights(graph(DENSE), parts[::-1])
    assert (placed.wrong, placed.unpaired) == ([], [])
    expected = np.concatenate([part.numbers() for part in parts]).astype(np.float32)
    np.testing.assert_array_equal(placed.model.graph.initializers["w0"].const_value.numpy(), expected)


def test_the_directions_of_a_recurrent_layer_may_be_apart() -> None:
    both = np.stack([DENSE, OTHER])
    parts = [eight_bits(part, name=f"direction {i}") for i, part in enumerate(both)]
    placed = place_weights(graph(both), parts)
    assert (placed.wrong, placed.unpaired) == ([], [])
    expected = np.stack([part.numbers() for part in parts]).astype(np.float32)
    np.testing.assert_array_equal(placed.model.graph.initializers["w0"].const_value.numpy(), expected)


def test_a_weight_that_is_stored_twice_is_no_other() -> None:
    assert place_weights(graph(DENSE), [half(DENSE), half(DENSE.T)]).unpaired == []


def moved(steps: int) -> StoredWeight:
    stored = eight_bits(DENSE)
    raw = stored.raw.copy()
    raw[3] -= np.sign(raw[3]) * steps
    return StoredWeight("stored", raw, stored.scale)


@pytest.mark.parametrize(
    ("stored", "wrong"),
    [
        (eight_bits(DENSE), ""),
        (moved(2), "40 of 960 elements of 'w0', by up to 2"),
        (StoredWeight("stored", eight_bits(DENSE).raw, 1.02 * eight_bits(DENSE).scale), "of 960 elements"),  # type: ignore[operator]
        (half(DENSE), ""),
        (half(1.002 * DENSE), "of 960 elements"),
        (StoredWeight("bf16", DENSE.astype(ml_dtypes.bfloat16)), ""),
        (StoredWeight("bf16", (1.01 * DENSE).astype(ml_dtypes.bfloat16)), "of 960 elements"),
        (StoredWeight("single", DENSE), ""),
        (StoredWeight("single", (1 + 1e-4) * DENSE), "of 960 elements"),
    ],
)
def test_weights_are_held_to_half_a_step(stored: StoredWeight, wrong: str) -> None:
    placed = place_weights(graph(DENSE), [stored])
    assert placed.unpaired == []
    assert bool(placed.wrong) == bool(wrong)
    assert not wrong or wrong in placed.wrong[0]


def test_the_end_of_the_range_may_be_a_whole_step_off() -> None:
    """In the range of -8 to 7 steps, a block whose largest magnitude is -8 steps cannot store +8."""
    weight = np.tile(np.float32([-8, 7.9, 3, 1.2]), (4, 8))
    raw = np.clip(np.round(weight), -8, 7).astype(np.int8)
    assert place_weights(graph(weight), [StoredWeight("w", raw, np.float32(1), 0, (-8, 7))]).wrong == []
    assert place_weights(graph(weight), [StoredWeight("w", raw, np.float32(1))]).wrong != []


def test_what_has_no_counterpart_is_told() -> None:
    placed = place_weights(graph(DENSE), [eight_bits(OTHER), StoredWeight("c", np.float16(0.35351562))])
    assert (placed.unpaired, placed.scalars) == (["w0", "stored"], ["c"])
    for exact in (0.5, -np.inf, np.nan):
        placed = place_weights(graph(DENSE), [half(DENSE), half(DENSE), StoredWeight("c", np.float16(exact))])
        assert placed.scalars == []


def test_an_attribute_takes_its_stored_number() -> None:
    g = Graph()
    g.output(g.LeakyRelu(g.input("x", F32, [3]), alpha=0.3), "y")
    placed = place_weights(g.model(), [StoredWeight("c", np.float16(0.3))])
    assert placed.scalars == []
    assert placed.model.graph.node(0).attributes.get_float("alpha", 0.0) == np.float16(0.3)
