"""Errors of elements that are far smaller than others of their output: found, and not taken for errors where none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

import convert
from convert.errors import Unsupported
from convert.graph import Graph
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, VerifyMethod, judge
from convert.parity.small_elements import hold_small_elements
from convert.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from tests.support.onnx_support import array, info, model

RNG = np.random.default_rng(3)
F = ir.DataType.FLOAT
NONE = Unsupported("no double")
FEEDS = [Feed(f"seed {i}", {"x": RNG.normal(size=(3, 20)).astype(np.float32)}) for i in range(2)]
SIGNS = np.where(np.arange(20) % 2, 1.0, -1.0)


def beside(build: Callable[[Graph, ir.Value], ir.Value]) -> ir.Model:
    """What is built from x, beside x times 2^40, in one output."""
    g = Graph()
    x = g.input("x", F, ["n", 20])
    g.output(g.Concat(build(g, x), g.Mul(x, np.float32(2.0**40)), axis=1), "y")
    return g.model()


def outputs(small: Callable[[np.ndarray], np.ndarray], dtype: Any = np.float64) -> list[dict[str, np.ndarray]]:
    wide = [f.arrays["x"].astype(np.float64) for f in FEEDS]
    return [{"y": np.concatenate([small(x), x * 2.0**40], 1).astype(dtype)} for x in wide]


def off(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """x with each element off by a share of 1, up and down in turn."""
    return lambda x: x + share * SIGNS


PLAIN = beside(lambda g, x: x)
EXACT = outputs(off(0))
OWN = outputs(off(0))
SINGLE = outputs(off(0), np.float32)


def held(
    target: Any, own: Any = OWN, double: Any = EXACT, single: Any = SINGLE, graph: ir.Model = PLAIN, **rest: Any
) -> Verdict:
    runs = RunOutputs({"float32": single, "float64": double}, target, own, **rest)
    verdict = judge(graph, FEEDS, runs, VerifyMethod())
    assert verdict.status == PASS, verdict.reason
    hold_small_elements(verdict, graph, FEEDS, runs, lambda feeds: [])
    return verdict


@pytest.mark.parametrize(("share", "status"), [(0.0, PASS), (1e-6, PASS), (1e-4, FAIL), (1e-2, FAIL), (0.5, FAIL)])
def test_a_target_is_held_to_the_source_in_its_smaller_elements(share: float, status: str) -> None:
    found = held(outputs(off(share), np.float32))
    assert (found.status, found.guilty) == (status, "backend" if status == FAIL else "")
    if status == FAIL:
        assert found.reason.startswith("y: 60 elements that are far smaller than the others are off by")
        assert found.reason.endswith("on seed 0")
        assert found.outputs[0].status == FAIL


def test_one_element_of_them_is_enough() -> None:
    target = outputs(off(0), np.float32)
    target[1]["y"][2, 7] += 0.01
    found = held(target)
    assert found.status == FAIL
    assert found.reason.endswith("on seed 1")


@pytest.mark.parametrize(("share", "status"), [(1e-11, PASS), (1e-7, FAIL), (0.5, FAIL)])
def test_so_is_the_graph_in_float64(share: float, status: str) -> None:
    found = held(SINGLE, outputs(off(share)))
    assert (found.status, found.guilty) == (status, "frontend" if status == FAIL else "")
    twin = found.outputs[0].twin
    assert twin is not None
    assert (twin > 1e-9) == (status == FAIL)


@pytest.mark.parametrize(("share", "status"), [(1e-3, PASS), (1.0, PASS), (20.0, FAIL)])
def test_what_is_less_than_a_rounding_of_float32_is_nothing_in_float64(share: float, status: str) -> None:
    """The source as deployed is off by 100 times what there is."""
    noisy = outputs(off(100.0), np.float32)
    assert held(noisy, outputs(off(share)), single=noisy).status == status


def test_a_source_of_its_own_noise_is_no_reason() -> None:
    """The floor of these elements is the source's error on them."""
    noisy = outputs(off(2e-3), np.float32)
    assert held(noisy, single=noisy).status == PASS
    assert held(SINGLE, single=noisy).status == PASS
    assert held(outputs(off(0.05), np.float32), single=noisy).status == FAIL
    unexplained = held(outputs(off(-4e-3), np.float32), single=noisy)
    assert unexplained.status == INCONCLUSIVE, "whose it is cannot be told"


def test_where_the_graph_is_its_own_reference_the_source_is_held_to_it() -> None:
    found = held(SINGLE, double=NONE)
    assert found.status == PASS
    found = held(SINGLE, double=NONE, single=outputs(off(1e-2), np.float32))
    assert (found.status, found.guilty) == (FAIL, "frontend")
    assert held(outputs(off(1e-2), np.float32), double=NONE).status == FAIL


def test_a_source_that_is_another_function_in_float64_proves_nothing() -> None:
    found = held(SINGLE, double=outputs(off(0.01)))
    assert found.status == INCONCLUSIVE
    assert "another function of them in float64" in found.reason


def test_every_way_of_using_the_target_is_held() -> None:
    found = held(SINGLE, others={"predict": outputs(off(0.1), np.float32)[:1]})
    assert found.status == FAIL
    assert "(predict)" in found.reason


