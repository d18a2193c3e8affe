"""Steps that rounding takes the other way inside of a graph that quantizes are no failure where they explain it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

import convert
from convert.graph import Graph
from convert.parity.flipped_steps import is_of_flipped_steps
from convert.parity.inputs import Feed
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run

F = ir.DataType.FLOAT
X = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
FEED = Feed("one", {"x": X})


def averages(scale: float = 0.03, floating: bool = False, quantized: bool = True) -> ir.Model:
    """Averages of four steps, quantized with the same scale, times 3 and quantized again: every fourth is half way."""
    g = Graph()
    x = g.input("x", F, ["n", 3, 8, 8])
    step, zero = g.const(np.float32(scale)), g.const(np.uint8(128))

    def steps(value: ir.Value) -> ir.Value:
        return g.DequantizeLinear(g.QuantizeLinear(value, step, zero), step, zero) if quantized else value

    mean = steps(g.AveragePool(steps(x), kernel_shape=[2, 2], strides=[2, 2]))
    wide = g.Mul(mean, np.float32(0.3))
    if floating:
        g.output(steps(wide), "y")
    else:
        g.output(g.QuantizeLinear(wide, step, zero), "y")
    return g.model()


def outputs(model: ir.Model, wide: bool = True) -> np.ndarray:
    found: np.ndarray = run(widen_model(model) if wide else model, {"x": X.astype(np.float64) if wide else X})["y"]
    return found


def explained(target: np.ndarray, graph: ir.Model | None = None, floating: bool = False) -> bool:
    made = averages(floating=floating)
    return is_of_flipped_steps(graph or made, "y", [FEED], [outputs(made)], [target])


@pytest.mark.parametrize("floating", [False, True])
def test_what_float32_gives_is_explained(floating: bool) -> None:
    exact, single = outputs(averages(floating=floating)), outputs(averages(floating=floating), wide=False)
    assert (np.abs(exact.astype(float) - single) > 1e-3).any(), "else there is nothing to explain"
    assert explained(single, floating=floating)


@pytest.mark.parametrize("floating", [False, True])
def test_an_element_that_no_rounding_moves_is_not(floating: bool) -> None:
    graph = averages(floating=floating)
    exact = outputs(graph)
    mean = X.astype(np.float64) / np.float32(0.03)
    inside = np.abs(mean - np.rint(mean)).reshape(2, 3, 4, 2, 4, 2).max(axis=(3, 5)) < 0.3
    place = tuple(np.argwhere(inside & (exact == outputs(graph, wide=False)))[0])
    step = np.float32(0.03) if floating else 1
    for by in (3 * step, -3 * step):
        target = exact.copy()
        target[place] = np.asarray(target[place].item() + by).astype(target.dtype)
        assert not explained(target, floating=floating)


@pytest.mark.parametrize("scale", [0.0303, 0.029])
def test_another_scale_is_not(scale: float) -> None:
    assert not explained(outputs(averages(scale)))


def test_graphs_without_steps_shapes_and_words_are_not() -> None:
    single = outputs(averages(), wide=False)
    assert not explained(single, averages(quantized=False))
    assert not explained(single[:1])
    assert not is_of_flipped_steps(averages(), "y", [FEED], [single.astype(str)], [single.astype(str)])


def quantized_network(path: Path, seed: int, factor: float = 1.0) -> Path:
    """Products and averages of steps as ONNX Runtime's quantizer writes them; factor: of one of the scales."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Any] = {"w": rng.integers(-90, 90, (4, 3, 3, 3)).astype(np.int8), "i": np.int8(0)}
    weights |= {f"s{n}": np.float32(v) for n, v in enumerate((0.03, 0.005, 0.05, 0.045, 0.3 * factor, 0.3))}
    weights |= {f"z{n}": np.uint8(v) for n, v in enumerate((120, 30, 12, 50, 60))}
    contrib = "com.microsoft"
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s0", "z0"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s0", "z0", "w", "s1", "i", "s2", "z1"], ["c"], pads=[1] * 4),
        helper.make_node("QLinearLeakyRelu", ["c", "s2", "z1", "s3", "z2"], ["l"], domain=contrib, alpha=0.2),
        helper.make_node("QLinearMul", ["c", "s2", "z1", "l", "s3", "z2", "s4", "z3"], ["m"], domain=contrib),
        helper.make_node("QLinearAveragePool", ["m", "s4", "z3", "s5", "z4"], ["a"], domain=contrib,
                         kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("DequantizeLinear", ["a", "s5", "z4"], ["y"]),
    ]  # fmt: skip
    tensors = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, 8, 8])
    ends = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None),
            helper.make_tensor_value_info("m", onnx.TensorProto.UINT8, None)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [x], ends, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(contrib, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("seed", range(4))
def test_networks_of_quantized_operators_do_not_fail(seed: int, tmp_path: Path) -> None:
    right = quantized_network(tmp_path / "right.onnx", seed)
    report = convert.convert(right, "onnx", tmp_path / "out.onnx")
    assert report.verdict is not None
    assert report.verdict.status != "FAIL", report.verdict.reason
    wrong = convert.verify(right, quantized_network(tmp_path / "wrong.onnx", seed, 1.02)).verdict
    assert wrong is not None
    assert wrong.status == "FAIL", wrong.reason


@pytest.mark.slow
@pytest.mark.not_core
def test_steps_of_a_scale_that_is_barely_off_are_no_pass(tmp_path: Path) -> None:
    """Of half a thousandth: elements that a flipped step may explain prove nothing, whatever is near to them."""
    right, wrong = (quantized_network(tmp_path / f"{n}.onnx", 1, n) for n in (1.0, 1.0005))
    verdict = convert.verify(right, wrong).verdict
    assert verdict is not None
    (steps,) = (row for row in verdict.outputs if row.name == "m")
    assert steps.status == "INCONCLUSIVE", steps.reason
    assert verdict.status == "FAIL"
