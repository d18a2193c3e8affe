"""Cases of the PyTorch frontend's rules for layers: activations, convolutions, pools, norms, attention, products."""

from __future__ import annotations

import numpy as np

from tests.support.cases import boolean, case, f32, i64

X = f32(2, 4, 6, 7)
RANGE = np.linspace(-8, 8, 33, dtype=np.float32)
W = f32(6, 4, 3, 3, low=-0.3, high=0.3)
VAR = np.abs(f32(4)) + 0.5

ACTIVATIONS = [
    *(
        case(name, RANGE)
        for name in (
            "relu",
            "relu6",
            "hardtanh",
            "leaky_relu",
            "elu",
            "selu",
            "celu",
            "gelu",
            "silu",
            "mish",
            "hardswish",
            "hardsigmoid",
            "softplus",
            "log_sigmoid",
            "hardshrink",
            "softshrink",
            "rrelu",
        )
    ),
    case("relu", i64(2, 3)).named("int"),
    case("hardtanh", RANGE, -2, 3).named("bounds"),
    case("leaky_relu", RANGE, 0.3).named("slope"),
    case("elu", RANGE, 0.7).named("alpha"),
    case("elu", RANGE, 0.7, 1.5, 0.5).named("scales"),
    case("celu", RANGE, 2.0).named("alpha"),
    case("gelu", RANGE, approximate="tanh").named("tanh"),
    case("softplus", RANGE, 2, 3).named("threshold"),
    case("softplus", RANGE, 0.5).named("beta"),
    case("hardshrink", RANGE, 1).named("wide"),
    case("softshrink", RANGE, 1).named("wide"),
    case("threshold", RANGE, 0.5, 7),
    case("prelu", X, f32(4)),
    case("prelu", RANGE, f32(1)).named("one"),
    case("prelu", np.array(-2.0, np.float32), f32(1)).named("number"),
    case("_prelu_kernel", f32(2, 3), f32(1, 3)),
    case("glu", f32(2, 6)),
    case("glu", X, 1).named("channels"),
    *(
        case(name, f32(2, 5), 1)
        for name in ("softmax", "log_softmax", "special_softmax", "special_log_softmax", "_safe_softmax")
    ),
    case("_softmax", f32(2, 5), 1, False),
    case("_log_softmax", f32(2, 5), 0, False),
    case("softmax", i64(2, 3), 0, 6).named("dtype"),
    *(
        case(name, f32(2, 5), 0.5, False)
        for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    ),
    case("rrelu_with_noise", RANGE, RANGE),
]

