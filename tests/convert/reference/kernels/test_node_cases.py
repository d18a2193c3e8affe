"""All kernels of the reference executor against the outputs that ONNX expects of its node tests, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest

from convert.errors import Unsupported
from convert.graph.values import is_random_node
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from tests.support.onnx_support import assert_same, data_of, node_tests, read

# If ONNX's expected output and onnxruntime disagree (align_corners with a scale that gives a fractional size), the
# executor follows onnxruntime and the text of the specification.
DISPUTED = {"test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"}

# Their expected outputs are published with four decimals.
ROUNDED = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad",
    "test_roialign_aligned_false",
    "test_roialign_aligned_true",
    "test_roialign_mode_max",
}

# An optional that holds a sequence is compared by value elsewhere.
OTHER = {"test_if_opt"}

# Piecewise constant operators: a small change of the input causes no change or a jump.
STEPS = [
    "argm",
    "bernoulli",
    "cast",
    "ceil",
    "clip",
    "compare",
    "equal",
    "floor",
    "greater",
    "hardmax",
    "isinf",
    "isnan",
    "less",
    "nonmax",
    "nonzero",
    "onehot",
    "one_hot",
    "quantize",
    "round",
    "sign",
    "unique",
    "thresholdedrelu",
    "topk",
    "top_k",
    "where",
    "binarizer",
    "label",
    "tree",
    "nearest",
    "acosh",
    "large_number",
    "mod",
]

OURS = (
    "averagepool",
    "batchnorm",
    "basic_conv",
    "basic_deform",
    "col2im",
    "conv_",
    "convinteger",
    "convtranspose",
    "deform",
    "einsum",
    "gelu",
    "gemm",
    "globala",
    "globalm",
    "gridsample",
    "group_norm",
    "gru",
    "instancenorm",
    "layer_norm",
    "lppool",
    "lrn",
    "lstm",
    "matmul",
    "maxpool",
    "mish",
    "mvn",
    "resize",
    "rms_norm",
    "rnn",
    "selu",
    "simple_rnn",
    "softmax",
    "softplus",
    "affine_grid",
    "loop",
    "scan",
    "if",
    "range",
    "erf",
    "l1norm",
    "l2norm",
    "dropout",
    "qlinear",
    "reduce_log_sum_exp",
    "roialign",
    "celu",
    "elu",
    "hard",
)


def ours(name: str) -> bool:
    return any(name.removeprefix("test_").startswith(o) for o in OURS) and "uint2" not in name


def names() -> list[str]:
    """Return every node test of an operator with a kernel of ours, and a sample of the rest.

    The tests call this, not their collection, because ONNX first computes all of its cases, which takes twelve seconds.
    """
    every = sorted(node_tests())
    return [*filter(ours, every), *[n for n in every if not ours(n)][::8]]


@pytest.mark.slow
@pytest.mark.parametrize("group", range(8))
def test_expected_outputs_of_node_tests(group: int) -> None:
    ran = 0
    for name in names()[group::8]:
        if name in DISPUTED | OTHER:
            continue
        case = node_tests()[name]
        inputs, outputs = data_of(case)
        try:
            shared = read(case.model)
            got = run(shared, dict(zip([v.name for v in shared.graph.inputs], inputs, strict=True)))
        except Unsupported as error:
            assert str(error), name  # noqa: PT017
            continue
        drawn = any(map(is_random_node, shared.graph.all_nodes()))
        for value, wanted in zip(got.values(), outputs, strict=True):
            if drawn:  # from another generator; tests/convert/reference/test_executor.py tests the distribution
                assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), name
                continue
            assert_same(value, wanted, 5e-4 if name in ROUNDED else 2e-5)
        ran += 1
    assert ran > 50


@pytest.mark.slow
@pytest.mark.parametrize("group", range(4))
def test_nothing_rounds_to_float32(group: int) -> None:
    """A change of 1e-10 in the inputs changes the widened outputs, by less than a float32 step."""
    ran = 0
    rng = np.random.default_rng(group)
    for name in [n for n in names()[group::4] if not any(s in n for s in STEPS)]:
        case = node_tests()[name]
        inputs, outputs = data_of(case)
        if not any(isinstance(o, np.ndarray) and o.dtype.kind == "f" and o.size for o in outputs):
            continue
        try:
            twin = widen_model(read(case.model))
        except Unsupported:
            continue
        if any(map(is_random_node, twin.graph.all_nodes())):  # two runs give different random numbers
            continue
        feeds = dict(zip([v.name for v in twin.graph.inputs], inputs, strict=True))
        floating = [n for n, v in feeds.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f" and v.size]
        if not floating:
            continue
        wide = {n: v.astype(np.float64) if n in floating else v for n, v in feeds.items()}
        moved = {n: v * (1 + 1e-10 * rng.uniform(0.5, 1, v.shape)) if n in floating else v for n, v in wide.items()}
        try:
            one, two = run(twin, wide), run(twin, moved)
        except Unsupported:
            continue
        moves = []
        for a, b in zip(one.values(), two.values(), strict=True):
            if isinstance(a, np.ndarray) and a.dtype.kind == "f" and np.isfinite(a).all() and a.any():
                assert a.dtype == np.float64, name
                moves.append(np.abs(a - b).max() / np.abs(a).max())
        assert not moves or (max(moves) > 0 and max(moves) < 1e-8), (name, moves)
        ran += 1
    assert ran > 40
