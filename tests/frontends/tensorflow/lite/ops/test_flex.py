"""TensorFlow's own operators in TensorFlow Lite files (Flex), against TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import BadInput, UnsafeInput, Unsupported
from convert.request.source import Source
from tests.frontends.tensorflow.lite.ops.lite_files import Result, handmade, opened, packed
from tests.frontends.tensorflow.lite.ops.lite_support import encoded, tf
from tests.frontends.tensorflow.ops.tf_support import run, same
from tests.support.cases import f32
from tests.support.tensorflow_helper import read

X, SQUARE = f32(2, 5), f32(4, 4) + 4 * np.eye(4, dtype=np.float32)


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "Erf": (tf.math.erf, X),
    "Cumprod": (lambda x: tf.math.cumprod(x, 1, exclusive=True, reverse=True) * 2.0, X),
    "Tan": (tf.math.tan, X),
    "MaxPool3D": (lambda x: tf.nn.max_pool3d(x, (2, 3, 2), (1, 2, 2), "SAME"), f32(1, 4, 5, 4, 2)),
    "CropAndResize": (lambda x: tf.image.crop_and_resize(x, [[0.1, 0.0, 0.9, 0.7]], [0], [3, 5]), f32(1, 6, 5, 2)),
    "MatrixInverse": (lambda x: tf.linalg.inv(x) + x, SQUARE),
}


@pytest.mark.parametrize("operator", FUNCTIONS)
def test_operator(operator: str, tmp_path: Path) -> None:
    """No interpreter of this release has TensorFlow's kernels, so the function itself is the oracle."""
    function, *arrays = FUNCTIONS[operator]
    sets = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    content = encoded(function, arrays, target_spec=tf.lite.TargetSpec(supported_ops=sets))
    assert f"Flex{operator}".encode() in content
    model = read(source_of(content, tmp_path))
    (got,) = run(model, {f"x{i}": array for i, array in enumerate(arrays)}).values()
    same(got, function(*arrays).numpy())


def flex(operator: str, *, made: Any = None, raw: bytes | None = None) -> bytes:
    """Return a file of one operator of TensorFlow, with a NodeDef that may be one of another operator."""
    from flatbuffers import flexbuffers

    model = opened(handmade("CUSTOM", [X], [Result(X.shape)])())
    made = tf.compat.v1.NodeDef(name="made", op=operator) if made is None else made
    builder = flexbuffers.Builder()
    with builder.Vector():
        builder.String(operator)
        builder.String(made.SerializeToString().decode("ascii"))
    model.operatorCodes[0].customCode = f"Flex{operator}"
    content = bytes(builder.Finish()) if raw is None else raw
    model.subgraphs[0].operators[0].customOptions = np.frombuffer(content, np.uint8)
    return packed(model)


def source_of(content: bytes, folder: Path) -> Source:
    (folder / "m.tflite").write_bytes(content)
    return Source("tflite", folder / "m.tflite")


def test_an_operator_without_a_rule_is_listed_by_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="Bincount2"):
        read(source_of(flex("Bincount2"), tmp_path))


@pytest.mark.parametrize("operator", ["WriteFile", "ReadFile", "PyFunc"])
def test_operators_that_do_more_than_compute_are_refused(operator: str, tmp_path: Path) -> None:
    source = source_of(flex(operator), tmp_path)
    with pytest.raises(UnsafeInput, match=operator):
        read(source)


def test_functions_which_a_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    node = tf.compat.v1.NodeDef(name="made", op="Abs")
    node.attr["f"].func.name = "body"
    with pytest.raises(Unsupported, match="the function 'body'"):
        read(source_of(flex("Abs", made=node), tmp_path))


@pytest.mark.parametrize(
    "options", [{"made": tf.compat.v1.NodeDef(op="WriteFile")}, {"raw": b""}, {"raw": b"\xff" * 30}]
)
def test_a_node_of_another_operator_and_no_node_are_damage(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="damaged"):
        read(source_of(flex("Abs", **options), tmp_path))
