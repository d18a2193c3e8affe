"""Evaluates an ONNX file unchanged, in float64, at its own opset, with its functions called instead of inlined.

The shared graph of an ONNX source is compared with the result. So this module uses nothing of the frontend that built
that graph: no parser, inliner or opset adapter. Operators run in ONNX's reference implementation of the file's opset,
or in the kernels of this package if these have the same meaning at that opset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from convert.errors import ResourceLimit, Unsupported
from convert.graph import OPSET, location_of
from convert.graph.written_numbers import record_constants_of_operators
from convert.passes.to_float64 import widen_graphs
from convert.reference import control
from convert.reference.executor import Array, Executor, input_arrays
from convert.reference.fallback import fallback, run_function_body
from convert.reference.table import kernel
from convert.rules.onnx_schemas import operator_of, plain_value

# First opset at which an operator has the meaning of our kernel, from ONNX's Changelog.md. An operator that is not
# listed has it since its last change.
_SAME_SINCE = {
    "AveragePool": 7, "BatchNormalization": 7, "Conv": 1, "ConvTranspose": 1, "Dropout": 12, "Elu": 6, "Erf": 9,
    "Expand": 8, "GRU": 7, "GatherElements": 11, "Gemm": 7, "GlobalAveragePool": 1, "GlobalLpPool": 2,
    "GlobalMaxPool": 1, "HardSigmoid": 6, "HardSwish": 14, "Identity": 1, "InstanceNormalization": 6, "LRN": 1,
    "LSTM": 7, "LogSoftmax": 13, "LpNormalization": 1, "LpPool": 2, "MatMul": 1, "MaxPool": 1,
    "MeanVarianceNormalization": 9, "Mish": 18, "RNN": 7, "Range": 11, "ReduceLogSumExp": 18, "Resize": 13, "Selu": 6,
    "DeformConv": 19, "MaxRoiPool": 1, "NonMaxSuppression": 10, "QLinearMatMul": 10, "RoiAlign": 16,
    "OneHot": 11, "Pad": 11, "ScatterElements": 11, "ScatterND": 11, "Slice": 10,
    "Sigmoid": 6, "Softmax": 13, "Softplus": 1, "Celu": 12, "Einsum": 12,
}  # fmt: skip

# Operators for which ONNX's reference implementation has only the meaning of these opsets and later ones.
_ONLY_SINCE = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "PRelu"), 7),
    "RoiAlign": 16, "GroupNormalization": 21, "Scan": 9,
    "Upsample": 99, "Scatter": 99, "GridSample": 20, "Resize": 13,
}  # fmt: skip

_Functions = Mapping[tuple[str, str, str], ir.Function]


def open_model(source: Path | onnx.ModelProto | ir.Model) -> ir.Model:
    """Return the model of a file, a ModelProto or an onnx_ir model, widened to float64.

    The argument is not modified.
    """
    if isinstance(source, ir.Model):
        model = source.clone()
    else:
        model = ir.load(source) if isinstance(source, Path) else ir.serde.deserialize_model(source)
    for value in list(model.graph.inputs):
        if value.name in model.graph.initializers:
            model.graph.inputs.remove(value)
    for graph in (*model.graphs(), *(f.graph for f in model.functions.values())):
        for node in graph.all_nodes():
            node.domain = "" if node.domain == "ai.onnx" else node.domain
    _widen([*model.graphs()])
    return model


def _widen(graphs: Sequence[ir.Graph]) -> None:
    """Widen graphs to float64."""
    record_constants_of_operators(graphs)
    widen_graphs(graphs)


def run_as_it_is(model: ir.Model, feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the outputs of a model from `open_model` by name. Raises `Unsupported` for what cannot be evaluated."""
    executor = _FileExecutor(model.functions, model.graph.opset_imports)
    with np.errstate(all="ignore"):
        results = executor.graph(model.graph, input_arrays(model.graph, feeds))
    return {v.name or "": r for v, r in zip(model.graph.outputs, results, strict=True)}


