"""Cases of the PyTorch frontend's rules on integers and booleans, of counts, drawn windows and running statistics."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.cases import boolean, case, f32, i32, i64

PICTURE, KERNEL, TURNED = i64(2, 4, 7, 6), i64(6, 2, 3, 2), i64(4, 3, 3, 2)
BAG = (f32(6, 3), np.array([0, 2, 5, 5, 1]), np.array([0, 2, 2]))
NUMBERS = np.array([0, 1, -4, 6, 9, -12, 30])
DRAWN = (np.arange(12, dtype=np.float32) / 13).reshape(2, 3, 2)

WHOLE = [
    case("conv1d", i64(2, 4, 9), i64(6, 4, 3), i64(6), [2], [1]).named("int"),
    case("conv2d", PICTURE, KERNEL, i64(6), [2, 1], [1, 0], [1, 2], 2).named("int"),
    case("max_pool2d_with_indices", f32(1, 2, 8, 8), [2, 2], [5, 5], [1, 1], [4, 4], True).named("long end"),
    case("conv3d", i64(1, 2, 4, 5, 3), i64(2, 2, 2, 2, 2)).named("int"),
    case("conv_transpose1d", i64(1, 2, 4), i64(2, 3, 3), i64(3), [3], [1], [1]).named("int"),
    case("conv_transpose2d.input", PICTURE, TURNED, None, [2, 3], [2, 0], [1, 0], 2, [1, 2]).named("int"),
    case("max_pool1d_with_indices", i64(2, 4, 9), [3], [2], [1]).named("int"),
    case("max_pool2d", PICTURE, [3, 2], [2, 2], [1, 1], 1, True).named("int"),
    case("max_pool2d_with_indices", PICTURE, [3, 2], [1, 2], 0, [2, 1]).named("int"),
    case("avg_pool1d", i64(2, 4, 9), [2]).named("int"),
    case("avg_pool2d", PICTURE, [3, 2], [2, 2], [1, 1], True, False).named("int"),
    case("avg_pool2d", PICTURE, [3, 2], [2, 3], [1, 1], True, True).named("int, padding counts"),
    case("avg_pool2d", PICTURE, [3, 2], [2, 2], 0, False, True, 5).named("int, divisor"),
    *(case(name, NUMBERS[:, None], NUMBERS) for name in ("gcd", "lcm")),
    case("gcd", i32(9, low=-90, high=90), i32(9, low=0, high=90)).named("int32"),
    case("bincount", np.array([3, 1, 3, 0])),
    case("bincount", np.array([3, 1, 3, 0]), f32(4), 6).named("weights"),
    case("one_hot", np.array(2), 4).named("0-d"),
    *(case(name, boolean(3, 4), boolean(4)).named("bool") for name in ("fmax", "fmin", "heaviside")),
    *(case(name, boolean(3), boolean(4)[:3]).named("bool") for name in ("outer", "kron")),
    case("addr", boolean(3, 3), boolean(3), boolean(4)[:3]).named("bool"),
    case("clamp_min.Tensor", boolean(3, 4), boolean(4)).named("bool"),
    case("addmm", f32(5, 4), f32(5, 0), f32(0, 4), beta=0.5, alpha=2).named("nothing summed"),
    case("embedding_renorm", f32(6, 3), np.array([[0, 4], [4, 2]]), 1.5, 1.0),
    case("embedding_bag.padding_idx", *BAG, False, 0, False, None, False, -1),
    case("embedding_bag.padding_idx", *BAG, False, 1, False, None, False, None).named("none"),
    *(
        case("segment_reduce", f32(2, 5, 3), how, lengths=np.array([[2, 0, 3], [1, 1, 3]]), axis=1).named(
            f"{how}, axis"
        )
        for how in ("sum", "mean", "max", "min", "prod")
    ),
    case("segment_reduce", f32(2, 5), "mean", offsets=np.array([[0, 2, 5], [0, 0, 5]]), axis=1, initial=2.0).named(
        "offsets, axis"
    ),
    case("histogram", f32(0), 3).named("nothing"),
    case("mean", f32(0, 5)).named("nothing"),
    case("var_mean.correction", f32(0, 5), [0], correction=0).named("nothing"),
    case("ormqr", f32(0, 5), f32(0), f32(0, 5)).named("nothing"),
    case("prims::convert_element_type", f32(3, low=-9.0, high=9.0), torch.int64),
    case("tensor_split.tensor_indices_or_sections", f32(3, 7), np.array([2, 2, 5]), 1),
    case("_native_batch_norm_legit_functional", f32(4, 3, 5), f32(3), f32(3), f32(3), np.abs(f32(3)), True, 0.3, 1e-3),
    case("fractional_max_pool2d", f32(2, 3, 9, 11), [2, 3], [4, 5], DRAWN),
    case("fractional_max_pool2d", f32(3, 9, 11), [2, 3], [1, 5], DRAWN[:1]).named("no batch, one window"),
    case("fractional_max_pool3d", f32(2, 2, 9, 8, 7), [2, 3, 2], [4, 5, 3], DRAWN.reshape(2, 2, 3)),
]
