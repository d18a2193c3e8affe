"""Each rule of the TensorFlow backend against onnxruntime, with oneDNN on and off, shapes known and unknown.

Every case becomes a model of one node whose inputs come at run time (those marked `const` are initializers), is
emitted as the backend emits models, and runs in a child process: a kernel that fails may take its process along.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.backends.tensorflow.ops.cases import CASES, Const
from tests.suites.onnx_node_cases import cases
from tests.suites.test_onnx_nodes import SAMPLE
from tests.support.cases import Case, case, f32, params

OPSET = 23
# Kernels sum in different orders.
RTOL, ATOL = 2e-5, 2e-6


RANDOM = [
    case("RandomNormal", shape=[40, 50], mean=2.0, scale=0.5),
    case("RandomNormalLike", f32(40, 50), mean=-1.0, scale=2.0, dtype=onnx.TensorProto.DOUBLE),
    case("RandomUniform", shape=[40, 50], low=1.0, high=3.0, seed=7.0),
    case("RandomUniformLike", f32(40, 50), low=-1.0, high=1.0),
    case("Bernoulli", np.full((40, 50), 0.25, np.float32)),
    case("Multinomial", np.log(np.full((40, 2), [0.25, 0.75], np.float32)), sample_size=50),
]
# dtype, lowest, highest, mean, standard deviation
DISTRIBUTIONS = {
    "RandomNormal": (np.float32, -np.inf, np.inf, 2, 0.5),
    "RandomNormalLike": (np.float64, -np.inf, np.inf, -1, 2),
    "RandomUniform": (np.float32, 1, 3, 2, 2 / 12**0.5),
    "RandomUniformLike": (np.float32, -1, 1, 0, 2 / 12**0.5),
    "Bernoulli": (np.float32, 0, 1, 0.25, 0.1875**0.5),
    "Multinomial": (np.int32, 0, 1, 0.75, 0.1875**0.5),
}

STATIC, DYNAMIC, CONSTANT = range(3)
"""How the inputs of a case come: at run time with known dims, with unknown ones, or as initializers."""


def model_of(row: Case, variant: int = STATIC, *, opset: int = OPSET) -> onnx.ModelProto:
    """One node."""
    attributes = dict(row.attributes)
    outputs = [f"y{i}" for i in range(attributes.pop("_outputs", 1))]
    names, inputs, initializers = [], [], []
    for i, content in enumerate(row.inputs):
        names.append("" if content is None else f"x{i}")
        if content is None:
            continue
        if isinstance(content, Const) or variant == CONSTANT:
            array = content.array if isinstance(content, Const) else content
            initializers.append(onnx.numpy_helper.from_array(array, names[-1]))
        else:
            shape = [f"d{i}_{axis}" for axis in range(content.ndim)] if variant == DYNAMIC else content.shape
            kind = helper.np_dtype_to_tensor_dtype(content.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], kind, shape))
    node = helper.make_node(row.operator, names, outputs, name="the_node", **attributes)
    graph = helper.make_graph([node], "case", inputs, [onnx.ValueInfoProto(name=y) for y in outputs], initializers)
    if not onnx.defs.has(row.operator, opset, ""):
        opset = onnx.defs.get_schema(row.operator).since_version
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return _with_types(model)


def _with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value in inferred.graph.output:
        if not value.type.tensor_type.elem_type:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return inferred


def feeds_of(row: Case) -> dict[str, np.ndarray]:
    return {f"x{i}": x for i, x in enumerate(row.inputs) if x is not None and not isinstance(x, Const)}


def expected(row: Case) -> list[np.ndarray]:
    """What onnxruntime computes; where it has no kernel, at an older opset; else onnx's reference evaluator."""
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    if row.operator == "Gelu" and row.inputs[0].dtype == np.float64:
        return _gelu(row.inputs[0], row.attributes.get("approximate", "none"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for opset in (OPSET, 20):
        model = model_of(row, opset=opset).SerializeToString()
        try:
            return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, feeds_of(row))
        except Exception as error:
            refused = error
    try:
        return ReferenceEvaluator(model_of(row)).run(None, feeds_of(row))
    except Exception as error:
        raise AssertionError(f"no oracle runs this: {refused}") from error


def _gelu(x: np.ndarray, approximate: str) -> list[np.ndarray]:
    """PyTorch's: onnxruntime has no kernel for float64, and ONNX's evaluator is off by the rounding of float32."""
    import torch

    return [torch.nn.functional.gelu(torch.from_numpy(x), approximate=approximate).numpy()]


def computed(row: Case, variant: int) -> list[np.ndarray]:
    """What TensorFlow computes; runs in the child process.

    Constants are emitted without the passes before, which would fold them and leave nothing to do.
    """
    import onnx_ir as ir
    import tensorflow as tf
    from convert.backends.tensorflow.constants import Store
    from convert.backends.tensorflow.emit import check
    from convert.backends.tensorflow.passes.legalize import legalize
    from convert.backends.tensorflow.writer.savedmodel import plain_names, trace_model

    model = ir.from_proto(model_of(row, variant))
    if variant != CONSTANT:
        legalize(model)
    check(model)
    function, names = trace_model(model, Store(variables=True))
    feeds = feeds_of(row)
    outputs = function(*(tf.constant(feeds[v.name]) for v in model.graph.inputs))
    return [outputs[plain].numpy() for plain, _ in plain_names("output", names)]


@dataclass
class Worker:
    """A child process that computes cases one at a time; a new one is started after a crash."""

    onednn: str
    process: subprocess.Popen[bytes] | None = None

    def run(self, index: int, variant: int) -> list[np.ndarray]:
        if self.process is None or self.process.poll() is not None:
            environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": self.onednn, "TF_CPP_MIN_LOG_LEVEL": "3"}
            root = str(Path(__file__).resolve().parents[4])
            environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
            self.process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(struct.pack("<ii", index, variant))
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], 120)[0]:
            self.process.kill()
            pytest.fail("the child process did not answer for two minutes")
        head = self.process.stdout.read(8)
        if len(head) < 8:
            pytest.fail(f"TensorFlow took its process along (exit code {self.process.wait()})")
        ok, result = pickle.loads(self.process.stdout.read(struct.unpack("<q", head)[0]))
        if not ok:
            pytest.fail(result)
        return result


