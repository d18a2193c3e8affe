"""TensorFlow operators in TensorFlow Lite files are checked with the same list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from convert.frontends.tensorflow.lite import runner

from convert.errors import UnsafeInput, Unsupported
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.lite.ops.lite_files import Result, handmade, packed, schema

X = np.zeros(3, np.float32)


def write(path: Path, *custom: str) -> Source:
    """Write a file that contains custom operators besides the one that it runs."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(handmade("ABS", [X], [Result([3])])(), 0))
    for name in custom:
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.customCode = schema.BuiltinOperator.CUSTOM, 32, name
        model.operatorCodes.append(code)
    path.write_bytes(packed(model))
    return Source("tflite", path)


def test_operators_of_tensorflow_that_do_more_than_compute_are_refused(tmp_path: Path) -> None:
    names = ("FlexWriteFile", "FlexAbs", "FlexPrintV2", "FlexNobodyKnows", "FlexRestoreV2")
    with pytest.raises(UnsafeInput) as error:
        runner.run_as_used(write(tmp_path / "m.tflite", *names), [{"x0": X}], Options())
    told = [name for name in names if name in error.value.message]
    assert told == [name for name in names if name != "FlexAbs"]


@pytest.mark.parametrize("name", ["FlexAbs", "TFLite_Detection_PostProcess", "Mine"])
def test_what_the_interpreter_lacks_is_told_as_before(tmp_path: Path, name: str) -> None:
    source = write(tmp_path / "m.tflite", name)
    try:
        found = runner.run(source, [{"x0": X}], precision="float32", options=Options())
    except Unsupported:
        return
    np.testing.assert_array_equal(found[0]["y0"], X)
