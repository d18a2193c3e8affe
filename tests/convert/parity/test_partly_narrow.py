"""A file with some narrow weights: the differences that its bound explains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convert
from convert.outcome.verdict import FAIL, PASS
from tests.convert.runtimes.test_onnx_stored import HALVES, PLAIN, V, W, cast, narrow, written
from tests.support.marks import slow
from tests.support.onnx_support import array


@pytest.mark.parametrize("dtype", slow(HALVES, HALVES[1]))
def test_a_narrow_constant_excuses_no_wrong_layer(dtype: int, tmp_path: Path) -> None:
    plain = written(tmp_path / "a.onnx", PLAIN, array("w", W), array("v", V))
    unused = narrow("unused", np.ones(1), dtype)
    right = written(tmp_path / "b.onnx", PLAIN, array("w", W), array("v", V), unused)
    assert convert.verify(plain, right).verdict.status == PASS
    wrong = written(tmp_path / "c.onnx", PLAIN, array("w", W), array("v", V * np.float32(1.003)), unused)
    assert convert.verify(plain, wrong).verdict.status == FAIL
    assert convert.verify(plain, cast(tmp_path / "d.onnx", "w", "v", dtype=dtype)).verdict.status == PASS
