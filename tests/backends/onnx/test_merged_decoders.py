"""A file with both decoders of a model computes what each of them computes, by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from convert.backends.onnx.merged_decoders import merge_decoders
from convert.backends.onnx.writer import INLINE_LIMIT
from google.protobuf import text_format
from onnx import numpy_helper

from convert.errors import Unsupported
from convert.outcome.report import Report

ROWS, WORDS, SIZE = 2, 3, 40
RNG = np.random.default_rng(0)
SHARED, OWN, OTHER = (RNG.standard_normal((SIZE, SIZE)).astype(np.float32) for _ in range(3))
"""Weights of more than a few kB, which the file has outside of its branches."""

FIRST = """
<ir_version: 9, opset_import: ["" : 20]>
first (float[batch_size, words, 40] hidden, float[batch_size, length, 40] states)
  => (float[batch_size, words, 40] logits, float[batch_size, words, 40] present__0__decoder__key,
      float[batch_size, length, 40] present__0__encoder__key)
  <float one = {1.0}> {
  past_key_values = MatMul(hidden, shared)
  present__0__decoder__key = Add(past_key_values, one)
  logits = MatMul(present__0__decoder__key, weight)
  present__0__encoder__key = MatMul(states, shared)
}
"""
FURTHER = """
<ir_version: 9, opset_import: ["" : 20]>
further (float[batch_size, words, 40] hidden, float[batch_size, past, 40] past_key_values__0__decoder__key,
         float[batch_size, length, 40] past_key_values__0__encoder__key)
  => (float[batch_size, words, 40] logits, float[batch_size, total, 40] present__0__decoder__key)
  <float two = {2.0}, bool yes = {1}> {
  states = MatMul(hidden, shared)
  one = If (yes) <
    then_branch = then () => (float[batch_size, words, 40] weight_1) { weight_1 = Add(states, two) },
    else_branch = else () => (float[batch_size, words, 40] use_cache_branch) { use_cache_branch = Identity(states) }
  >
  present__0__decoder__key = Concat <axis = 1> (past_key_values__0__decoder__key, one)
  scores = MatMul(one, weight)
  mean = ReduceMean <keepdims = 1> (past_key_values__0__encoder__key)
  logits = Add(scores, mean)
}
"""


def written(path: Path, text: str, **weights: np.ndarray) -> Path:
    """Write a model with these weights, and return its path. The parser takes no dots in names: "__" stands for one."""
    dotted = text_format.MessageToString(onnx.parser.parse_model(text)).replace("__", ".")
    model = text_format.Parse(dotted, onnx.ModelProto())
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save(model, path)
    return path


def run(path: Path, feed: dict[str, Any]) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(path)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


@pytest.mark.parametrize("limit", [INLINE_LIMIT, 0])
@pytest.mark.parametrize("other", [OTHER, OWN])
def test_each_branch_computes_what_its_decoder_computes(tmp_path: Path, other: np.ndarray, limit: int) -> None:
    """The decoders use the same names for different values: weights, values of branches, inputs of the other one."""
    first = written(tmp_path / "first.onnx", FIRST, shared=SHARED, weight=OWN)
    further = written(tmp_path / "further.onnx", FURTHER, shared=SHARED, weight=other)
    merge_decoders(first, further, both := tmp_path / "both.onnx", Report("convert"), limit=limit)
    assert (tmp_path / "both.onnx.data").exists() == (limit == 0)
    proto = onnx.load(both, load_external_data=False)
    onnx.checker.check_model(both, full_check=True)
    assert len(proto.graph.initializer) == (2 if other is OWN else 3)
    assert [v.name for v in proto.graph.output] == ["logits", "present.0.decoder.key", "present.0.encoder.key"]
    draw = lambda *dims: RNG.standard_normal((ROWS, *dims, SIZE)).astype(np.float32)  # noqa: E731
    words, states = {"hidden": draw(WORDS)}, {"states": draw(5)}
    past = {"past_key_values.0.decoder.key": draw(4), "past_key_values.0.encoder.key": draw(6)}
    empty = {name: np.zeros((ROWS, 0, SIZE), np.float32) for name in past}
    start = run(both, {**words, **states, **empty, "use_cache_branch": np.array([False])})
    step = run(both, {**words, **states, **past, "use_cache_branch": np.array([True])})
    for name, want in run(first, {**words, **states}).items():
        np.testing.assert_allclose(start[name], want, rtol=1e-5, atol=1e-5)
    want = {**run(further, {**words, **past}), "present.0.encoder.key": past["past_key_values.0.encoder.key"]}
    for name, array in step.items():
        np.testing.assert_allclose(array, want[name], rtol=1e-5, atol=1e-5)


def test_weights_among_the_inputs_are_refused(tmp_path: Path) -> None:
    first = written(tmp_path / "first.onnx", FIRST, shared=SHARED, weight=OWN)
    further = written(tmp_path / "further.onnx", FURTHER, shared=SHARED, weight=OWN)
    proto = onnx.load(first)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("weight", onnx.TensorProto.FLOAT, OWN.shape))
    onnx.save(proto, first)
    with pytest.raises(Unsupported, match="weights are among the inputs"):
        merge_decoders(first, further, tmp_path / "both.onnx", Report("convert"))


def test_an_output_that_the_decoder_with_a_cache_lacks_is_refused(tmp_path: Path) -> None:
    text = FIRST.replace("present__0__encoder__key", "attentions")
    first = written(tmp_path / "first.onnx", text, shared=SHARED, weight=OWN)
    further = written(tmp_path / "further.onnx", FURTHER, shared=SHARED, weight=OWN)
    with pytest.raises(Unsupported, match="has no output attentions"):
        merge_decoders(first, further, tmp_path / "both.onnx", Report("convert"))
