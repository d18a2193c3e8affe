"""The rules of `frontends/pytorch/ops/quantize.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch.ao.quantization.fx._decomposed

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, i32, params

# Halves at and next to the zero point, both ends, and numbers beyond them; a scale that is a power of two is exact.
TIES = np.array([-40.0, -16.0, -0.625, -0.375, -0.125, 0.0, 0.125, 0.375, 0.625, 15.75, 31.75, 40.0], np.float32)
CHANNELS = np.stack([TIES, TIES * 0.37, TIES[::-1] * 3])
SCALES = np.array([0.25, 0.5, 0.1], np.float32)
ZEROS = np.array([0, 3, -7])
BYTES = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
DECOMPOSED = "quantized_decomposed::"

ROWS = [
    *(
        case("fake_quantize_per_tensor_affine", TIES, 0.25, zero, *ends).named(f"{zero}-{ends[0]}-{ends[1]}")
        for zero, ends in ((3, (0, 255)), (-5, (-128, 127)), (1, (-127, 127)), (0, (0, 15)), (9, (-200, 300)))
    ),
    case("fake_quantize_per_tensor_affine.tensor_qparams", TIES, np.float32([0.25]), np.int32([3]), 0, 255),
    case("fake_quantize_per_channel_affine", CHANNELS, SCALES, ZEROS.astype(np.int32), 0, -128, 127),
    case(
        "fused_moving_avg_obs_fake_quant",
        TIES,
        np.array([0]),
        np.array([1]),
        np.float32(-1),
        np.float32(1),
        np.float32([0.25]),
        np.int32([3]),
        0.01,
        0,
        255,
        0,
    ).xfail("switches that are inputs of the graph"),
    case("fake_quantize_per_tensor_affine_cachemask", TIES, 0.25, 3, 0, 255).xfail("a mask for training"),
    case("fake_quantize_per_channel_affine_cachemask", CHANNELS, SCALES, ZEROS.astype(np.int32), 0, -128, 127).xfail(
        "a mask for training"
    ),
    case(f"{DECOMPOSED}fake_quant_per_channel", CHANNELS, SCALES, ZEROS.astype(np.int32), 0, -127, 127),
    *(
        case(f"{DECOMPOSED}quantize_per_tensor", TIES, 0.25, zero, low, high, dtype).named(f"{dtype}{low}")
        for zero, low, high, dtype in (
            (3, 0, 255, torch.uint8),
            (-5, -128, 127, torch.int8),
            (1, -127, 127, torch.int8),
            (7, 0, 15, torch.uint8),
            (0, -(2**31), 2**31 - 1, torch.int32),
            (5, -32768, 32767, torch.int16),
        )
    ),
    case(f"{DECOMPOSED}quantize_per_tensor.tensor", TIES, np.float64([0.25]), np.array([3]), 0, 255, torch.uint8),
    *(
        case(f"{DECOMPOSED}dequantize_per_tensor", BYTES, 0.1, zero, -128, 127, torch.int8).named(str(zero))
        for zero in (0, -5)
    ),
    case(f"{DECOMPOSED}dequantize_per_tensor", i32(9), 0.1, 0, -(2**31), 2**31 - 1, torch.int32).named("int32"),
    case(f"{DECOMPOSED}dequantize_per_tensor", i32(9), 0.1, 7, -(2**31), 2**31 - 1, torch.int32).named("int32 moved"),
    case(f"{DECOMPOSED}dequantize_per_tensor", BYTES, 0.1, 5, -128, 127, torch.int8, out_dtype=torch.float16),
    case(f"{DECOMPOSED}quantize_per_channel", CHANNELS, SCALES, ZEROS, 0, -127, 127, torch.int8),
    case(f"{DECOMPOSED}quantize_per_channel", CHANNELS.T, SCALES, ZEROS, 1, -128, 127, torch.int8).named("axis 1"),
    case(f"{DECOMPOSED}dequantize_per_channel", BYTES.reshape(-1, 2)[:3], SCALES, ZEROS, 0, -127, 127, torch.int8),
    case(f"{DECOMPOSED}dequantize_per_channel", BYTES.reshape(-1, 2)[:3], SCALES, None, 0, -127, 127, torch.int8),
    *(
        case(f"{DECOMPOSED}choose_qparams.tensor", x, low, high, 1e-7, dtype).named(f"{dtype}{i}")
        for i, x in enumerate((f32(4, 5), f32(4, 5) * 0, f32(4, 5) + 9, f32(4, 5) * 1e-7))
        for low, high, dtype in ((0, 255, torch.uint8), (-128, 127, torch.int8))
    ),
    *(
        case(f"{DECOMPOSED}choose_qparams_symmetric.tensor", f32(4, 5), low, high, 1e-7, dtype).named(str(dtype))
        for low, high, dtype in ((0, 255, torch.uint8), (-127, 127, torch.int8))
    ),
    case(f"{DECOMPOSED}choose_qparams_per_token", f32(3, 8), torch.int8),
    case(f"{DECOMPOSED}choose_qparams_per_token_asymmetric", f32(3, 8), torch.int8),
    case(f"{DECOMPOSED}_choose_qparams_per_token_asymmetric_impl", f32(2, 3, 8) - 3, torch.int8),
    case(
        f"{DECOMPOSED}quantize_per_token",
        f32(3, 8),
        f32(3, 1, low=0.01, high=0.1),
        np.array([[1], [0], [-9]]),
        -128,
        127,
        torch.int8,
    ),
    case(
        f"{DECOMPOSED}dequantize_per_token",
        BYTES[:12].reshape(3, 4),
        f32(3, 1, low=0.01, high=0.1),
        np.array([[1], [0], [-9]]),
        -128,
        127,
        torch.int8,
        torch.float32,
    ),
    case(
        f"{DECOMPOSED}quantize_per_channel_group",
        f32(2, 8),
        f32(2, 2, low=0.1, high=0.3),
        np.zeros((2, 2), np.int32),
        -8,
        7,
        torch.int8,
        4,
    ),
    case(
        f"{DECOMPOSED}dequantize_per_channel_group",
        BYTES[:16].reshape(2, 8),
        f32(2, 2),
        np.ones((2, 2), np.int32),
        -8,
        7,
        torch.int8,
        4,
        torch.float32,
    ),
    case(f"{DECOMPOSED}convert_element_type.no_fuse", TIES, torch.float16),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
