"""The storage format of an ONNX file, derived from the operators that its outputs depend on and from most weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from convert.runtimes.onnx_stored import storage_of
from tests.support.onnx_support import array, info, model

RNG = np.random.default_rng(1)
W = RNG.normal(size=(16, 32)).astype(np.float32)
V = RNG.normal(size=(32, 8)).astype(np.float32)
MICROSOFT = "com.microsoft"
HALVES = (TensorProto.BFLOAT16, TensorProto.FLOAT16)


def narrow(name: str, content: np.ndarray, dtype: int) -> onnx.TensorProto:
    return helper.make_tensor(name, dtype, content.shape, content.ravel().tolist())


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


PLAIN = [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("MatMul", "r v", "y")]


def written(path: Path, nodes: Sequence[onnx.NodeProto], *weights: onnx.TensorProto) -> Path:
    proto = model(nodes, [info("x", ["batch", 16])], [info("y", ["batch", 8])], weights, domains=(MICROSOFT,))
    onnx.save(proto, path)
    return path


def cast(path: Path, *names: str, dtype: int) -> Path:
    """Return a model in which some of two weights are stored in fewer bits, and widened before use."""
    arrays = {"w": W, "v": V}
    weights = [narrow(f"{n}.n", a, dtype) if n in names else array(n, a) for n, a in arrays.items()]
    casts = [node("Cast", f"{n}.n", n, to=TensorProto.FLOAT) for n in names]
    return written(path, [*casts, *PLAIN], *weights)


@pytest.mark.parametrize(("dtype", "stored"), zip(HALVES, ("bfloat16", "float16"), strict=True))
def test_a_file_is_narrow_by_its_weights_and_not_by_one_constant(dtype: int, stored: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    unused, bias = narrow("unused", np.ones(1), dtype), narrow("b", np.ones(8), dtype)
    assert storage_of(written(path, PLAIN, array("w", W), array("v", V))) == ""
    assert storage_of(cast(path, "w", "v", dtype=dtype)) == stored
    assert storage_of(cast(path, "w", dtype=dtype)) == stored, "most of it"
    assert storage_of(written(path, PLAIN, array("w", W), array("v", V), unused)) == ""
    added = [*PLAIN[:-1], node("MatMul", "r v", "s"), node("Cast", "b", "c", to=1), node("Add", "s c", "y")]
    assert storage_of(written(path, added, array("w", W), array("v", V), bias)) == "", "8 of 776 numbers"
    dangling = [*PLAIN, node("Cast", "big", "nowhere", to=1)]
    big = narrow("big", np.ones(4000), dtype)
    assert storage_of(written(path, dangling, array("w", W), array("v", V), big)) == "", "no output depends on it"


def test_half_precision_computes_or_only_stores(tmp_path: Path) -> None:
    ends = [node("Cast", "x", "a", to=10), *PLAIN[1:-1], node("MatMul", "r v", "s"), node("Cast", "s", "y", to=1)]
    nodes = [ends[0], node("MatMul", "a w", "h"), *ends[1:]]
    weights = [narrow("w", W, TensorProto.FLOAT16), narrow("v", V, TensorProto.FLOAT16)]
    assert storage_of(written(tmp_path / "m.onnx", nodes, *weights)) == "float16 values"


def test_four_bits_are_a_matter_of_the_weights_of_products(tmp_path: Path) -> None:
    """One layer of 64 numbers next to two of 768 does not determine the format; the two next to the one do."""
    path = tmp_path / "m.onnx"
    packed = array("q", np.zeros((8, 1, 16)), np.uint8)
    blocks = {"K": 32, "N": 8, "bits": 4, "block_size": 32, "domain": MICROSOFT}
    scales = array("s", np.ones(8))
    half = [*PLAIN[:-1], node("MatMulNBits", "r q s", "y", **blocks)]
    assert storage_of(written(path, half, array("w", W), packed, scales)) == "int4 weights in blocks of 32"
    bytes_of_q = array("q", np.zeros((8, 1, 32)), np.uint8)
    eight = [*PLAIN[:-1], node("MatMulNBits", "r q s", "y", **{**blocks, "bits": 8, "accuracy_level": 4})]
    stored = "int8 weights and int8 activations in blocks of 32"
    assert storage_of(written(path, eight, array("w", W), bytes_of_q, scales)) == stored
    wide = array("w", RNG.normal(size=(16, 32)))
    few = [*PLAIN[:2], node("MatMul", "r v", "t"), node("Slice", "t zero one last", "u"),
           node("MatMulNBits", "u q s", "z", **{**blocks, "K": 1}), node("Add", "t z", "y")]  # fmt: skip
    ends = [array(n, [v], np.int64) for n, v in (("zero", 0), ("one", 1), ("last", -1))]
    assert storage_of(written(path, few, wide, array("v", V), packed, scales, *ends)) == ""


def test_eight_bits_are_too(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    dynamic = [node("DynamicQuantizeLinear", "x", "q s z"), node("MatMulInteger", "q w z", "i"),
               node("Cast", "i", "f", to=1), node("Mul", "f s", "g"), node("MatMul", "g v", "y")]  # fmt: skip
    bytes_of_w = array("w", np.zeros((16, 32)), np.uint8)
    assert storage_of(written(path, dynamic, bytes_of_w, array("v", V))) == "int8 weights, activations by tensor"
    alone = [node("DynamicQuantizeLinear", "x", "q s z"), *PLAIN]
    assert storage_of(written(path, alone, array("w", W), array("v", V))) == ""
    used = [node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z", "d"),
            node("MatMul", "d w", "h"), *PLAIN[1:]]  # fmt: skip
    assert storage_of(written(path, used, array("w", W), array("v", V))) == "", "no weight is in bytes"
    scale, zero = array("s", np.float32(0.1)), array("z", 0, np.int8)
    steps = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
             node("DequantizeLinear", "wq s z", "w"), node("MatMul", "d w", "h"), *PLAIN[1:]]  # fmt: skip
    stored = array("wq", np.zeros((16, 32)), np.int8)
    assert storage_of(written(path, steps, stored, array("v", V), scale, zero)) == "int8 steps"
    inputs = [*steps[:2], node("MatMul", "d w", "h"), *PLAIN[1:]]
    assert storage_of(written(path, inputs, array("w", W), array("v", V), scale, zero)) == ""


def test_what_a_branch_reads_is_read(tmp_path: Path) -> None:
    taken = helper.make_graph([node("Cast", "v.n", "t", to=1)], "t", [], [info("t", None)])
    other = helper.make_graph([node("Cast", "v.n", "e", to=1)], "e", [], [info("e", None)])
    nodes = [node("Cast", "w.n", "w", to=1), *PLAIN[:2], node("If", "flag", "v", then_branch=taken, else_branch=other),
             PLAIN[2]]  # fmt: skip
    weights = [narrow("w.n", W, TensorProto.BFLOAT16), narrow("v.n", V, TensorProto.BFLOAT16)]
    flag = array("flag", True, np.bool_)
    assert storage_of(written(tmp_path / "m.onnx", nodes, *weights, flag)) == "bfloat16"
    nodes[0] = node("Identity", "w.f", "w")
    weights[0] = array("w.f", W[:1])
    assert storage_of(written(tmp_path / "m.onnx", nodes, *weights, flag)) == "bfloat16"
