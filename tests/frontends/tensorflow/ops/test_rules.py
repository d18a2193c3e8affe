"""Every rule of the TensorFlow frontend against TensorFlow: the operator in a function, read, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow import ops  # noqa: F401  (`ops` fills the table)
from convert.frontends.tensorflow.graph import opdefs
from convert.frontends.tensorflow.graph.refused import CHANGES
from convert.frontends.tensorflow.rules import tf_op

from convert import plugin
from tests.frontends.tensorflow.ops.cases_array import ARRAYS
from tests.frontends.tensorflow.ops.cases_layers import LAYERS
from tests.frontends.tensorflow.ops.cases_legacy import OLD
from tests.frontends.tensorflow.ops.cases_math import MATH
from tests.frontends.tensorflow.ops.cases_more import MORE
from tests.frontends.tensorflow.ops.cases_quantized import QUANTISED
from tests.frontends.tensorflow.ops.cases_quantized_v1 import BYTES, BYTES_BATCHED
from tests.frontends.tensorflow.ops.cases_ragged import ROWS
from tests.frontends.tensorflow.ops.cases_runtime import RUNTIME
from tests.frontends.tensorflow.ops.cases_sparse import MISSING
from tests.frontends.tensorflow.ops.cases_special import WHOLE
from tests.frontends.tensorflow.ops.tf_support import check, has_array
from tests.support.cases import Case, params

ELSEWHERE = {"ReadVariableOp", "ResourceGather", "VarIsInitializedOp", "RandomUniform",
             "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3",
             "RandomUniformInt", "RandomStandardNormal", "RandomShuffle", "Multinomial", "ResourceGatherNd", "TopK",
             "LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "TruncatedNormal",
             "OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone", "StringFormat",
             "RaggedTensorFromVariant", "RaggedTensorToVariant"}  # fmt: skip
"""Operators on variables and tables, and those without a result to compare, have tests in test_tensorflow_frontend.py
and test_tensorflow_tables.py; those that change a variable have theirs in test_tensorflow_state.py,
variants, optional values and texts in test_tensorflow_whole.py."""
FUNCTIONS = {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"}
"""Control flow and lists have theirs in test_tensorflow_loops.py, what only TensorFlow's optimiser writes in
test_tensorflow_fused.py."""

COVERED = 312
"""How many of the operators in tensorflow_seen.tsv have rules."""

LIGHT = [*MATH, *LAYERS, *ARRAYS, *MORE, *MISSING, *OLD, *QUANTISED, *ROWS, *WHOLE, *RUNTIME]
CASES = [*LIGHT, *BYTES]


@pytest.mark.parametrize("row", params(CASES))
def test_operator(row: Case) -> None:
    """Static shapes."""
    check(row, dynamic=False)


def _stays_of_known_rank(row: Case) -> bool:
    """The rank that Squeeze without dims gives, and what takes a shape of unknown length, nobody knows beforehand.

    TensorFlow itself refuses MatrixSetDiag with several diagonals and an open batch; a part is written to by places in
    a static shape.
    """
    unknown = {("Squeeze", ""), ("Reshape", "dynamic"), ("BroadcastArgs", ""), ("SparseReshape", "")}
    unknown |= {("MatrixSetDiagV2", ""), ("MatrixSetDiagV3", "")}
    unknown |= {("TensorStridedSliceUpdate", ""), ("TensorStridedSliceUpdate", "row")}
    unknown |= {("StridedSlice", "every 2"), ("StridedSlice", "every -3")}
    return (row.operator, row.label) not in unknown


BATCHED = [
    c for c in (*LIGHT, *BYTES_BATCHED) if not c.reason and any(map(has_array, c.inputs)) and _stays_of_known_rank(c)
]


@pytest.mark.parametrize("row", params(BATCHED))
def test_operator_with_dynamic_batch(row: Case) -> None:
    """The first dim of every input unknown, as in a model that is served."""
    check(row, dynamic=True)


def test_every_rule_has_a_case() -> None:
    lists = {name for name in tf_op.entries if "TensorList" in name}
    fused = {name for name in tf_op.entries if name.startswith("_Fused")}
    assert set(tf_op.entries) == {c.operator for c in CASES} | ELSEWHERE | CHANGES | FUNCTIONS | lists | fused


def test_every_operator_that_is_seen_has_a_rule_or_a_reason() -> None:
    """`convert ops --from tf --of tests/ops/tensorflow_seen.tsv` prints the same."""
    rows = plugin.operators_in_text(
        list(frontend.operators()), (Path(__file__).parent / "tensorflow_seen.tsv").read_text()
    )
    assert not [row for row in rows if row.gap.startswith("neither")]
    assert (len(rows), sum(not row.gap for row in rows)) == (327, COVERED)


def test_schemas_are_those_of_the_installed_tensorflow() -> None:
    from tensorflow.python.framework import op_def_registry

    for name, op in opdefs.table().items():
        definition = op_def_registry.get(name)
        assert definition is not None, name
        installed = opdefs.describe(definition).split("\t")
        assert [a.name for a in op.inputs] == [part.split("*")[0].split("@")[0] for part in installed[1].split()], name
        assert [a.name for a in op.outputs] == [part.split("*")[0].split("@")[0] for part in installed[2].split()], name
