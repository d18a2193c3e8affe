"""The rules of `frontends/pytorch/ops/torchao_affine.py` against PyTorch, and block by block in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.frontends.pytorch.common.values import onnx_dtype
from convert.frontends.pytorch.dispatch import call
from convert.frontends.pytorch.files import custom_operators

from convert.errors import Location, Unsupported
from convert.graph import Graph
from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, params

BYTES = np.arange(-128, 128, dtype=np.int16).astype(np.int8)

ROWS = [
    # Half of the range, because PyTorch's own product of bytes saturates in pairs on processors without VNNI.
    case("_int_mm", (BYTES[:160] // 2).reshape(20, 8), (BYTES[-64:] // 2).reshape(8, 8)),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
BLOCKS = {"token": [1, 8], "group": [1, 4], "tensor": [4, 8]}


def applied(name: str, *args: Any, **more: Any) -> list[np.ndarray]:
    """Return the results of the rule for an operator, run by onnxruntime; the number of rows is unknown if blocks allow
    it.
    """
    g, feeds, values = Graph(), {}, []
    for arg in args:
        if isinstance(arg, np.ndarray):
            key = f"x{len(feeds)}"
            feeds[key] = arg
            free = not feeds.keys() - {key} and args[1 if name != "choose_qparams_affine" else 2][0] == 1
            shape = ["rows", *arg.shape[1:]] if free else arg.shape
            values.append(g.input(key, onnx_dtype(torch.from_numpy(arg).dtype), shape))
        else:
            values.append(arg)
    schema = torch._C.parse_schema(f"torchao::{custom_operators._SCHEMAS[f'torchao::{name}']}")
    result = call(g, schema, values, more, Location(name))
    for i, value in enumerate(result if isinstance(result, tuple) else [result]):
        g.output(value, f"y{i}")
    return onnxruntime.InferenceSession(ir.to_proto(g.model()).SerializeToString()).run(None, feeds)


def blocks(x: np.ndarray, block: list[int]) -> torch.Tensor:
    """Return one block for each row."""
    return torch.from_numpy(x).reshape(-1, block[0] * block[1])


def chosen(x: np.ndarray, mapping: str, block: list[int], low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = blocks(x, block)
    least, most = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
    if mapping == "ASYMMETRIC":
        scale = ((most - least) / float(high - low)).clamp(min=1e-9)
        return scale, (low - torch.round(least / scale)).clamp(low, high)
    if mapping == "SYMMETRIC":
        scale = torch.max(-least, most) / (float(high - low) / 2)
    else:
        scale = torch.max(least / float(low), most / float(high))
    return scale.clamp(min=1e-9), torch.full_like(scale, int((high + low + 1) / 2))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("mapping", ["SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"])
def test_there_and_back(mapping: str, kind: str, keep: bool) -> None:
    block, (low, high) = BLOCKS[kind], (-8, 7) if kind == "group" else (-128, 127)
    more = {"quant_min": low, "quant_max": high, "eps": 1e-9, "zero_point_dtype": torch.int8, "keepdim": keep}
    scale, zero = applied("choose_qparams_affine", X, mapping, block, torch.int8, **more)
    want_scale, want_zero = chosen(X, mapping, block, low, high)
    counts = {"token": [4, 1], "group": [4, 2], "tensor": [1, 1]}[kind]
    if not keep:
        counts = {"token": [4], "group": [4, 2], "tensor": []}[kind]
    assert scale.shape == zero.shape == tuple(counts)
    np.testing.assert_array_equal(scale.ravel(), want_scale.numpy())
    np.testing.assert_array_equal(zero.ravel(), want_zero.numpy())
    (steps,) = applied("quantize_affine", X, block, scale, zero, torch.int8, low, high)
    rows = torch.round(blocks(X, block) * (1 / want_scale[:, None])) + want_zero[:, None]
    want = rows.clamp(low, high).to(torch.int8)
    assert steps.dtype == np.int8
    np.testing.assert_array_equal(steps, want.reshape(X.shape).numpy())
    (back,) = applied("dequantize_affine", steps, block, scale, zero, torch.int8)
    numbers = (want.float() - want_zero[:, None]) * want_scale[:, None]
    np.testing.assert_allclose(back, numbers.reshape(X.shape).numpy(), rtol=1e-6)


def test_other_blocks_are_refused() -> None:
    with pytest.raises(Unsupported, match="parts of rows"):
        applied("quantize_affine", X, [2, 4], X[:2, :2], X[:2, :2], torch.int8)
    with pytest.raises(Unsupported, match="bfloat16"):
        applied("dequantize_affine", X.astype(np.int8), [1, 8], X[:, 0], None, torch.int8, None, None, torch.bfloat16)
