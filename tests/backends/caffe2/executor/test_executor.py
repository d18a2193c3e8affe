"""The executor of Caffe2 nets gives the results of the real Caffe2 on every operator case, and refuses cases where
Caffe2 is wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.backends.caffe2.executor.executor import execute
from convert.frontends.caffe2.runner.runner import available

from convert.errors import BadInput, ConvertError, Unsupported
from tests.support.caffe2_support import Nets, Row, assert_same, hand_written, reference
from tests.support.cases import rows_of_package

WRITTEN = [param for param in rows_of_package("tests.backends.caffe2.ops") if not param.values[0].reason]


@pytest.mark.parametrize("row", WRITTEN)
def test_it_agrees_with_the_real_caffe2(row: Row, caffe2_ends: Nets) -> None:
    """Compares with ONNX Runtime if there is no Caffe2."""
    job = caffe2_ends.job(row)
    (outputs,) = execute(job.net, [job.feeds])
    assert_same(outputs, caffe2_ends.outcome(row).outputs or reference(row))


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


WRONG: dict[str, tuple[str, list[np.ndarray], dict[str, Any]]] = {
    "Max past the end": ("Max", [f32(2, 3), f32(3)], {}),
    "Where past the end": ("Where", [np.ones(2, bool), f32(2, 3), f32(2, 3)], {}),
    "Softplus overflows": ("Softplus", [np.array([100.0], np.float32)], {}),
    "ConvTranspose ignores dilations": (
        "ConvTranspose", [f32(1, 2, 5, 5), f32(2, 3, 3, 3)], {"kernels": [3, 3], "dilations": [2, 2]},
    ),
    "MaxPool ignores dilations": ("MaxPool", [f32(1, 2, 5, 5)], {"kernels": [2, 2], "dilations": [2, 2]}),
    "Range loses its last": ("Range", [np.array([n], np.int32) for n in (10, 6, -3)], {}),
    "division by zero": ("Div", [np.array([1, 2], np.int32), np.array([1, 0], np.int32)], {}),
    "negative index": ("Gather", [f32(2, 3), np.array([-1], np.int64)], {"axis": 1}),
    "a dtype without a kernel": ("Exp", [np.ones(2, np.float64)], {}),
    "dtypes mixed": ("Add", [np.ones(2, np.int32), np.ones(2, np.int64)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_it_refuses_what_the_runtime_gets_wrong(name: str, tmp_path: Path) -> None:
    operator, inputs, args = WRONG[name]
    job = hand_written(tmp_path / "net.caffe2", operator, inputs, args)
    with pytest.raises(Unsupported):
        execute(job.net, [job.feeds])


def test_a_bound_of_clip_that_is_not_given_is_the_largest_number(tmp_path: Path) -> None:
    """The real Caffe2 behaves in this way: tests/frontends/caffe2/ops/test_rules.py, Clip-infinity."""
    job = hand_written(tmp_path / "net.caffe2", "Clip", [np.array([np.inf, -np.inf], np.float32)], {"min": -1.0})
    (outputs,) = execute(job.net, [job.feeds])
    np.testing.assert_array_equal(outputs["y0"], np.array([np.finfo(np.float32).max, -1], np.float32))


def test_in_float64_it_is_the_twin(tmp_path: Path) -> None:
    x = f32(1, 2, 6, 6)
    w = f32(3, 2, 3, 3)
    job = hand_written(tmp_path / "net.caffe2", "Conv", [x, w], {"kernels": [3, 3]})
    (outputs,) = execute(job.net, [job.feeds], wide=True)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    (got,) = outputs.values()
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_it_lists_all_operators_that_it_lacks_and_names_wrong_inputs(tmp_path: Path) -> None:
    job = hand_written(tmp_path / "net.caffe2", "NoSuchOperator", [f32(2)], {})
    with pytest.raises(Unsupported, match="NoSuchOperator"):
        execute(job.net, [job.feeds])
    job = hand_written(tmp_path / "other.caffe2", "Relu", [f32(2)], {})
    with pytest.raises(ConvertError, match="takes"):
        execute(job.net, [{"another": f32(2)}])


def test_a_folder_without_nets_or_with_broken_ones_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no init_net"):
        execute(tmp_path, [{}])
    for name in ("init_net.pb", "predict_net.pb"):
        (tmp_path / name).write_bytes(b"\xff\xff\xff")
    with pytest.raises(BadInput, match="no Caffe2 net"):
        execute(tmp_path, [{}])


def test_verify_runs_it_only_where_no_caffe2_is_configured() -> None:
    from convert.plugin import runner_for

    runner = runner_for("caffe2")
    assert runner is not None
    assert runner.__name__ == (
        "convert.backends.caffe2.executor.runner" if available() else "convert.frontends.caffe2.runner.runner"
    )
