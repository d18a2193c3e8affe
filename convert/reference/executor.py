"""Evaluates a shared graph on numpy arrays, in the graph's own dtypes: the executor of the float64 run.

Where ONNX's reference implementation is slow, rounds to float32 or is wrong, operators have kernels of ours
(`kernels/`). Other operators run in that implementation, one node at a time; an operator that it lacks runs as the
function that ONNX defines. A value is freed after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from convert.activity import check_time
from convert.errors import ConvertError, Unsupported, UsageError
from convert.graph import OPSET, location_of
from convert.graph.shape_inference import subgraphs
from convert.graph.tensors import dims_of, numpy_dtype
from convert.reference import control, kernels  # noqa: F401  (importing the kernels fills the table)
from convert.reference.fallback import fallback
from convert.reference.table import kernel
from convert.request.nearest import names_hint
from convert.rules.onnx_schemas import operator_of, plain_value

Array = Any
"""A numpy array; a list for a sequence, None for an absent optional."""

# Initializers of at most this many bytes are converted once and cached.
_KEEP = 1 << 16


def run(
    model: ir.Model,
    feeds: Mapping[str, np.ndarray],
    *,
    outputs: Iterable[str] | None = None,
    every: bool = False,
    keep: Callable[[Array], Any] = lambda array: array,
) -> dict[str, Any]:
    """Return the outputs of `model` by name, in its order, for one dict of inputs.

    `model` must be at the canonical opset.

    - `outputs`: names of values of the outermost graph to return instead
    - `every`: return every value of the outermost graph that is not a weight
    - `keep`: maps the array of a value that is no output to what is returned, such as a summary, because the arrays
      might fill the memory

    Floating inputs are cast to the dtype that the graph declares, so that float32 samples feed a widened graph. Raises
    `UsageError` for missing or unknown inputs, `Unsupported` for operators that cannot be evaluated, and
    `ResourceLimit` when the time of `convert.activity.limited_time` is over.
    """
    version = model.graph.opset_imports.get("", OPSET)
    if version != OPSET:
        raise Unsupported(f"the reference executor runs opset {OPSET}, and this model is opset {version}")
    executor = Executor(set(outputs or ()), every, keep)
    given = input_arrays(model.graph, feeds)
    with np.errstate(all="ignore"):
        results = executor.graph(model.graph, given)
    names = [v.name or "" for v in model.graph.outputs]
    if every:
        return {**executor.kept, **dict(zip(names, results, strict=True))}
    if outputs is not None:
        found = {**executor.kept, **dict(zip(names, results, strict=True))}
        missing = [n for n in outputs if n not in found]
        if missing:
            raise UsageError(f"the graph has no value {missing[0]!r}")
        return {n: found[n] for n in outputs}
    return dict(zip(names, results, strict=True))


def evaluate_node(node: ir.Node, opset: int = OPSET, executor: Executor | None = None) -> list[Array]:
    """Return the outputs of one node with constant inputs and no subgraphs.

    `opset` is that of the default domain. Our kernels implement the canonical opset; an operator that changed since
    `opset` runs in ONNX's implementation. `executor` must not have run anything yet. Raises whatever a kernel raises.
    """
    executor = executor or Executor(set(), False)
    inputs = [executor.get(v) for v in node.inputs]
    with np.errstate(all="ignore"):
        if _since(node, opset) == _since(node, OPSET):
            results = executor.results(node, inputs)
        else:
            results = fallback(node, inputs, lambda body, given: executor.for_function().graph(body, given), opset)
    return [_cast_result(array, value) for value, array in zip(node.outputs, results, strict=False)]


def _since(node: ir.Node, opset: int) -> int:
    """Return the opset that introduced the form of an operator in `opset`; 0 if it has none."""
    if not onnx.defs.has(node.op_type, opset, node.domain):
        return 0
    return int(onnx.defs.get_schema(node.op_type, opset, node.domain).since_version)


class Executor:
    """The values known during one run, of the graph and of its subgraphs."""

    def __init__(self, wanted: set[str], every: bool, keep: Callable[[Array], Any] = lambda array: array) -> None:
        self.values: dict[ir.Value, Array] = {}
        self.kept: dict[str, Array] = {}
        self.wanted, self.every, self.keep = wanted, every, keep
        self.depth = 0
        self._plans: dict[int, list[tuple[ir.Node, list[ir.Value]]]] = {}

    def graph(self, graph: ir.Graph, inputs: Sequence[Array]) -> list[Array]:
        """Run a graph or subgraph on its inputs; the values of the outer graphs are known already."""
        self.depth += 1
        for value, array in zip(graph.inputs, inputs, strict=True):
            self._store(value, array)
        for node, dead in self._plan(graph):
            check_time()
            self._run(node)
            for value in dead:
                self.values.pop(value, None)
        self.depth -= 1
        return [self.get(v) for v in graph.outputs]

    def for_function(self) -> Executor:
        """Return an executor for the body of a function, which has no access to outer values."""
        return Executor(set(), False)

    def run_model(self, model: ir.Model, feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return the outputs of a model by name."""
        with np.errstate(all="ignore"):
            results = self.graph(model.graph, input_arrays(model.graph, feeds))
        return {v.name or "": x for v, x in zip(model.graph.outputs, results, strict=True)}

    def get(self, value: ir.Value | None) -> Array:
        """Return the array of a value, from its initializer if it has one; None for an absent optional input."""
        if value is None:
            return None
        if value in self.values:
            return self.values[value]
        if value.const_value is None:
            raise ConvertError(f"the value {value.name!r} is used before it is computed")
        array = string_array(value.const_value) if value.dtype == ir.DataType.STRING else value.const_value.numpy()
        if array.nbytes <= _KEEP:
            self.values[value] = array
        return array

    def _run(self, node: ir.Node) -> None:
        inputs = [self.get(v) for v in node.inputs]
        try:
            results = self.results(node, inputs)
        except Unsupported as error:
            raise error.with_location(location_of(node)) from error
        except (ConvertError, MemoryError):
            raise
        except NotImplementedError as error:
            raise Unsupported(f"ONNX's reference lacks it: {error}").with_location(location_of(node)) from error
        except Exception as error:
            shapes = ", ".join(str(getattr(x, "shape", "?")) for x in inputs)
            text = f"{location_of(node)}: could not be evaluated on inputs of shape {shapes}"
            raise ConvertError(f"{text} ({type(error).__name__}: {error})") from error
        for value, array in zip(node.outputs, results, strict=False):
            if value.name or value.uses():
                self._store(value, _cast_result(array, value))

    def results(self, node: ir.Node, inputs: list[Array]) -> Sequence[Array]:
        """Return the outputs of one node for arrays in place of its inputs."""
        if node.domain == "" and node.op_type in control.CONTROL:
            return control.CONTROL[node.op_type](self.graph, node, inputs)
        operator = operator_of(node)
        if operator in kernel:
            attributes = {n: plain_value(a.value) for n, a in node.attributes.items() if not a.is_ref()}
            result = kernel.apply(len(node.outputs), operator, inputs, attributes, location_of(node))
            return result if isinstance(result, tuple) else (result,)
        return fallback(node, inputs, lambda body, given: self.for_function().graph(body, given))

    def _store(self, value: ir.Value, array: Array) -> None:
        self.values[value] = array
        if self.depth == 1 and (self.every or value.name in self.wanted):
            self.kept[value.name or ""] = self.keep(array)

    def _plan(self, graph: ir.Graph) -> list[tuple[ir.Node, list[ir.Value]]]:
        """Return the nodes that the outputs need, in order, each with the values that no later node needs."""
        key = id(graph)
        if key not in self._plans:
            nodes = list(graph)
            own = {*graph.inputs, *(v for n in nodes for v in n.outputs)}
            last: dict[ir.Value, int] = {}
            for index, node in enumerate(nodes):
                for value in (*node.outputs, *read_values(node)):
                    if value in own:
                        last[value] = index
            for value in graph.outputs:
                last.pop(value, None)
            dead: list[list[ir.Value]] = [[] for _ in nodes]
            for value, index in last.items():
                dead[index].append(value)
            self._plans[key] = list(zip(nodes, dead, strict=True))
        return self._plans[key]


