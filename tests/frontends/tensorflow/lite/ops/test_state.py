"""The rules of `frontends/tensorflow/lite/ops/state.py` against calls of ai-edge-litert in a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case
from tests.frontends.tensorflow.lite.ops.state_support import check_steps, module_bytes, state_case
from tests.support.cases import Case, f32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


class Ring(tf.Module):  # type: ignore[misc]
    """The last four rows, the newest at the end, as in streaming networks."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = tf.Variable(f32(1, 4, 3, low=0.5), name="rows")
        self.kernel = tf.Variable(f32(4, 3, 2), name="kernel")

    def __call__(self, x: Any) -> Any:
        whole = tf.concat([self.rows, x], 1)
        self.rows.assign(whole[:, -4:])
        return tf.nn.conv1d(whole, self.kernel, 1, "VALID")


class Both(tf.Module):  # type: ignore[misc]
    """An integer counter and a sum; the outputs are read before and after the change."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(7, name="calls")
        self.total = tf.Variable([0.5, 0.0, -1.0], name="total")

    def __call__(self, x: Any) -> Any:
        before = self.total + 0.0
        self.calls.assign_add(1)
        self.total.assign_add(tf.reduce_sum(x, [0, 1]))
        return x * before + self.total / tf.cast(self.calls, tf.float32)


class Branch(tf.Module):  # type: ignore[misc]
    """One of two variables changes, depending on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = tf.Variable(f32(3), name="up"), tf.Variable(f32(3, low=2), name="down")

    def __call__(self, x: Any) -> Any:
        def rise() -> Any:
            self.up.assign_add(tf.reduce_mean(x, [0, 1]))
            return tf.identity(self.up)

        def fall() -> Any:
            self.down.assign(self.down * 0.5)
            return self.down + self.up

        return x + tf.cond(tf.reduce_sum(x) > 0, rise, fall)


class Round(tf.Module):  # type: ignore[misc]
    """A variable that changes in every iteration of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.held = tf.Variable(f32(3), name="held")

    def __call__(self, x: Any) -> Any:
        def step(i: Any, y: Any) -> tuple[Any, Any]:
            self.held.assign(self.held * 0.5 + tf.reduce_mean(y, [0, 1]))
            return i + 1, y + self.held

        return tf.while_loop(lambda i, y: i < 3, step, [0, x])[1] + self.held


class Table(tf.Module):  # type: ignore[misc]
    """Words by numbers, through a table that is filled when the file is loaded, and the number of calls."""

    def __init__(self) -> None:
        super().__init__()
        keys, values = tf.constant([7, 3, 11], tf.int64), tf.constant(["a", "bb", "c"])
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), "?")

    def __call__(self, x: Any) -> Any:
        return self.table.lookup(x)


class Sized(Table):
    def __call__(self, x: Any) -> Any:
        return x + self.table.size()


CALLS = [f32(1, 1, 3), -f32(1, 1, 3, low=0.2), f32(1, 1, 3, low=-2.0), f32(1, 1, 3, low=1.0)]
NUMBERS = [np.array([3, 7, 8, 11, 3], np.int64), np.array([0, 0, 11, -3, 7], np.int64)]

ROWS = [
    state_case("VAR_HANDLE", Ring, *CALLS),
    state_case("READ_VARIABLE", Both, *CALLS, states=2),
    state_case("ASSIGN_VARIABLE", Branch, *CALLS, states=2),
    state_case("CALL_ONCE", Round, *CALLS),
    state_case("HASHTABLE", Table, *NUMBERS, states=0),
    state_case("HASHTABLE_FIND", Table, *NUMBERS, states=0),
    state_case("HASHTABLE_IMPORT", Table, *NUMBERS, states=0),
    state_case("HASHTABLE_SIZE", Sized, *NUMBERS, states=0),
]


def _lookup(*shape: int) -> Case:
    """Return rows by keys, some of which are missing."""
    keys, asked = np.array([2, 3, 5, 9], np.int32), np.array([3, 4, 9, 2, 3, -1], np.int32)
    values = f32(4, *shape)
    make = handmade("HASHTABLE_LOOKUP", [asked, constant(keys), constant(values)],
                    [Result((6, *shape)), Result((6,), "uint8")])  # fmt: skip
    return file_case("HASHTABLE_LOOKUP", make, asked)


ROWS += [_lookup(3), _lookup()]


QUICK = ("VAR_HANDLE", "HASHTABLE_LOOKUP")
"""Operators whose rows run by default: TensorFlow converts a SavedModel for most of the others."""


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            *p.values, id=p.id, marks=[*p.marks, *([] if p.values[0].operator in QUICK else [pytest.mark.slow])]
        )
        for p in params(ROWS)
    ],
)
def test_operator(row: Case) -> None:
    make, *calls = row.inputs
    if "states" not in row.attributes:
        check(row)
        return
    check_steps(module_bytes(make(), calls[0]), calls, row.attributes["states"], row.operator)
