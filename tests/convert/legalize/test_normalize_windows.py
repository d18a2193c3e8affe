"""Windows with explicit pads compute what auto_pad, ceil_mode and output_shape say."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.legalize.normalize_windows import normalize_windows
from convert.passes import run_passes
from convert.reference.executor import run
from tests.backends.tensorflow.ops.support import DYNAMIC, STATIC, assert_same, feeds_of, model_of
from tests.support.cases import Case, case, f32
from tests.support.window_rows import depends_on_sizes, drawn_rows

VARIANTS = [pytest.param(STATIC, id="known"), pytest.param(DYNAMIC, id="unknown")]


def windows_of(model: ir.Model) -> list[ir.Node]:
    return [n for n in model.graph if n.op_type.endswith("Pool") or n.op_type.startswith("Conv")]


@pytest.mark.parametrize("variant", VARIANTS)
def test_drawn_windows(variant: int) -> None:
    """What is left of auto_pad and output_shape depends on unknown sizes; ceil_mode is never left."""
    for row, want in drawn_rows(1, 60):
        model = ir.from_proto(model_of(row, variant))
        run_passes(model, [normalize_windows])
        (window,) = windows_of(model)
        left = {"auto_pad", "ceil_mode", "output_shape"} & set(window.attributes)
        assert bool(left - {"ceil_mode"}) == (variant == DYNAMIC and depends_on_sizes(row)), (row, left)
        assert not window.attributes.get_int("ceil_mode", 0), row
        assert_same([executed(model, row)], [want])
        assert not normalize_windows(model)


def executed(model: ir.Model, row: Case) -> np.ndarray:
    (y,) = run(model, feeds_of(row)).values()
    return y


def normalized(operator: str, shape: tuple[Any, ...], **attributes: Any) -> ir.Model:
    row = case(operator, f32(*shape), **attributes)
    model = ir.from_proto(model_of(row, DYNAMIC))
    normalize_windows(model)
    return model


def test_padding_of_ceil_mode_is_not_counted() -> None:
    """The pads that the mean counts become a Pad; those that ceil_mode adds stay."""
    model = normalized(
        "AveragePool", (1, 1, 9), kernel_shape=[3], strides=[2], pads=[1, 0], ceil_mode=1, count_include_pad=1
    )
    assert [n.op_type for n in model.graph] == ["Pad", "AveragePool"]
    assert list(model.graph[1].attributes.get_ints("pads")) == [0, 1]
    assert not model.graph[1].attributes.get_int("count_include_pad", 0)


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "after"), [(3, 2, [0, 0], 1), (2, 2, [0, 0], 1), (2, 3, [1, 1], 1), (2, 5, [0, 0], 1)]
)
def test_ceil_mode_over_an_unknown_size_is_one_pad(kernel: int, stride: int, pads: list[int], after: int) -> None:
    model = normalized("MaxPool", (1, 1, 9), kernel_shape=[kernel], strides=[stride], pads=pads, ceil_mode=1)
    assert list(model.graph[0].attributes.get_ints("pads")) == [pads[0], after]


def test_attributes_that_contradict_each_other_stay() -> None:
    """The rule that reads the node refuses it with its place."""
    row = case("MaxPool", f32(1, 1, 9, 9), kernel_shape=[2, 2], auto_pad="VALID")
    model = ir.from_proto(model_of(row))
    for strides in ([1], [0, 1]):
        model.graph[0].attributes["strides"] = ir.AttrInt64s("strides", strides)
        assert not normalize_windows(model)
