"""An artefact is run with both kinds of kernels, and in every way with one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from convert.frontends.tensorflow.runner import kernels

from convert.request.source import Source

OPERATORS = {"Relu": 2, "QuantizeV2": 1, "_QuantizedMatMul": 1}
"""Operators, and with how many kinds of kernels their graphs run."""


def graph_of(operator: str, path: Path) -> Source:
    """Write a frozen graph of one node."""
    from tensorflow.core.framework.graph_pb2 import GraphDef

    graph = GraphDef()
    graph.node.add(name="y", op=operator)
    path.write_bytes(graph.SerializeToString())
    return Source("frozen-graph", path)


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("asked", ["", "0", "1"])
@pytest.mark.parametrize(("operator", "count"), OPERATORS.items())
def test_one_of_the_processes_runs_every_way(
    operator: str, count: int, asked: str, products: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever the processor is and whatever the user's environment asks for."""
    source = graph_of(operator, tmp_path / "g.pb")
    monkeypatch.setattr(kernels, "_has_products", lambda: products)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", asked)
    settings = kernels.settings(source)
    assert len(settings) == count
    usual = []
    for variables in settings:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        usual.append(kernels.is_usual_setting(source))
    assert sum(usual) == 1