def test_what_is_left_of_large_numbers_moves_with_them() -> None:
    """(50 x + 2^30) - 2^30 is off by up to 64 in float32, though this source happens to be exact."""
    large = np.float32(2.0**30)
    graph = beside(lambda g, x: g.Sub(g.Add(g.Mul(x, np.float32(50)), large), large))

    def moved(by: float, dtype: Any = np.float32) -> list[dict[str, np.ndarray]]:
        return outputs(lambda x: 50 * x + by * SIGNS, dtype)

    exact = [moved(0, np.float64) for _ in range(2)]
    assert held(moved(40.0), *exact, moved(0), graph).status == PASS
    assert held(moved(4e4), *exact, moved(0), graph).status == FAIL


def test_without_a_gap_nothing_is_added() -> None:
    """Errors in elements that are 5,000 times smaller are for the bound of the whole, as ever."""

    def made(share: float, dtype: Any) -> list[dict[str, np.ndarray]]:
        wide = [np.abs(f.arrays["x"].astype(np.float64)) + 1 for f in FEEDS]
        return [{"y": np.concatenate([x + share, x * 1000], 0).astype(dtype)} for x in wide]

    exact = made(0.0, np.float64)
    found = held(made(1e-3, np.float32), made(0.0, np.float64), exact, made(0.0, np.float32))
    assert found.status == PASS
    assert found.outputs[0].small_floor == 0


@pytest.mark.parametrize(("share", "status"), [(0.0, PASS), (1e-6, PASS), (1e-3, FAIL)])
def test_columns_that_are_far_smaller_are_judged_by_themselves(share: float, status: str) -> None:
    """Boxes in pixels beside scores, no element of which is 10,000 times smaller than the next."""
    g = Graph()
    x = g.input("x", F, ["n", 20])
    g.output(g.Concat(x, g.Mul(x, np.float32(1000)), axis=1), "y")

    def made(share: float, dtype: Any) -> list[dict[str, np.ndarray]]:
        wide = [f.arrays["x"].astype(np.float64) for f in FEEDS]
        return [{"y": np.concatenate([x + share * SIGNS, x * 1000], 1).astype(dtype)} for x in wide]

    exact = made(0.0, np.float64)
    assert held(made(share, np.float32), exact, exact, made(0.0, np.float32), g.model()).status == status


def file(path: Path, nodes: Sequence[onnx.NodeProto], columns: int, **weights: Any) -> Path:
    proto = model(
        nodes, [info("x", ["batch", 8])], [info("y", ["batch", columns])],
        [array(n, w, np.asarray(w).dtype) for n, w in weights.items()],
    )  # fmt: skip
    onnx.save(proto, path)
    return path


WEIGHT = RNG.normal(size=(8, 6)).astype(np.float32)
MASK = np.array([0, 0, 1, 0, 1, 0], bool)


def masked(path: Path, weight: np.ndarray, least: float) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Where", ["mask", "least", "h"], ["y"])]
    return file(path, nodes, 6, w=weight, mask=MASK, least=np.float32(least))


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("least", [-1e4, -1e9, np.finfo(np.float32).min, -np.inf])
def test_logits_beside_a_mask(least: float, tmp_path: Path) -> None:
    """Each mask that programs use, and no false alarm by what hides nothing."""
    right = masked(tmp_path / "right.onnx", WEIGHT, least)
    assert convert.verify(right, masked(tmp_path / "same.onnx", WEIGHT, least)).verdict.status == PASS
    wrong = convert.verify(right, masked(tmp_path / "wrong.onnx", WEIGHT * np.float32(1.01), least)).verdict
    assert wrong.status == FAIL, wrong.reason


@pytest.mark.slow
@pytest.mark.not_core
def test_scores_beside_time_stamps(tmp_path: Path) -> None:
    def stamped(name: str, last: Sequence[onnx.NodeProto]) -> Path:
        nodes = [
            helper.make_node("Mul", ["x", "big"], ["t"]),
            *last,
            helper.make_node("Concat", ["t", "s"], ["y"], axis=1),
        ]
        return file(tmp_path / name, nodes, 16, big=np.float32(1.7e9))

    right = stamped("right.onnx", [helper.make_node("Sigmoid", ["x"], ["s"])])
    other = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Sigmoid", ["n"], ["s"])]
    assert convert.verify(right, right).verdict.status == PASS
    found = convert.verify(right, stamped("wrong.onnx", other)).verdict
    assert found.status == FAIL
    assert "far smaller than the others" in found.reason


TAILS = ["Softmax", "LogSoftmax", "Sigmoid", "Exp", "Relu", "Elu", "Softplus", "Erf", "Tanh"]


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("operator", TAILS)
def test_tails_of_functions_are_as_exact_as_their_kernels(operator: str, tmp_path: Path) -> None:
    """PyTorch's and onnxruntime's: of large arguments both are right to some roundings of 1."""
    import torch

    weight = torch.from_numpy(WEIGHT.T.copy()) * 8
    functions: dict[str, Callable[[Any], Any]] = {
        "Softmax": lambda h: h.softmax(-1), "LogSoftmax": lambda h: h.log_softmax(-1), "Sigmoid": torch.sigmoid,
        "Exp": torch.exp, "Relu": torch.relu, "Elu": torch.nn.functional.elu, "Erf": torch.erf, "Tanh": torch.tanh,
        "Softplus": torch.nn.functional.softplus,
    }  # fmt: skip

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            h = torch.nn.functional.linear(x, weight)
            return functions[operator](h), functions[operator](h) + 1, functions[operator](h) - 1

    report = convert.convert(Net(), "onnx", tmp_path / "m.onnx", inputs="x:float32[batch,8]")
    assert report.verdict.status == PASS, report.verdict.reason
