"""The table of the TensorFlow backend's rules has a row in a test module next to this one for each rule."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import pytest

from tests.backends.tensorflow.ops.test_random import DRAWN
from tests.suites.onnx_node_cases import cases
from tests.suites.test_onnx_nodes import SAMPLE
from tests.support.cases import rows_of_package


@pytest.mark.slow
def test_every_rule_has_a_case() -> None:
    pytest.importorskip("tensorflow")
    from convert.backends.tensorflow import ops  # noqa: F401
    from convert.backends.tensorflow.rules import onnx_op as table

    rules = {operator for operator in table.entries if not operator.startswith("convert.")}
    rows = {row.operator for row in (*rows_of_package(__package__), *DRAWN)}
    official = {operator_of(node) for case in cases() if case.name in SAMPLE for node in nodes_of(case.model.graph)}
    assert rules - rows - official == set()


def operator_of(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)
