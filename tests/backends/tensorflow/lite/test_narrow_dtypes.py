"""Dtypes that TensorFlow Lite has no kernels for are refused by node."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph.builder import Graph
from tests.support.tensorflow_lite_helper import encode

pytest.importorskip("tensorflow")


@pytest.mark.parametrize("dtype", ["FLOAT8E4M3FN", "FLOAT8E5M2FNUZ", "FLOAT4E2M1", "INT4", "UINT4"])
def test_a_cast_to_fewer_bits_is_refused(dtype: str, tmp_path: Path) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, (4,))
    g.output(g.Neg(g.Cast(g.Cast(x, to=ir.DataType[dtype]), to=ir.DataType.FLOAT)), "y")
    with pytest.raises(Unsupported, match=f"Cast: .*no built-in CAST for {dtype.lower()}"):
        encode(g.model(), tmp_path)
