"""Subgraphs, sequences, optionals, optimizers and random numbers of the Caffe2 backend on the real Caffe2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from convert.backends import caffe2
from convert.frontends.caffe2.runner.runner import Job, run_jobs
from onnx.reference import ReferenceEvaluator

from convert import plugin
from convert.errors import ConvertError, Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from tests.backends.caffe2.ops.caffe2_models import MODELS, RANDOM, Model, model
from tests.support.caffe2_support import assert_same, needs_caffe2

Outcomes = dict[str, dict[str, np.ndarray] | ConvertError]


def write(proto: onnx.ModelProto, path: Path) -> None:
    source = plugin.source_for_object(proto)
    graph = plugin.frontend_for(source).read(source, Options(), Report("convert"))
    caffe2.write(graph, path, "caffe2", Options(), Report("convert"))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Run every model in the real Caffe2 and return its outcome."""
    if reason := needs_caffe2():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("models")
    found: Outcomes = {}
    jobs: dict[str, Job] = {}
    for number, one in enumerate(MODELS):
        path = folder / f"{number}.caffe2"
        try:
            write(one.proto, path)
        except ConvertError as error:
            found[one.name] = error
        else:
            jobs[one.name] = Job(path, one.feeds)
    found.update(zip(jobs, run_jobs(list(jobs.values()), seconds=120), strict=True))
    return found


def reference(one: Model) -> dict[str, np.ndarray]:
    """Return the outputs of ONNX Runtime, or of ONNX's reference evaluator for opsets and domains that ONNX Runtime
    lacks.
    """
    outputs = one.proto.graph.output
    if one.opset <= 21:
        content = one.proto.SerializeToString()
        found = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, one.feeds)
    else:
        found = ReferenceEvaluator(one.proto).run(None, one.feeds)
    # The evaluator's training steps are in float64 wherever numpy widens them.
    dtypes = [onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in outputs]
    return {v.name: np.asarray(y).astype(t) for v, y, t in zip(outputs, found, dtypes, strict=True)}


@pytest.mark.caffe2
@pytest.mark.parametrize("one", MODELS, ids=lambda one: one.name)
def test_model(one: Model, outcomes: Outcomes) -> None:
    outcome = outcomes[one.name]
    if isinstance(outcome, ConvertError):
        raise outcome
    assert_same(outcome, reference(one))


@pytest.mark.slow
@pytest.mark.caffe2
def test_random_numbers_have_the_distribution_that_was_asked_for(tmp_path: Path) -> None:
    if reason := needs_caffe2():
        pytest.skip(reason)
    write(model("random", RANDOM).proto, tmp_path / "random.caffe2")
    # Class 2 has nearly all of the probability.
    x = np.tile(np.array([0.0, 1.0, 12.0, -3.0], np.float32), (300, 1))
    (found,) = run_jobs([Job(tmp_path / "random.caffe2", {"x": x})])
    assert not isinstance(found, ConvertError), found
    # The bounds are 8 standard deviations of the mean of this many numbers.
    uniform, normal = found["u"], found["g"]
    assert uniform.min() >= 2
    assert uniform.max() <= 5
    assert abs(uniform.mean() - 3.5) < 8 * np.sqrt(9 / 12 / uniform.size)
    assert abs(normal.mean() - 3) < 8 * 0.5 / np.sqrt(normal.size)
    assert abs(normal.std() - 0.5) < 8 * 0.5 / np.sqrt(2 * normal.size)
    assert abs(found["v"].mean() - 0.5) < 8 * np.sqrt(1 / 12 / x.size)
    assert abs(found["h"].mean()) < 8 / np.sqrt(x.size)
    assert found["m"].shape == (300, 500)
    assert (found["m"] == 2).mean() > 0.99
    assert set(np.unique(found["b"])) == {0.0, 1.0}
    share = found["b"][:, 0].mean()
    assert abs(share - 0.5) < 8 * np.sqrt(0.25 / len(x))
    kept = found["d"] != 0
    np.testing.assert_allclose(found["d"][kept], (x / np.float32(0.75))[kept], rtol=1e-6)
    assert abs(kept[:, 1:].mean() - 0.75) < 8 * np.sqrt(0.1875 / 900)


def test_a_sequence_as_an_input_is_refused() -> None:
    text = '<ir_version: 10, opset_import: ["" : 23]> g (seq(float) s) => (int64 n) { n = SequenceLength (s) }'
    source = plugin.source_for_object(onnx.parser.parse_model(text))
    graph = plugin.frontend_for(source).read(source, Options(), Report("convert"))
    with pytest.raises(Unsupported, match="is a sequence") as caught:
        caffe2.check(graph, "caffe2", Options())
    assert "--input s_0" in caught.value.hint


def test_a_failure_inside_a_body_names_its_node() -> None:
    branches = "then_branch = b () => (y) { y = StringNormalizer (x) }, else_branch = e () => (z) { z = Identity (x) }"
    graph = f"g (bool c, string[2] x) => (string[2] y) {{ y = If (c) <{branches}> }}"
    text = f'<ir_version: 10, opset_import: ["" : 23]> {graph}'
    source = plugin.source_for_object(onnx.parser.parse_model(text))
    graph = plugin.frontend_for(source).read(source, Options(), Report("convert"))
    with pytest.raises(Unsupported, match="StringNormalizer"):
        caffe2.check(graph, "caffe2", Options())