CONVOLUTIONS = [
    case("conv2d", X, W),
    case("conv2d", X, W, f32(6), [2, 2], [1, 1]).named("strided"),
    case("conv2d", X, W, None, [1, 2], [2, 0], [2, 1]).named("dilated"),
    case("conv2d", X, f32(8, 1, 3, 3), f32(8), [1, 1], [0, 0], [1, 1], 4).named("depthwise"),
    case("conv2d.padding", X, f32(6, 4, 4, 3), None, [1, 1], "same").named("same"),
    case("conv2d.padding", X, W, None, [1, 1], "valid").named("valid"),
    case("conv2d", X[0], W).named("single"),
    case("conv1d", f32(2, 4, 9), f32(6, 4, 3), f32(6), [2], [1]),
    case("conv3d", f32(1, 2, 4, 5, 6), f32(3, 2, 2, 3, 2), None, [1, 1, 1], [1, 1, 1]),
    case("conv_transpose2d", X, f32(4, 6, 3, 3)),
    case("conv_transpose2d", X, f32(4, 3, 3, 3), f32(6), [2, 2], [1, 1], [1, 1], 2).named("grouped"),
    case("conv_transpose2d", X, f32(4, 6, 3, 3), None, [2, 1], [0, 0], [0, 0], 1, [2, 2]).named("dilated"),
    case("conv_transpose2d", X, f32(4, 6, 3, 3), f32(6), [2, 1], [1, 0], [3, 2], 1, [4, 3]).named("much behind"),
    case("conv_transpose1d", f32(2, 4, 9), f32(4, 6, 3), None, [2]),
    case("conv_transpose3d", f32(1, 2, 3, 3, 3), f32(2, 3, 2, 2, 2)),
    case("convolution", X, W, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    case("convolution", X, f32(4, 6, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1).named("transposed"),
    case("_convolution", X, W, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True),
    case("im2col", X, [2, 3], [1, 2], [1, 0], [2, 1]),
]

POOLS = [
    case("max_pool2d", X, 2),
    case("max_pool2d", X, 3, 2, 1).named("padded"),
    case("max_pool2d", X, 3, 2, 1, 1, True).named("ceil"),
    case("max_pool2d", X, 2, 3, 0, 1, True).named("ceil dropped"),
    case("max_pool2d", X, 2, 1, 0, 2).named("dilated"),
    case("max_pool1d", f32(2, 4, 9), 3),
    case("max_pool3d", f32(1, 2, 4, 5, 6), 2),
    case("max_pool2d", X[0], 2).named("single"),
    case("max_pool2d_with_indices", X, [2, 2]),
    case("max_pool1d_with_indices", f32(2, 4, 9), [3]),
    case("max_pool3d_with_indices", f32(1, 2, 4, 5, 6), [2, 2, 2]),
    case("avg_pool2d", X, 2),
    case("avg_pool2d", X, 3, 2, 1).named("padded"),
    case("avg_pool2d", X, 3, 2, 1, False, False).named("not counted"),
    case("avg_pool2d", X, 3, 2, 1, True).named("ceil"),
    case("avg_pool2d", X, 3, 2, 1, True, False).named("ceil not counted"),
    case("avg_pool2d", X, 2, 3, 0, True).named("ceil dropped"),
    case("avg_pool2d", X, 3, 2, 1, False, True, 5).named("divisor"),
    case("avg_pool2d", X, 3, 2, 1, True, True, 5).named("ceil divisor"),
    case("avg_pool2d", X, 3, 2, 1, True, False, 2).named("ceil divisor not counted"),
    case("avg_pool1d", f32(2, 4, 9), 3, 2, 1),
    case("avg_pool3d", f32(1, 2, 4, 5, 6), 2),
    *(
        case("adaptive_avg_pool2d", X, list(target)).named(f"{target}")
        for target in ((1, 1), (3, 7), (2, 3), (4, 5), (6, 7), (9, 1))
    ),
    case("adaptive_avg_pool1d", f32(2, 4, 9), [4]),
    case("adaptive_avg_pool3d", f32(1, 2, 4, 5, 6), [2, 3, 4]),
    case("_adaptive_avg_pool2d", X, [2, 2]),
    case("_adaptive_avg_pool3d", f32(1, 2, 4, 5, 6), [1, 1, 1]),
    case("adaptive_max_pool2d", X, [3, 7]),
    case("adaptive_max_pool2d", X, [4, 5]).named("uneven"),
    case("adaptive_max_pool1d", f32(2, 4, 9), [4]),
    case("adaptive_max_pool3d", f32(1, 2, 4, 5, 6), [2, 5, 3]),
]

NORMS = [
    case("batch_norm", X, f32(4), f32(4), f32(4), VAR, False, 0.1, 1e-3, False),
    case("batch_norm", X, None, None, f32(4), VAR, False, 0.1, 1e-5, False).named("plain"),
    case("batch_norm", f32(5, 4), f32(4), f32(4), f32(4), VAR, False, 0.1, 1e-5, False).named("rows"),
    case("batch_norm", X, f32(4), f32(4), None, None, True, 0.1, 1e-5, False).named("batch statistics"),
    case("_native_batch_norm_legit_no_training", X, f32(4), f32(4), f32(4), VAR, 0.1, 1e-5),
    case("instance_norm", X, f32(4), f32(4), None, None, True, 0.1, 1e-5, False),
    case("instance_norm", X, None, None, f32(4), VAR, False, 0.1, 1e-5, False).named("tracked"),
    case("layer_norm", f32(2, 3, 8), [8], f32(8), f32(8)),
    case("_weight_norm", f32(3, 4, 5), f32(3, 1, 1)),
    case("_shape_as_tensor", f32(3, 4, 5)),
    case("_weight_norm", f32(3, 4, 5), f32(1, 1, 5), 2).named("last"),
    case("layer_norm", f32(2, 3, 8), [3, 8]).named("plain"),
    case("layer_norm", f32(2, 3, 8), [8], f32(8), None, 1e-3).named("no bias"),
    case("native_layer_norm", f32(2, 3, 8), [8], f32(8), f32(8), 1e-5),
    case("group_norm", X, 2, f32(4), f32(4)),
    case("group_norm", f32(2, 4, 5), 4).named("plain"),
    case("rms_norm", f32(2, 3, 8), [8], f32(8), 1e-6),
    case("rms_norm", f32(2, 3, 8), [8]).named("plain"),
    case("_fused_rms_norm", f32(2, 3, 8), [8], f32(8), 1e-6),
    case("cosine_similarity", f32(2, 5), f32(2, 5) + 1),
    case("cosine_similarity", X, X * 2 + 1, 1, 0.5).named("channels"),
    case("cosine_similarity", f32(1, 2, 3), f32(2, 1, 3), -2).named("broadcast"),
    case("cosine_similarity", f32(2, 3), f32(2, 1, 3), -1).named("ranks"),
    case("embedding", f32(5, 3), i64(2, 4, low=0, high=5)),
]

HEADS = f32(2, 3, 5, 8)
ATTENTION = [
    case("scaled_dot_product_attention", HEADS, f32(2, 3, 7, 8), f32(2, 3, 7, 8) + 1),
    case("scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, is_causal=True).named("causal"),
    case("scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, f32(5, 5)).named("mask"),
    case("scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, boolean(2, 1, 5, 5) | np.eye(5, dtype=bool)).named(
        "boolean mask"
    ),
    case("scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, scale=0.1).named("scale"),
    case("scaled_dot_product_attention", f32(2, 5, 8), f32(2, 7, 8), f32(2, 7, 6)).named("three dims"),
    case("scaled_dot_product_attention", f32(2, 4, 5, 8), f32(2, 2, 5, 8), f32(2, 2, 5, 8), enable_gqa=True).named(
        "grouped"
    ),
    case("scaled_dot_product_attention", f32(2, 2, 2, 5, 8), f32(2, 2, 2, 5, 8), f32(2, 2, 2, 5, 8) + 1).named(
        "five dims"
    ),
    case("scaled_dot_product_attention", f32(5, 8), f32(7, 8), f32(7, 8)).named("two dims"),
    case("scaled_dot_product_attention", HEADS, f32(2, 3, 7, 8), f32(2, 3, 7, 8), is_causal=True).named(
        "causal rectangle"
    ),
]

PRODUCTS = [
    case("linear", f32(2, 3), f32(4, 3), f32(4)),
    case("linear", f32(2, 5, 3), f32(4, 3), f32(4)).named("three dims"),
    case("linear", f32(3), f32(4, 3)).named("vector"),
    case("linear", f32(2, 3), f32(4, 3)).named("no bias"),
    case("bilinear", f32(2, 3), f32(2, 4), f32(5, 3, 4), f32(5)),
    case("matmul", f32(2, 3), f32(3, 4)),
    case("matmul", f32(2, 5, 3), f32(3, 4)).named("broadcast"),
    case("matmul", f32(3), f32(3)).named("vectors"),
    case("matmul", f32(2, 3), f32(3)).named("vector"),
    case("linalg_matmul", f32(2, 3), f32(3, 4)),
    case("mm", f32(2, 3), f32(3, 4)),
    case("mm", i64(2, 3), i64(3, 4)).named("int"),
    case("bmm", f32(2, 3, 4), f32(2, 4, 5)),
    case("mv", f32(2, 3), f32(3)),
    case("dot", f32(3), f32(3) + 1),
    case("vdot", f32(3), f32(3) + 1),
    case("inner", f32(2, 3), f32(4, 3)),
    case("addmm", f32(4), f32(2, 3), f32(3, 4), beta=0.5, alpha=2),
    case("addmv", f32(2), f32(2, 3), f32(3)),
    case("baddbmm", f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5), beta=0.5, alpha=2),
    case("baddbmm", f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5), beta=0).named("beta 0"),
    case("addbmm", f32(3, 5), f32(2, 3, 4), f32(2, 4, 5)),
    case("addr", f32(2, 3), f32(2), f32(3)),
    case("outer", f32(2), f32(3)),
    case("ger", f32(2), f32(3)),
    case("einsum", "bij, bjk -> bik", [f32(2, 3, 4), f32(2, 4, 5)]),
    case("einsum", "...i,...i", [f32(2, 3), f32(2, 3)]).named("ellipsis"),
    case("einsum", "...ik, ...j -> ij", [f32(1, 2, 3), f32(3)]).named("shorter ellipsis"),
    case("tensordot", f32(2, 3, 4), f32(4, 3, 5), [1, 2], [1, 0]),
    case("tensordot", f32(1, 1, 2), f32(2, 1, 2), [0, 1], [2, 0]).named("lengths of 1"),
    case("linalg_multi_dot", [f32(2, 3), f32(3, 4), f32(4, 2)]),
    case("chain_matmul", [f32(2, 3), f32(3, 4)]),
    case("cross", f32(2, 3), f32(2, 3) + 1, 1),
    case("linalg_cross", f32(2, 3), f32(2, 3) + 1),
    case("kron", f32(2, 3), f32(3, 2)),
    case("det", f32(3, 3)),
    case("linalg_det", f32(2, 3, 3)),
    case("trace", f32(3, 4)),
    case("dist", f32(2, 3), f32(2, 3) + 1),
    case("pairwise_distance", f32(2, 3), f32(2, 3) + 1),
    case("cdist", f32(2, 3), f32(4, 3)),
    case("cdist", f32(2, 3), f32(4, 3), 1.0).named("1"),
    case("_cdist_forward", f32(2, 3), f32(4, 3), 2.0, None),
]

RESIZES = [
    *(case(f"upsample_nearest{d}d", f32(1, 2, *range(3, 3 + d)), [2 * n for n in range(3, 3 + d)]) for d in (1, 2, 3)),
    *(case(f"upsample_nearest{d}d.vec", f32(1, 2, *range(3, 3 + d)), None, [2.0] * d) for d in (1, 2, 3)),
    *(
        case(f"_upsample_nearest_exact{d}d", f32(1, 2, *range(3, 3 + d)), [2 * n + 1 for n in range(3, 3 + d)])
        for d in (1, 2, 3)
    ),
    *(case(f"_upsample_nearest_exact{d}d.vec", f32(1, 2, *range(3, 3 + d)), None, [1.5] * d) for d in (1, 2, 3)),
    case("upsample_nearest2d.vec", X, None, [1.7, 0.6]).named("odd"),
    case("upsample_nearest2d", X, [5, 11]).named("sizes"),
    *(
        case(f"upsample_{n}", f32(1, 2, *range(3, 3 + d)), [2 * k + 1 for k in range(3, 3 + d)], aligned).named(
            f"{aligned}"
        )
        for n, d in (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3), ("bicubic2d", 2))
        for aligned in (False, True)
    ),
    *(
        case(f"upsample_{n}.vec", f32(1, 2, *range(3, 3 + d)), None, False, [1.5] * d)
        for n, d in (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3), ("bicubic2d", 2))
    ),
    *(case(f"_upsample_{n}_aa", X, [3, 4], False) for n in ("bilinear2d", "bicubic2d")),
    *(case(f"_upsample_{n}_aa.vec", X, [3, 4], False, None) for n in ("bilinear2d", "bicubic2d")),
    case("constant_pad_nd", X, [1, 2, 0, 1], 1.5),
    case("constant_pad_nd", X, [-1, 2]).named("negative"),
    *(case("pad", X, [1, 2, 2, 1], mode).named(mode) for mode in ("constant", "reflect", "replicate", "circular")),
    case("reflection_pad1d", f32(2, 3, 5), [1, 2]),
    case("reflection_pad2d", X, [1, 2, 2, 1]),
    case("reflection_pad3d", f32(1, 2, 3, 4, 5), [1, 1, 1, 2, 1, 0]),
    case("replication_pad1d", f32(2, 3, 5), [1, 2]),
    case("replication_pad2d", X, [1, 2, 2, 1]),
    case("replication_pad3d", f32(1, 2, 3, 4, 5), [1, 1, 1, 2, 1, 0]),
]


def _recurrent(
    name: str,
    gates: int,
    states: int,
    layers: int = 1,
    both: bool = False,
    bias: bool = True,
    batch_first: bool = False,
):
    directions = 2 if both else 1
    weights = []
    for layer in range(layers):
        width = 3 if layer == 0 else 4 * directions
        for direction in range(directions):
            shapes = [(gates * 4, width), (gates * 4, 4), *([(gates * 4,), (gates * 4,)] if bias else [])]
            weights += [f32(*s, low=-0.5 - direction, high=0.5) for s in shapes]
    state = f32(layers * directions, 2, 4)
    hx = [state, state + 0.1] if states == 2 else state
    x = f32(2, 5, 3) if batch_first else f32(5, 2, 3)
    return case(name, x, hx, weights, bias, layers, 0.0, False, both, batch_first)


RECURRENT = [
    _recurrent("lstm", 4, 2),
    _recurrent("lstm.input", 4, 2, layers=2, both=True),
    _recurrent("lstm.input", 4, 2, bias=False, batch_first=True).named("no bias"),
    _recurrent("gru", 3, 1),
    _recurrent("gru.input", 3, 1, layers=2, both=True),
    _recurrent("gru.input", 3, 1, bias=False, batch_first=True).named("no bias"),
    _recurrent("rnn_tanh", 1, 1, both=True),
    _recurrent("rnn_relu", 1, 1),
]

LAYERS = [*ACTIVATIONS, *CONVOLUTIONS, *POOLS, *NORMS, *ATTENTION, *PRODUCTS, *RESIZES, *RECURRENT]
