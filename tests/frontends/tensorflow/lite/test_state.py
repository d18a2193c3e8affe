"""Variables of TensorFlow Lite files: quantized ones, unneeded or unfilled ones, and invalid handles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend

import convert
from convert.errors import BadInput, ConvertError, Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.lite.ops.lite_files import opened, packed, schema
from tests.frontends.tensorflow.lite.ops.state_support import check_steps, module_bytes
from tests.frontends.tensorflow.lite.ops.test_state import CALLS, Both, Ring
from tests.support.cases import f32
from tests.support.marks import slow_but

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


class Counter(tf.Module):  # type: ignore[misc]
    """Counts its calls; nothing reads the count."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(0, name="calls")

    def __call__(self, x: Any) -> Any:
        self.calls.assign_add(1)
        return x * 2.0


@pytest.mark.slow
def test_quantized_states() -> None:
    """A variable of bytes is one of the graph too, and starts at the byte that represents its initial value."""
    samples = [f32(1, 1, 3, low=-1 - k / 7) for k in range(20)]
    model = check_steps(module_bytes(Ring(), CALLS[0], quantize=samples), CALLS, 1, "READ_VARIABLE")
    assert {v.dtype.name for v in model.graph.inputs} == {"FLOAT", "INT8"}


@pytest.mark.slow
def test_a_state_that_nothing_needs_is_left_out() -> None:
    model = check_steps(module_bytes(Counter(), CALLS[0]), CALLS, 0, "ASSIGN_VARIABLE")
    assert [v.name for v in model.graph.inputs] == ["x"]


@pytest.mark.slow
@pytest.mark.parametrize("to", slow_but(["onnx", "tf", "tflite"], "onnx"))
def test_the_verdict(to: str, tmp_path: Path) -> None:
    """The interpreter gets the same values as the target, and every state is compared."""
    path = tmp_path / "m.tflite"
    path.write_bytes(module_bytes(Both(), CALLS[0]))
    report = convert.convert(path, to, tmp_path / f"out{'.' + to if to != 'tf' else ''}")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {"total_next", "calls_next"} <= {o.name for o in report.outputs}
    assert any("calls (input calls, output calls_next, starts as 7)" in note for note in report.notes)


@pytest.mark.slow
def test_what_it_starts_with_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(module_bytes(Ring(), CALLS[0]))
    model = frontend.read(Source("tflite", path), Options(), Report("convert"))
    (state,) = json.loads(model.metadata_props["convert.state"]).values()
    np.testing.assert_array_equal(np.float32(state["initial"]), f32(1, 4, 3, low=0.5))


def _without_initializer(model: Any) -> None:
    graph = model.subgraphs[0]
    codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in model.operatorCodes]
    graph.operators = [o for o in graph.operators if codes[o.opcodeIndex] != schema.BuiltinOperator.CALL_ONCE]


def _renamed(name: str) -> Callable[[Any], None]:
    """Put another operator in place of READ_VARIABLE, which has no options."""

    def change(model: Any) -> None:
        for code in model.operatorCodes:
            if max(code.builtinCode, code.deprecatedBuiltinCode) == schema.BuiltinOperator.READ_VARIABLE:
                code.builtinCode = getattr(schema.BuiltinOperator, name)
                code.deprecatedBuiltinCode = min(code.builtinCode, 127)

    return change


def _first_of_assign(model: Any) -> None:
    """Give ASSIGN_VARIABLE the input of the model as a handle."""
    graph = model.subgraphs[0]
    codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in model.operatorCodes]
    for operator in graph.operators:
        if codes[operator.opcodeIndex] == schema.BuiltinOperator.ASSIGN_VARIABLE:
            operator.inputs = [graph.inputs[0], operator.inputs[1]]


CHANGES: dict[str, tuple[Callable[[Any], None], type[ConvertError], str]] = {
    "nothing fills it": (_without_initializer, Unsupported, "'rows' is read before anything in the file gives it"),
    "a handle for a tensor": (_renamed("NEG"), BadInput, "NEG is given a handle instead of a tensor"),
    "a tensor for a handle": (_first_of_assign, BadInput, "assigns to a value that is not a variable"),
    "a variable for a table": (
        _renamed("HASHTABLE_SIZE"),
        BadInput,
        "HASHTABLE_SIZE gets a value that is not a handle",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_files_that_say_what_no_model_means(name: str, tmp_path: Path) -> None:
    change, kind, text = CHANGES[name]
    model = opened(module_bytes(Ring(), CALLS[0]))
    change(model)
    path = tmp_path / "m.tflite"
    path.write_bytes(packed(model))
    with pytest.raises(kind, match=text):
        frontend.read(Source("tflite", path), Options(), Report("convert"))
