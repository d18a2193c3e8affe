"""The table of the PyTorch backend's rules: a row or a graph for each rule that the shared rows do not cover."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch import ops  # noqa: F401  (fills the table)
from convert.backends.pytorch.dtypes import tensor_from
from convert.backends.pytorch.emit import check
from convert.backends.pytorch.passes.legalize import legalize
from convert.backends.pytorch.rules import onnx_op
from convert.backends.pytorch.writer.exported import export_model
from onnx.reference import ReferenceEvaluator

from tests.backends.pytorch.ops.support import as_array, computed
from tests.backends.pytorch.ops.test_rows import ROWS
from tests.backends.tensorflow.ops.support import STATIC
from tests.backends.tensorflow.ops.test_random import DISTRIBUTIONS, DRAWN
from tests.suites.onnx_node_cases import NodeCase, cases
from tests.suites.onnx_node_worker import answer_to
from tests.suites.onnx_nodes import judged, request
from tests.support.cases import Case, params

GRAPHS = {
    "pieces": """(float[2, 3] a, float[2, 3] b, int64 place) => (float[m, n] y, float[2, 3] z, int64 length) {
        first = Constant <value_int = 0> ()
        pair = SequenceConstruct (a, b)
        three = SequenceInsert (pair, b, first)
        two = SequenceErase (three, first)
        y = ConcatFromSequence <axis = 1> (three)
        z = SequenceAt (two, place)
        length = SequenceLength (three)
    }""",
    "grown": """(float[4, 3] a) => (float[n, 3] y, float[3] z) {
        none = SequenceEmpty <dtype = 1> ()
        one = SequenceInsert (none, a)
        parts = SplitToSequence <axis = 0, keepdims = 0> (a)
        turned = SequenceMap <body = turn (float[3] row) => (float[3] turned_row) { turned_row = Neg (row) }> (parts)
        last = Constant <value_int = -1> ()
        z = SequenceAt (turned, last)
        y = ConcatFromSequence <axis = 0> (one)
    }""",
    "maybe": """(float[2, 3] a) => (float[2, 3] y, bool there) {
        perhaps = Optional (a)
        y = OptionalGetElement (perhaps)
        there = OptionalHasElement (perhaps)
    }""",
    "features": """(float[2, 3] a, int64[2] places) => (float[2, 2] y, float[2, 3] z) {
        y = ai.onnx.ml.ArrayFeatureExtractor (a, places)
        z = ai.onnx.ml.Binarizer <threshold = 0.1> (a)
    }""",
    "quantized": """(float[4, 3] a) => (uint8[4, 3] y, float scale, uint8 zero) {
        y, scale, zero = DynamicQuantizeLinear (a)
    }""",
    "attention": """(float[1, 4, 3, 8] q, float[1, 2, 3, 8] k, float[1, 2, 3, 8] v) => (float[1, 4, 3, 8] y) {
        y = ai.onnx.preview.FlexAttention <
            score_mod = cap (float[1, 4, 3, 3] s) => (float[1, 4, 3, 3] t) { t = Tanh (s) }> (q, k, v)
    }""",
}
GRAPHS |= {
    "unsigned": "(uint64[9] a, uint64[9] b) => (uint64[9] y, uint64[9] z) { y = Div (a, b) z = Mod (a, b) }",
    "grid": """(float[2, 2, 3] a, int64[4] size) => (float[2, h, w, 2] y) {
        y = AffineGrid <align_corners = 1> (a, size)
    }""",
}
GRAPHS |= {
    "turned": """(float[3, 3] a, int64 place) => (float[3, 3] y, float[2, 3] z, float[3, 3] w) {
        none = Constant <value_int = 0> ()
        one = Constant <value_ints = [1]> ()
        square = Constant <value_ints = [3, 3]> ()
        there = Greater (place, none)
        y = If (there) <
            then_branch = t () => (float[3, 3] yt) { yt = Transpose <perm = [1, 0]> (a) },
            else_branch = e () => (float[3, 3] ye) { ye = Neg (a) }>
        ends = Constant <value_ints = [1, 3]> ()
        first = Constant <value_ints = [0]> ()
        two = Constant <value_ints = [2]> ()
        three = Constant <value_ints = [3]> ()
        z = If (there) <
            then_branch = t2 () => (float[2, 3] zt) { zt = Slice (a, one, three, first) },
            else_branch = e2 () => (float[2, 3] ze) { ze = Slice (a, first, two, first) }>
        w = If (there) <
            then_branch = t3 () => (float[3, 3] wt) { row = Slice (a, first, one, first) wt = Expand (row, square) },
            else_branch = e3 () => (float[3, 3] we) { we = Transpose <perm = [1, 0]> (a) }>
    }""",
    "erased": """(float[2, 3] a, float[1, 3] b, int64 place) => (float[m, 3] y, float[n, 3] z) {
        pair = SequenceConstruct (a, b)
        same = Sub (place, place)
        three = SequenceInsert (pair, b, same)
        y = SequenceAt (three, place)
        two = SequenceErase (three, place)
        z = ConcatFromSequence <axis = 0> (two)
    }""",
    "sized": """(float[2, 3] a, float[n, 3] b) => (float[2, 3] y) {
        dims = Shape <end = 1> (b)
        one = Constant <value_int = 1> ()
        count = Squeeze (dims)
        place = Sub (count, one)
        twice = Add (a, a)
        pair = SequenceConstruct (a, twice)
        y = SequenceAt (pair, place)
    }""",
}
_NUMBERS = {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "float16": 10, "double": 11, "uint32": 12, "uint64": 13}
GRAPHS |= {
    f"rounds_of_{kind}": f"""(float[3] a, int64 rounds) => (float[3] y) {{
        more = Constant <value = bool {{1}}> ()
        x = Cast <to = {number}> (a)
        found = Loop (rounds, more, x) <body = b (int64 i, bool go, {kind}[3] s) => (bool on, {kind}[3] t) {{
            on = Identity (go)
            number = Constant <value = {kind} {{7}}> ()
            t = Where (on, number, s)
        }}>
        y = Cast <to = 1> (found)
    }}"""
    for kind, number in _NUMBERS.items()
}
"""Constants of a branch or loop are made in it, of any dtype."""
HEADER = '<ir_version: 10, opset_import: ["" : 23, "ai.onnx.ml" : 3, "ai.onnx.preview" : 1]> g '


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


def right(name: str, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of onnxruntime, or of ONNX's own evaluator if onnxruntime lacks the operator."""
    if name == "attention" or name.startswith("rounds"):
        return list(ReferenceEvaluator(model).run(None, feeds))
    return list(onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds))