def read_values(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node reads, including outer values that its subgraphs read."""
    read = [v for v in node.inputs if v is not None]
    for attribute in node.attributes.values():
        for graph in subgraphs(attribute):
            read.extend(graph.outputs)
            for inner in graph:
                read.extend(read_values(inner))
    return read


def input_arrays(graph: ir.Graph, feeds: Mapping[str, np.ndarray]) -> list[Array]:
    """Return the feeds in the order of the inputs, floating ones in declared dtypes.

    Raises `UsageError` for other names.
    """
    names = [v.name or "" for v in graph.inputs]
    unknown, missing = [n for n in feeds if n not in names], [n for n in names if n not in feeds]
    if unknown or missing:
        which = f"no input {unknown[0]!r}" if unknown else f"no value for its input {missing[0]!r}"
        raise UsageError(f"the model has {which}", hint=names_hint(unknown[0] if unknown else "", names))
    return [_cast_to_declared(_array(feeds[n]), v) for n, v in zip(names, graph.inputs, strict=True)]


def _array(feed: Any) -> Array:
    return feed if isinstance(feed, list) or feed is None else np.asarray(feed)


_FLOATING = (np.dtype(ml_dtypes.bfloat16),)


def _cast_to_declared(array: Array, value: ir.Value) -> Array:
    """Return floating content in the floating dtype that the graph declares, and everything else unchanged."""
    array = np.asarray(array) if isinstance(array, np.generic) else array
    if not isinstance(array, np.ndarray) or not isinstance(value.type, ir.TensorType):
        return array
    dtype = value.type.dtype
    if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        wanted = numpy_dtype(dtype)
        if array.dtype != wanted and (array.dtype.kind == "f" or array.dtype in _FLOATING):
            return array.astype(wanted)
    return array


def _cast_result(array: Array, value: ir.Value) -> Array:
    """Cast floats as `_cast_to_declared` does, and integers to the dtypes that the graph declares.

    numpy adds narrow integers in a wider dtype.
    """
    array = _cast_to_declared(array, value)
    if not isinstance(array, np.ndarray) or not isinstance(value.type, ir.TensorType) or array.dtype.kind not in "iu":
        return array
    wanted = numpy_dtype(value.type.dtype)
    return array.astype(wanted) if wanted.kind in "iu" and wanted != array.dtype else array


def string_array(tensor: ir.TensorProtocol) -> np.ndarray:
    """Return a string tensor as an array of Python strings."""
    flat = [s.decode() if isinstance(s, bytes) else s for s in tensor.numpy().ravel().tolist()]
    return np.array(flat, dtype=object).reshape(dims_of(tensor))
