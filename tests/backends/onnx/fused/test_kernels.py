"""Kernels of onnxruntime's own operators compute what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from convert.backends.onnx.fused.decoder import DOMAIN
from onnx import TensorProto, helper

from convert.reference import kernel

rng = np.random.default_rng(0)
ROWS, HEADS, GROUPS, SIZE = 2, 4, 2, 8


def floats(*dims: int) -> np.ndarray:
    return rng.standard_normal(dims).astype(np.float32)


def attention(past: int, new: int, **attributes: Any) -> tuple[str, list[Any], dict[str, Any], int]:
    total = past + new
    inputs = [
        floats(ROWS, new, HEADS * SIZE), *(floats(ROWS, new, GROUPS * SIZE) for _ in range(2)),
        *(floats(ROWS, GROUPS, past, SIZE) for _ in range(2)), np.full(ROWS, total - 1, np.int32),
        np.array(total, np.int32), None, None, None, floats(ROWS, 1, new, total),
    ]  # fmt: skip
    numbers = {"num_heads": HEADS, "kv_num_heads": GROUPS, "scale": 0.3, "local_window_size": -1, "softcap": 0.0}
    return "GroupQueryAttention", inputs, {**numbers, **attributes}, 3


CASES = {
    "rotary embedding": (
        "RotaryEmbedding",
        [floats(ROWS, 3, HEADS * SIZE), rng.integers(0, 9, (ROWS, 3)), floats(9, SIZE // 2), floats(9, SIZE // 2)],
        {"num_heads": HEADS},
        1,
    ),
    "norm of a sum": (
        "SkipSimplifiedLayerNormalization",
        [floats(ROWS, 3, 16), floats(ROWS, 3, 16), floats(16)],
        {"epsilon": 1e-5},
        4,
    ),
    "attention, first call": attention(0, 4),
    "attention, a step": attention(5, 1),
    "attention, a window": attention(5, 1, local_window_size=3),
    "attention, a cap": attention(0, 4, softcap=2.0),
}


@pytest.mark.parametrize("name", CASES)
def test_they_are_onnxruntimes(name: str) -> None:
    operator, arrays, attributes, count = CASES[name]
    names = ["" if a is None else f"x{n}" for n, a in enumerate(arrays)]
    outputs = [f"y{n}" if n in (0, count - 1) or count == 3 else "" for n in range(count)]
    inputs = {n: a for n, a in zip(names, arrays, strict=True) if n}
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in
             inputs.items()]  # fmt: skip
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs if n]
    node = helper.make_node(operator, names, outputs, domain=DOMAIN, **attributes)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(helper.make_graph([node], "g", given, made), opset_imports=opsets, ir_version=9)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, inputs)
    found = kernel.apply(count, f"{DOMAIN}::{operator}", arrays, attributes)
    results = [found] if count == 1 else [a for a, n in zip(found, outputs, strict=True) if n]
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
