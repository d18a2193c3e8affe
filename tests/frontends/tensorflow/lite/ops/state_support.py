"""Consecutive calls of a TensorFlow Lite file, by the interpreter itself and by the graph that is read from it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.lite import file, runner

from convert.graph.metadata import state_output
from convert.graph.state import states_of
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run, same
from tests.support.cases import Case

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")
Interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is the oracle").Interpreter


def state_case(operator: str, module: Callable[[], Any], *calls: np.ndarray, states: int = 1) -> Case:
    """Return a row: what creates a module, the arguments of consecutive calls `module(x)`, and how many states
    remain.
    """
    return Case(operator, (module, *calls), {"states": states})


def module_bytes(module: Any, call: np.ndarray, *, quantize: Sequence[np.ndarray] = ()) -> bytes:
    """Return the file of `module.__call__`, with its variables in it; quantize: samples for 8-bit integers."""
    concrete = tf.function(module.__call__).get_concrete_function(tf.TensorSpec(call.shape, call.dtype, name="x"))
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=concrete)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.experimental_enable_resource_variables = True
        if len(quantize):
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter._experimental_variable_quantization = True
            converter.representative_dataset = lambda: ([sample] for sample in quantize)
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        return converter.convert()


def check_steps(data: bytes, calls: Sequence[np.ndarray], states: int, operator: str = "") -> Any:
    """Assert that the graph, fed with its initial state and then with its own outputs, does what the interpreter does.

    So does the runner with state values that no call has produced, which is what verification feeds.
    """
    found = {o.name for s in file.parse_lite_model(memoryview(data), "the file").subgraphs for o in s.operators}
    assert not operator or operator in found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tflite"
        path.write_bytes(data)
        source = Source("tflite", path)
        model = frontend.read(source, Options(), Report("convert"))
        found_states = states_of(model)
        assert len(found_states) == states
        held = {state.name: state.initial for state in found_states}
        assert all(v is not None for v in held.values())
        name = next(str(v.name) for v in model.graph.inputs if v.name not in held)
        interpreter = Interpreter(model_content=data, num_threads=1)
        interpreter.allocate_tensors()
        ends = interpreter.get_input_details()[0], interpreter.get_output_details()
        for call in calls:
            interpreter.set_tensor(ends[0]["index"], call)
            interpreter.invoke()
            expected = [interpreter.get_tensor(end["index"]) for end in ends[1]]
            got = run(model, {name: call, **held})
            for result, wanted in zip(got.values(), expected, strict=False):
                same(result, wanted)
            held = {state: got[state_output(state)] for state in held}
        chance = np.random.default_rng(5)
        held = {n: chance.integers(-5, 6, v.shape).astype(v.dtype) for n, v in held.items()}
        feed = {name: calls[0], **held}
        expected_all = runner.run(source, [feed], precision="float32", options=Options())[0]
        got = run(model, feed)
        assert list(expected_all) == list(got)
        for key, wanted in expected_all.items():
            same(got[key], wanted)
    return model
