"""Examples as arrays have the same meaning for every memory layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from convert import convert


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize(
    "lies", [lambda a: a[..., ::-1], lambda a: a[:, :1][:, ::-1], lambda a: a.astype(">f4"), lambda a: a.T.copy().T],
    ids=["colours the other way", "a dim of one the other way", "of another byte order", "by columns"],
)  # fmt: skip
def test_arrays_of_the_user_may_lie_in_memory_as_they_like(lies: Any, script: bool, tmp_path: Path) -> None:
    example = lies(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32))
    source: Any = torch.nn.Hardtanh()
    if script:
        torch.jit.script(source).save(tmp_path / "m.pt")
        source = tmp_path / "m.pt"
    convert(source, "onnx", tmp_path / "m.onnx", inputs=[example], verify=False)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    x = np.ascontiguousarray(example, np.float32)
    np.testing.assert_array_equal(session.run(None, {session.get_inputs()[0].name: x})[0], x.clip(-1, 1))