def serve() -> None:
    """The child process: a case's number comes in, its outputs or a traceback go out."""
    import traceback

    # TensorFlow writes to descriptor 1 as well.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while len(request := sys.stdin.buffer.read(8)) == 8:
        index, variant = struct.unpack("<ii", request)
        try:
            answer: tuple[bool, Any] = (True, computed([*CASES, *RANDOM][index], variant))
        except Exception as error:
            answer = (False, f"variant {variant}: " + "".join(traceback.format_exception_only(error)))
        data = pickle.dumps(answer)
        answers.write(struct.pack("<q", len(data)) + data)
        answers.flush()


@pytest.fixture(scope="module")
def workers():
    found = {"0": Worker("0"), "1": Worker("1")}
    yield found
    for worker in found.values():
        if worker.process is not None:
            worker.process.kill()
            worker.process.wait()


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Dtypes, shapes and integers exactly, floating numbers to a few roundings of the largest element."""
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if b.dtype.kind in "OUS":
            assert a.shape == b.shape
            assert [x.decode() if isinstance(x, bytes) else x for x in a.ravel()] == list(b.ravel())
            continue
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if b.dtype.kind == "f":
            wide = {2: 1e-3, 4: RTOL, 8: 1e-12}[b.dtype.itemsize]
            finite = np.abs(b[np.isfinite(b)])
            atol = (ATOL if b.dtype.itemsize == 4 else wide / 10) * (finite.max() if finite.size else 0)
            np.testing.assert_allclose(a, b, rtol=wide, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("onednn", "variants"),
    [
        pytest.param("1", (STATIC, DYNAMIC, CONSTANT), id="onednn"),
        pytest.param("0", (STATIC,), id="no_onednn"),
        pytest.param("0", (DYNAMIC, CONSTANT), id="no_onednn_other", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("row", params(CASES))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers) -> None:
    pytest.importorskip("tensorflow")
    want = expected(row)
    index = next(i for i, other in enumerate(CASES) if other is row)
    for variant in variants:
        assert_same(workers[onednn].run(index, variant), want)


def test_every_rule_has_a_case() -> None:
    pytest.importorskip("tensorflow")
    from convert.backends.tensorflow import ops  # noqa: F401
    from convert.backends.tensorflow.rules import onnx_op as table

    rules = {operator for operator in table.entries if not operator.startswith("convert.")}
    rows = {row.operator for row in (*CASES, *RANDOM)}
    official = {operator_of(node) for case in cases() if case.name in SAMPLE for node in nodes_of(case.model.graph)}
    assert rules - rows - official == set()


def operator_of(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


@pytest.mark.parametrize("row", params(RANDOM))
def test_random_numbers_are_of_their_distribution(row: Case, workers) -> None:
    pytest.importorskip("tensorflow")
    (got,) = workers["1"].run(len(CASES) + next(i for i, other in enumerate(RANDOM) if other is row), STATIC)
    dtype, low, high, mean, deviation = DISTRIBUTIONS[row.operator]
    assert got.dtype == dtype
    assert got.shape == (40, 50)
    assert low <= got.min() <= got.max() <= high
    # Five standard errors of 2,000 numbers.
    assert abs(got.mean() - mean) < 5 * deviation / 2000**0.5
    assert abs(got.std() - deviation) < 0.15 * deviation


if __name__ == "__main__":
    serve()
