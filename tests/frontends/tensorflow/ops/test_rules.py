"""The table of the TensorFlow frontend's rules has a row in a test module next to this one for each rule."""

from __future__ import annotations

from pathlib import Path

from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow import ops  # noqa: F401  (`ops` fills the table)
from convert.frontends.tensorflow.graph import opdefs
from convert.frontends.tensorflow.graph.refused import CHANGES
from convert.frontends.tensorflow.rules import tf_op

from convert import plugin
from tests.support.cases import rows_of_package

ELSEWHERE = {"ReadVariableOp", "ResourceGather", "VarIsInitializedOp", "RandomUniform",
             "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3",
             "RandomUniformInt", "RandomStandardNormal", "RandomShuffle", "Multinomial", "ResourceGatherNd", "TopK",
             "LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "TruncatedNormal",
             "OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone", "StringFormat",
             "BatchNormWithGlobalNormalization", "RaggedTensorFromVariant", "RaggedTensorToVariant",
             "XlaCallModule"}  # fmt: skip
"""Operators that have tests elsewhere:

- operators on variables and tables, and those without a result to compare: ../test_reader.py and
  ../graph/test_lookup_tables.py
- operators that change a variable: ../graph/test_state.py
- variants, optional values and texts: ../test_operators_in_context.py
- operators on cuDNN: test_cudnn.py
- operators that graphs may no longer hold: test_legacy.py
- programs of StableHLO: ../test_programs.py
"""
FUNCTIONS = {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"}
"""Control flow and lists have tests in ../loops/test_whileloop.py, operators that only TensorFlow's optimizer writes in
test_fused.py."""

COVERED = 314
"""Number of operators in tensorflow_seen.tsv that have rules."""

CASES = rows_of_package(__package__)


def test_every_rule_has_a_case() -> None:
    lists = {name for name in tf_op.entries if "TensorList" in name}
    fused = {name for name in tf_op.entries if name.startswith("_Fused")}
    assert set(tf_op.entries) == {c.operator for c in CASES} | ELSEWHERE | CHANGES | FUNCTIONS | lists | fused


def test_every_operator_that_is_seen_has_a_rule_or_a_reason() -> None:
    """`convert ops --from tf --of tests/frontends/tensorflow/ops/tensorflow_seen.tsv` prints the same."""
    rows = plugin.operators_in_text(
        list(frontend.operators()), (Path(__file__).parent / "tensorflow_seen.tsv").read_text()
    )
    assert not [row for row in rows if row.gap.startswith("no operator of this name")]
    assert (len(rows), sum(not row.gap for row in rows)) == (327, COVERED)


def test_schemas_are_those_of_the_installed_tensorflow() -> None:
    from tensorflow.python.framework import op_def_registry

    for name, op in opdefs.table().items():
        definition = op_def_registry.get(name)
        assert definition is not None, name
        installed = opdefs.describe(definition).split("\t")
        assert [a.name for a in op.inputs] == [part.split("*")[0].split("@")[0] for part in installed[1].split()], name
        assert [a.name for a in op.outputs] == [part.split("*")[0].split("@")[0] for part in installed[2].split()], name
