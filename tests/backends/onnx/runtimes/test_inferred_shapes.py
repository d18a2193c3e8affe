"""Nodes whose shapes ONNX infers wrongly load and run in onnxruntime, with nodes that depend on these shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import convert
from tests.support.onnx_support import array, info, model

# An operator, its inputs (with the dims that the model declares, if these differ), and its attributes.
ROWS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "Einsum of a 1 that is first": ("Einsum", [(3, 1, 1, 7), (3, 1, 2, 7)], {"equation": "bhij,bhij->bihj"}),
    "Einsum of a 1 and an open dim": (
        "Einsum",
        [((1, 1, 6, 1), None), ((4, 3, 6, 1), ("n", 3, 6, 1))],
        {"equation": "bhij,bhij->bihj"},
    ),
    "Einsum of three": ("Einsum", [(1, 4), (3, 1), (3, 4)], {"equation": "ab,ab,ab->ba"}),
    "maxima, a window in the pad": (
        "MaxPool",
        [(2, 3, 4, 4)],
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    "maxima, one axis only": (
        "MaxPool",
        [((2, 3, 8, 2), ("n", 3, 8, 2))],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 0, 2], "ceil_mode": 1},
    ),
    "maxima of strides beyond the kernel": (
        "MaxPool",
        [(1, 1, 4)],
        {"kernel_shape": [1], "strides": [3], "auto_pad": "VALID", "ceil_mode": 1, "dilations": [2]},
    ),
    "maxima of strides that leave out the end": (
        "MaxPool",
        [(1, 1, 6)],
        {"kernel_shape": [1], "strides": [4], "pads": [0, 0], "ceil_mode": 1},
    ),
    "means of pads": (
        "AveragePool",
        [(2, 3, 4, 4)],
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1},
    ),
    "means without pads, one axis longer": (
        "AveragePool",
        [(2, 3, 8, 2)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 0, 2], "ceil_mode": 1},
    ),
    "norms": (
        "LpPool",
        [(2, 3, 8, 2)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 0, 2], "ceil_mode": 1},
    ),
    **{
        f"Resize by 2.6, {mode}": ("Resize", [(1, 2, 5, 5), [], [1, 1, 2.6, 2.6]], {"mode": mode})
        for mode in ("nearest", "linear", "cubic")
    },
    "Resize with an open batch": ("Resize", [((2, 2, 3, 5), ("n", 2, 3, 5)), [], [1, 1, 1, 2.6]], {"mode": "linear"}),
    "Resize with another axis": ("Resize", [(2, 2, 7, 5), [], [1, 1, 1.3, 2.6]], {"mode": "linear"}),
    "Resize with another axis that is open": (
        "Resize",
        [((2, 2, 7, 5), ("n", 2, "h", 5)), [], [1, 1, 1.3, 2.6]],
        {"mode": "nearest"},
    ),
    "Resize of named axes": ("Resize", [(2, 5, 5, 3), [], [2.6, 2.0]], {"mode": "linear", "axes": [-2, 1]}),
}


@pytest.mark.parametrize("opset", [23, 20, 13])
@pytest.mark.parametrize("row", ROWS)
def test_what_follows_has_the_dims_of_the_kernel(row: str, opset: int, tmp_path: Path) -> None:
    operator, given, attributes = ROWS[row]
    rng = np.random.default_rng(0)
    feed, inputs, constants = {}, [], []
    for place, one in enumerate(given):
        shape, dims = one if isinstance(one, tuple) and isinstance(one[0], tuple) else (one, None)
        if isinstance(one, list):
            constants.append(array(f"x{place}", one))
        else:
            feed[f"x{place}"] = rng.standard_normal(shape).astype(np.float32)
            inputs.append(info(f"x{place}", dims or shape))
    node = helper.make_node(operator, [f"x{i}" for i in range(len(given))], ["y"], **attributes)
    alone = model([node], inputs, [info("y", None)], constants, opset=22, ir_version=10)
    (kernel,) = onnxruntime.InferenceSession(alone.SerializeToString()).run(None, feed)

    feed["z"] = rng.standard_normal(kernel.shape).astype(np.float32)
    after = [
        helper.make_node("Add", ["y", "z"], ["a"]), helper.make_node("Mul", ["y", "a"], ["b"]),
        helper.make_node("Concat", ["b", "a"], ["c"], axis=0), helper.make_node("Neg", ["c"], ["d"]),
    ]  # fmt: skip
    whole = model(
        [node, *after], [*inputs, info("z", kernel.shape)], [info("d", None)], constants, opset=22, ir_version=10
    )
    path = tmp_path / "m.onnx"
    convert.convert(whole, "onnx", path, opset=opset, verify=False)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    (got,) = onnxruntime.InferenceSession(str(path)).run(None, feed)
    summed = kernel + feed["z"]
    np.testing.assert_allclose(got, -np.concatenate([kernel * summed, summed]), rtol=1e-5, atol=1e-5)
