"""Run a sample of the official ONNX cases through the TensorFlow backend; with `long`, all cases, and Caffe2 too."""

from __future__ import annotations

import pytest
from convert.frontends.caffe2.runner.runner import available

from tests.suites import onnx_node_worker
from tests.suites.onnx_node_cases import OLD_SET, cases
from tests.suites.onnx_node_frozen import all_frozen
from tests.suites.onnx_node_gaps import GAPS
from tests.suites.onnx_node_worker import Answer
from tests.suites.onnx_nodes import Result, declared, run_cases

# The rows of tests/backends/tensorflow/ops lack cases with sequences, optionals, other domains or newer opsets.
SAMPLE = [
    "test_adagrad",
    "test_gradient_of_add",
    "test_adam_multiple",
    "test_nesterov_momentum",
    "test_ai_onnx_ml_array_feature_extractor",
    "test_ai_onnx_ml_binarizer",
    "test_ai_onnx_ml_label_encoder_string_int_no_default",
    "test_ai_onnx_ml_label_encoder_tensor_mapping",
    "test_ai_onnx_ml_tree_ensemble_set_membership",
    "test_ai_onnx_ml_tree_ensemble_single_tree",
    "test_bernoulli_expanded",
    "test_bernoulli_seed",
    "test_cast_FLOAT16_to_FLOAT4E2M1",
    "test_cast_FLOAT8E5M2FNUZ_to_FLOAT",
    "test_cast_INT2_to_INT8",
    "test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ",
    "test_causal_conv_with_state_silu_fp16",
    "test_dft_inverse",
    "test_flexattention_soft_cap",
    "test_identity_opt",
    "test_if_opt",
    "test_if_seq",
    "test_image_decoder_decode_jpeg_bgr",
    "test_image_decoder_decode_webp_rgb",
    "test_linear_attention_delta",
    "test_loop13_seq",
    "test_loop11",
    "test_optional_get_element_optional_sequence",
    "test_optional_has_element_empty_optional_input",
    "test_optional_has_element_optional_input",
    "test_quantizelinear_e4m3fn",
    "test_scan9_sum",
    "test_sequence_insert_at_front",
    "test_sequence_map_add_2_sequences",
    "test_sequence_map_extract_shapes_expanded",
    "test_sequence_model1",
    "test_sequence_model2",
    "test_sequence_model4",
    "test_sequence_model6",
    "test_split_to_sequence_nokeepdims",
    "test_strnorm_model_nostopwords_nochangecase",
    "test_training_dropout_default_mask",
    "test_upsample_nearest",
    "test_PReLU_2d_multiparam",
]


def unexplained(results: list[Result]) -> list[str]:
    return [f"{r.case}: {r.status}: {r.text}" for r in results if r.status not in ("pass", "gap")]


@pytest.mark.slow
def test_a_sample_passes() -> None:
    pytest.importorskip("tensorflow")
    chosen = [case for case in cases() if case.name in SAMPLE]
    results = run_cases(chosen, "tf-frozen")
    assert unexplained(results) == []
    gaps = {r.case for r in results if r.status == "gap"}
    assert gaps == {case.name for case in chosen if declared(case.name, "tf-frozen")}


@pytest.mark.slow
def test_every_gap_is_of_a_case_that_exists() -> None:
    names = [case.name for case in cases()]
    for backend, rows in GAPS.items():
        for pattern in rows:
            assert any(declared(name, backend) for name in names), pattern


def test_a_case_that_times_out_is_run_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[str, list[float]] = {}

    class Busy:
        """A worker that answers a case in time only if it gets more time."""

        def __init__(self, environment: dict[str, str]) -> None:
            pass

        def run(self, request: str, seconds: float = onnx_node_worker.TIMEOUT) -> Answer:
            limits.setdefault(request, []).append(seconds)
            late = request == "slow" and seconds <= onnx_node_worker.TIMEOUT
            return Answer("timeout" if late else "ran")

        def stop(self) -> None:
            pass

    monkeypatch.setattr(onnx_node_worker, "Worker", Busy)
    answers: list[tuple[str, str]] = []
    requests = [("a", "slow"), ("b", "quick")]
    onnx_node_worker.run_all(requests, 1, {}, lambda name, answer: answers.append((name, answer.status)))
    assert answers == [("b", "ran"), ("a", "ran")]
    assert limits == {"slow": [onnx_node_worker.TIMEOUT, onnx_node_worker.ALONE], "quick": [onnx_node_worker.TIMEOUT]}


@pytest.mark.long
@pytest.mark.parametrize("onednn", [True, False], ids=["onednn", "no_onednn"])
def test_all_pass_or_are_declared_gaps(onednn: bool) -> None:
    pytest.importorskip("tensorflow")
    results = run_cases(cases(), "tf", onednn=onednn, jobs=2)
    assert unexplained(results) == []
    assert sum(r.status == "pass" for r in results) >= 0.96 * len(results)


@pytest.mark.long
def test_pytorch_is_right_or_says_why_not() -> None:
    results = run_cases(cases(), "torch", jobs=2)
    assert unexplained(results) == []
    assert sum(r.status == "pass" for r in results) >= 0.97 * len(results)


@pytest.mark.long
def test_keras_is_right_or_says_why_not() -> None:
    pytest.importorskip("keras")
    results = run_cases(all_frozen(cases()), "keras", jobs=2)
    assert unexplained(results) == []


@pytest.mark.long
@pytest.mark.caffe2
@pytest.mark.parametrize(
    ("set_", "freeze", "least"),
    [(OLD_SET, True, 723), (OLD_SET, False, 640), ("node", True, 1365)],
    ids=["1.8.1, frozen", "1.8.1", "frozen"],
)
def test_caffe2_passes_as_many_as_were_asked_for(set_: str, freeze: bool, least: int) -> None:
    if reason := available():
        pytest.skip(reason)
    chosen = cases([set_])
    results = run_cases(all_frozen(chosen) if freeze else chosen, "caffe2")
    assert [r for r in results if r.status in ("wrong", "crash", "error", "timeout")] == []
    assert sum(r.status == "pass" for r in results) >= least
