"""Sequences and optionals as inputs."""

from __future__ import annotations

import pytest

from tests.frontends.onnx.onnx_files import specs
from tests.support.onnx_support import node_test, read


@pytest.mark.parametrize(
    ("module", "name", "nested"),
    [
        ("sequenceinsert", "test_sequence_insert_at_back", "sequence"),
        ("optionalgetelement", "test_optional_get_element_optional_sequence", "optional_input"),
    ],
)
def test_named_elements_of_sequences_and_optionals_become_inputs(module: str, name: str, nested: str) -> None:
    case = node_test(module, name)
    elements = [f"{nested}_{i}" for i in range(3)]
    shared = read(case.model, specs(*(f"{element}:[n]" for element in elements)))
    assert [v.name for v in shared.graph.inputs] == elements + [v.name for v in case.model.graph.input[1:]]
    made = next(n for n in shared.graph if n.op_type == "SequenceConstruct")
    assert list(made.inputs) == list(shared.graph.inputs[:3])