def drawn(type_: onnx.TypeProto.Tensor, rng: np.random.Generator) -> np.ndarray:
    """Return normal numbers, large unsigned ones, or a size."""
    dims = [d.dim_value for d in type_.shape.dim]
    if type_.elem_type == onnx.TensorProto.FLOAT:
        return rng.normal(size=dims).astype(np.float32)
    if type_.elem_type == onnx.TensorProto.UINT64:
        return rng.integers(1, 2 ** rng.integers(1, 64, dims), dtype=np.uint64) * 2 - 1
    return np.full(dims, len(dims) + 1)


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str) -> None:
    model = model_of(GRAPHS[name])
    rng = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        feeds[value.name] = drawn(value.type.tensor_type, rng)
    shared = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    legalize(shared)
    check(shared)
    with torch.no_grad():
        outputs = export_model(shared).module()(*(tensor_from(feeds[v.name]) for v in shared.graph.inputs))
    for value, wanted in zip(model.graph.output, right(name, model, feeds), strict=True):
        got = as_array(outputs[value.name])
        assert (got.dtype, got.shape) == (np.asarray(wanted).dtype, np.shape(wanted))
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


OFFICIAL = (
    "test_adagrad_multiple", "test_adam_multiple", "test_ai_onnx_ml_tree_ensemble_set_membership",
    "test_ai_onnx_ml_tree_ensemble_single_tree", "test_cast_FLOAT16_to_FLOAT4E2M1", "test_cast_FLOAT_to_UINT2",
    "test_cast_INT2_to_INT8", "test_cast_e8m0_FLOAT_to_FLOAT8E8M0", "test_castlike_FLOAT_to_INT4", "test_dft_irfft",
    "test_dft_rfft", "test_if_seq", "test_momentum_multiple", "test_nesterov_momentum",
    "test_dequantizelinear_float4e2m1", "test_quantizelinear_int2", "test_sequence_insert_at_front",
)  # fmt: skip
"""Cases of ONNX's own suite: what onnxruntime lacks, sequences as inputs, numbers of less than a byte at the ends."""


@pytest.fixture(scope="module")
def official() -> dict[str, NodeCase]:
    return {case.name: case for case in cases(["node"])}


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFICIAL)
def test_official_case(name: str, official: dict[str, NodeCase]) -> None:
    case = official[name]
    result = judged(case, answer_to(*request(case, "torch")), "torch")
    assert (result.status, result.text) == ("pass", "")


@pytest.mark.parametrize("row", params(DRAWN))
def test_random_numbers_are_of_their_distribution(row: Case) -> None:
    torch.manual_seed(0)
    (got,) = computed(row, STATIC)
    dtype, low, high, mean, deviation = DISTRIBUTIONS[row.operator]
    assert (got.dtype, got.shape) == (dtype, (40, 50))
    assert low <= got.min() <= got.max() <= high
    assert abs(got.mean() - mean) < 5 * deviation / 2000**0.5, "five standard errors of 2,000 numbers"
    assert abs(got.std() - deviation) < 0.15 * deviation


@pytest.mark.slow
def test_every_rule_has_a_case(official: dict[str, NodeCase]) -> None:
    rules = {operator for operator in onnx_op.entries if not operator.startswith("convert.")}
    graphs = [*(model_of(text).graph for text in GRAPHS.values()), *(official[name].model.graph for name in OFFICIAL)]
    nodes = [node for graph in graphs for node in graph.node]
    written = {f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in nodes}
    assert rules - {row.operator for row in (*ROWS, *DRAWN)} - written == set()
    assert len(rules) >= 172