class _FileExecutor(Executor):
    """An executor of graphs at any opset, with functions."""

    def __init__(self, functions: _Functions, imports: Mapping[str, int]) -> None:
        super().__init__(set(), False)
        self.functions = functions
        self.versions = {"" if domain == "ai.onnx" else domain: version for domain, version in imports.items()}

    def results(self, node: ir.Node, inputs: list[Array]) -> Sequence[Array]:
        version = self.versions.get(node.domain, 1)
        known = node.domain == "" and onnx.defs.has(node.op_type, version, "")
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None and not known:
            return self._call(function, node, inputs)
        if node.domain == "" and not known:
            raise Unsupported(f"opset {version} has no such operator")
        legacy = _LEGACY.get(node.op_type) if node.domain == "" and version < 13 else None
        if legacy is not None:
            return [legacy(inputs[0], node.attributes.get_int("axis", 1))]
        if node.domain == "" and version < _ONLY_SINCE.get(node.op_type, 0):
            raise Unsupported(f"ONNX's reference implementation does not know its meaning at opset {version}")
        if node.domain == "" and node.op_type in control.CONTROL:
            return control.CONTROL[node.op_type](self.graph, node, inputs)
        if operator_of(node) in kernel and version >= _kernel_since(node):
            attributes = {n: plain_value(a.value) for n, a in node.attributes.items()}
            result = kernel.apply(len(node.outputs), operator_of(node), inputs, attributes, location_of(node))
            return result if isinstance(result, tuple) else (result,)

        def run_body(body: ir.Graph, given: Sequence[Array]) -> list[Array]:
            widen_graphs((body, *body.subgraphs()))
            return _FileExecutor({}, self.versions).graph(body, given)

        if node.domain == "" and _is_new_function(node.op_type):
            return run_function_body(node, inputs, run_body, None, version)
        return fallback(node, inputs, run_body, version)

    def _call(self, function: ir.Function, node: ir.Node, inputs: list[Array]) -> list[Array]:
        """Run the function's body, with attributes from the call or else the function's defaults.

        Returns its outputs.
        """
        copy = function.clone()
        values = {n: a for n, a in function.attributes.items() if a.value is not None} | dict(node.attributes)
        for inner in copy.graph.all_nodes():
            for name, attribute in list(inner.attributes.items()):
                if not attribute.is_ref():
                    continue
                given = values.get(attribute.ref_attr_name or "")
                if given is None:
                    inner.attributes.pop(name)
                else:
                    inner.attributes[name] = ir.Attr(name, given.type, given.value)
        _widen((copy.graph, *copy.graph.subgraphs()))
        missing = [None] * (len(copy.graph.inputs) - len(inputs))
        return _FileExecutor(self.functions, function.opset_imports).graph(copy.graph, [*inputs, *missing])


def _kernel_since(node: ir.Node) -> int:
    if node.domain:
        return 0
    found = _SAME_SINCE.get(node.op_type)
    return onnx.defs.get_schema(node.op_type, "").since_version if found is None else found


@cache
def _is_new_function(operator: str) -> bool:
    """Return whether an operator newer than the canonical opset has a function body.

    ONNX's implementation of such an operator rounds to float32.
    """
    schema: Any = onnx.defs.get_schema(operator, "")
    defined = schema.has_function or schema.has_context_dependent_function
    return not onnx.defs.has(operator, OPSET, "") and defined


def _flattened(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray, int], np.ndarray]:
    """Return an operator before opset 13, which treats all dims from `axis` on as one."""

    def apply(x: np.ndarray, axis: int) -> np.ndarray:
        return function(x.reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape)

    return apply


def _log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


_LEGACY: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "Softmax": _flattened(lambda x: np.exp(_log_softmax(x))),
    "LogSoftmax": _flattened(_log_softmax),
    "Hardmax": _flattened(lambda x: np.eye(x.shape[1])[x.argmax(axis=1)]),
}


def evaluate_file(
    source: Path | onnx.ModelProto | ir.Model, feeds: Iterable[Mapping[str, np.ndarray]]
) -> list[dict[str, Any]]:
    """Return the outputs by name for each feed, up to the first that fails; raise `Unsupported` if that is the first.

    A failure of this evaluator says nothing about the file.
    """
    found: list[dict[str, Any]] = []
    try:
        model = open_model(source)
        for feed in feeds:
            found.append(run_as_it_is(model, feed))
    except (MemoryError, ResourceLimit):
        raise
    except Exception as error:  # ONNX's implementations raise exceptions of many classes
        if not found:
            text = " ".join(str(error).split())[:300]
            raise Unsupported(f"ONNX's reference implementation does not run the file in float64: {text}") from error
    return found
