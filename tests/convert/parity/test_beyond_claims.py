"""Notes in a file never narrow its tests: a pair that passes within them is also compared beyond them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import convert
from convert import plugin
from convert.errors import ParityError
from convert.graph.claims import claims_in_force
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS

F32, I64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def saved(
    path: Path, nodes: list[onnx.NodeProto], notes: dict[str, object] | None = None, ids_in: list[object] | None = None
) -> Path:
    """Save a model of x, float32[n,4], and ids, int64[n,4], whose output y is float32 with the dim n."""
    held = [
        numpy_helper.from_array(np.array([1.5, 2, 3, 4], np.float32), "w"),
        numpy_helper.from_array(np.array([0]), "first"),
        numpy_helper.from_array(np.array([2]), "two"),
        numpy_helper.from_array(np.array([8]), "eight"),
    ]
    x, ids = helper.make_tensor_value_info("x", F32, ["n", 4]), helper.make_tensor_value_info("ids", I64, ["n", 4])
    if ids_in is not None:
        ids.metadata_props.add(key="convert.range", value=json.dumps(ids_in))
    y = helper.make_tensor_value_info("y", F32, ["n", 4])
    start = [
        helper.make_node("Cast", ["ids"], ["numbers"], to=F32),
        helper.make_node("Mul", ["x", "w"], ["scaled"]),
        helper.make_node("Add", ["scaled", "numbers"], ["sum"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["n"]),
    ]
    model = helper.make_model(
        helper.make_graph([*start, *nodes], "g", [x, ids], [y], held),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=10,
    )
    for key, value in (notes or {}).items():
        model.metadata_props.add(key=f"convert.{key}", value=json.dumps(value))
    onnx.save(model, path)
    return path


RIGHT = [helper.make_node("Identity", ["sum"], ["y"])]


def off_where(condition: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return nodes that add 1 to the output if `condition`, which computes "wrong", holds."""
    return [
        *condition,
        helper.make_node("Cast", ["wrong"], ["one"], to=F32),
        helper.make_node("Add", ["sum", "one"], ["y"]),
    ]


PAST_TWO = off_where([helper.make_node("Greater", ["n", "two"], ["wrong"])])
NOT_BY_TWO = off_where(
    [helper.make_node("Mod", ["n", "two"], ["rest"]), helper.make_node("Cast", ["rest"], ["wrong"], to=9)]
)
LARGE_IDS = off_where([helper.make_node("Greater", ["ids", "eight"], ["wrong"])])
REFUSES = [
    helper.make_node("Sub", ["two", "n"], ["rest"]),
    helper.make_node("Concat", ["n", "rest"], ["parts"], axis=0),
    helper.make_node("Add", ["n", "rest"], ["whole"]),
    helper.make_node("Expand", ["first", "whole"], ["zeros"]),
    helper.make_node("Split", ["zeros", "parts"], ["a", "b"], axis=0),
    helper.make_node("Cast", ["a"], ["as_float"], to=F32),
    helper.make_node("ReduceSum", ["as_float"], ["none"], keepdims=0),
    helper.make_node("Add", ["sum", "none"], ["y"]),
]
"""A graph with the right output for n ≤ 2, and an error in Split for larger n."""

ROWS = [
    # target's nodes, notes of source and of target, ids of the source, verdict, part of its reason
    (RIGHT, {}, {"dims": {"n": [1, 2]}}, None, PASS, ""),
    (RIGHT, {"dims": {"n": [3, None]}}, {}, None, PASS, ""),
    (RIGHT, {"guards": ["n % 2 == 0"]}, {}, None, PASS, ""),
    (RIGHT, {}, {}, [0, 1], PASS, ""),
    (PAST_TWO, {}, {"dims": {"n": [1, 2]}}, None, FAIL, "beyond n ≤ 2, which the target declares: y: error"),
    pytest.param(
        PAST_TWO, {"dims": {"n": [1, 2]}}, {}, None, FAIL, "beyond n ≤ 2, which the source declares: y: error",
        marks=pytest.mark.slow,
    ),
    (NOT_BY_TWO, {"guards": ["n % 2 == 0"]}, {}, None, FAIL, "beyond n % 2 == 0, which the source declares"),
    (RIGHT, {"guards": ["(6*n) % (3*n) == 0"]}, {}, None, PASS, ""),  # all sizes meet this condition
    pytest.param(
        PAST_TWO, {"guards": ["n < 3"]}, {}, None, FAIL, "beyond n < 3, which the source declares",
        marks=pytest.mark.slow,
    ),
    (LARGE_IDS, {}, {}, [0, 8], FAIL, "beyond ids in [0, 8], which the source declares"),
    (REFUSES, {}, {"dims": {"n": [1, 2]}}, None, INCONCLUSIVE, "compared at n ≤ 2, which the target declares, only"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "of_source", "of_target", "ids_in", "status", "reason"), ROWS)
def test_no_file_chooses_its_inputs(
    tmp_path: Path, nodes: list[onnx.NodeProto], of_source: dict, of_target: dict, ids_in: list | None, status: str,
    reason: str,
) -> None:  # fmt: skip
    source = saved(tmp_path / "a.onnx", RIGHT, of_source, ids_in)
    verdict = convert.verify(source, saved(tmp_path / "b.onnx", nodes, of_target)).verdict
    assert verdict is not None
    assert verdict.status == status, verdict.reason
    assert reason in verdict.reason


@pytest.mark.slow
def test_a_conversion_is_judged_beyond_its_source_s_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = saved(tmp_path / "a.onnx", RIGHT, {"dims": {"n": [1, 2]}})

    def write_wrong(model: object, path: Path, *_: object) -> None:
        saved(path, PAST_TWO, {"dims": {"n": [1, 2]}})

    monkeypatch.setattr(plugin.backend_for("onnx"), "write", write_wrong)
    with pytest.raises(ParityError, match="beyond n ≤ 2, which the source declares"):
        convert.convert(source, "onnx", tmp_path / "b.onnx")
    assert not (tmp_path / "b.onnx").exists()


def test_bounds_of_the_user_are_no_claims(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.onnx", RIGHT, {"dims": {"n": [1, 2]}})
    target = saved(tmp_path / "b.onnx", PAST_TWO, {"dims": {"n": [1, 2]}})
    graph = convert.inspect(source, inputs=["x:float32[n=1..3,4]"]).graph
    assert graph is not None
    assert claims_in_force(graph) == []
    chosen = convert.verify(source, target, inputs=["x:float32[2,4]"]).verdict
    assert chosen is not None
    assert chosen.status == PASS, "the user asked for one size"


def test_the_graph_keeps_its_notes(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.onnx", RIGHT, {"dims": {"n": [1, 4]}, "guards": ["n % 2 == 0"]}, [0, 1])
    report = convert.convert(source, "onnx", tmp_path / "c.onnx")
    assert report.verdict is not None
    assert report.verdict.status == PASS
    written = onnx.load(tmp_path / "c.onnx")
    noted = {p.key: json.loads(p.value) for p in written.metadata_props}
    assert noted["convert.dims"]["n"] == [1, 4]
    assert noted["convert.guards"] == ["n % 2 == 0"]
    assert report.conditions == ["n % 2 == 0"]
