"""The interface for rules: it applies layers, creates parameters, names operations, and knows the dims of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import onnx_ir as ir
from keras import KerasTensor, layers, ops

from convert.errors import Location, Problem, Unsupported
from convert.graph.metadata import MODULE_KEY
from convert.rules.emitter import GraphEmitter, Known

from .constants import Constant, constant_of, keras_dtype
from .names import UniqueNames
from .rules import key_of, onnx_op
from .tensors import dims_of_value, ones_along, permute_axes, places_below, with_rank

Value: TypeAlias = "KerasTensor | Constant | None"

# Floating-point constants with more elements are trainable weights of a layer; smaller ones are in the configuration.
_SMALL = 8


# Operators that take constants only, or return a constant.
_OF_CONSTANTS = ("Cast", "ConstantOfShape", "DequantizeLinear", "Identity", "Range", "Reshape", "Squeeze", "Transpose")

_OF_A_TENSOR = frozenset((
    "BatchNormalization", "Conv", "GRU", "GroupNormalization", "InstanceNormalization", "LSTM", "LayerNormalization",
    "Mod", "PRelu", "Pad", "RMSNormalization", "RNN",
))  # fmt: skip
"""Operators that become layers or operations on the first input; it may be constant while other inputs are not."""

IN_32_BITS = frozenset((
    "Add", "BitShift", "Clip", "Div", "Einsum", "Equal", "Gemm", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    "MatMul", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "ReduceProd", "Sign", "Sub", "Sum", "Where",
))  # fmt: skip
"""Operators for which Keras promotes operands (uint64 becomes uint32), or for which TensorFlow has no 64-bit kernel."""


class Emitter(GraphEmitter):
    """The argument `k` of rules: they call Keras's own operations, and use `k` for layers and for known facts."""

    def __init__(self, names: UniqueNames) -> None:
        super().__init__()
        self.names = names
        self.weights: list[tuple[layers.Layer, str, Constant]] = []
        self._first: KerasTensor | None = None
        self._index: KerasTensor | None = None
        self._dims: dict[str, tuple[KerasTensor, int]] = {}
        self._parameters: dict[int, tuple[Constant, KerasTensor]] = {}
        self._made: dict[Any, layers.Layer] = {}
        self._signature: Any = None
        self._count = 0

    # -- what is known ------------------------------------------------------------------------------------------------

    def static(self, x: Value) -> np.ndarray | None:
        """Return the content of a constant, else None."""
        return x.array if isinstance(x, Constant) else None

    def ints(self, x: Value, what: str = "") -> list[int] | None:
        """Return the content of a constant integer tensor as a flat list.

        For other values returns None, or raises `Unsupported` about `what` if it is given.
        """
        if isinstance(x, Constant):
            return [int(i) for i in np.ravel(x.array)]
        if what:
            raise Unsupported(f"{what} computed at run time")
        return None

    def dims(self, index: int = 0) -> list[int | str | None]:
        """Return the dims of an output of the current node in the graph. Raises `Unsupported` if the rank is
        unknown.
        """
        assert self.node is not None
        return dims_of_value(self.node.outputs[index])

    def input_dims(self, index: int) -> list[int | str | None]:
        """Return the dims of an input of the current node in the graph."""
        assert self.node is not None
        value = self.node.inputs[index]
        assert value is not None
        return dims_of_value(value)

    def known(self, array: np.ndarray) -> Constant:
        """Return a constant for an array."""
        return constant_of(array)

    def dtype_of(self, code: int) -> str:
        """Return Keras's name of the dtype that an attribute gives as a number."""
        return keras_dtype(ir.DataType(code))

    # -- tensors ------------------------------------------------------------------------------------------------------

    def tensor(self, x: Value) -> Any:
        """Return an operand for Keras's operations: a small constant as an array, a large floating-point one as a
        parameter.

        Constants that are trained in the source are parameters regardless of their size.
        """
        if not isinstance(x, Constant):
            return x
        if (x.size > _SMALL or x.trainable) and x.dtype in ("float16", "bfloat16", "float32", "float64"):
            return self.parameter(x)
        if not x.size and len(x.shape) > 1:  # a file stores an empty list without its other dims
            return ops.reshape(ops.cast(self.index()[(slice(0, 0, 1),)], x.dtype), x.shape)
        return np.asarray(x.array)

    def tensors(self, *values: Value) -> list[Any]:
        """Return `tensor` of each value."""
        return [self.tensor(x) for x in values]

    def parameter(self, x: Constant) -> KerasTensor:
        """Return a weight as a tensor. Layers own all weights of a Keras model, so the weight becomes the only row of
        an Embedding.
        """
        key = id(x)
        if key not in self._parameters:
            name = self.names.unique(x.name)
            table = layers.Embedding(1, x.size, dtype=x.dtype, name=name, trainable=x.trainable is not False)
            row = table(self.index())
            made = ops.reshape(row, x.shape)
            self.names.give([made], f"{name}.value")
            self.weights.append((table, "embeddings", x.reshaped(1, x.size)))
            self._parameters[key] = (x, made)
        return self._parameters[key][1]

    def typed(self, *values: Value) -> list[Any]:
        """Return `tensors` with their dtypes, for operations that depend on operand dtypes; a file stores a scalar
        without its dtype.
        """
        return [self.live(x) if isinstance(x, Constant) and not x.shape else self.tensor(x) for x in values]

    def live(self, x: Constant) -> KerasTensor:
        """Return a constant as a tensor that depends on an input of the model, for operations that need such an
        operand.
        """
        if (x.size > _SMALL or x.trainable) and x.dtype.startswith(("float", "bfloat")):
            return self.parameter(x)
        zero = ops.cast(ops.squeeze(self.index(), 0), x.dtype)
        if not x.size:  # Keras stores arrays as lists, in which a dim of 0 hides the dims after it
            return ops.reshape(ops.broadcast_to(zero, (0,)), x.shape)
        return ops.logical_or(zero, x.array) if x.dtype == "bool" else ops.add(zero, x.array)

    def index(self) -> KerasTensor:
        """Return an int32 vector with a single zero, derived from the first input."""
        if self._first is None:
            raise Unsupported("a model without inputs")
        if self._index is None:
            x = ops.cast(self._first, "int32") if self._first.dtype == "bool" else self._first
            self._index = ops.reshape(ops.cast(ops.zeros_like(ops.sum(x)), "int32"), (1,))
            self.names.give([self._index], "zero")
        return self._index

    def ones(self, dim: str, dtype: str) -> KerasTensor:
        """Return a vector of ones with the length of a dynamic dim. Raises `Unsupported` for an unknown name."""
        if dim not in self._dims:
            raise Unsupported(f"no tensor at hand has the dim {dim!r}")
        return ones_along(*self._dims[dim], dtype)

    def size(self, dim: int | str | KerasTensor | None) -> Any:
        """Return a dim as an int64 scalar: a number if it is known, else a tensor. A tensor is returned as it is."""
        if dim is None:
            raise Unsupported("a dim of which nothing is known")
        if isinstance(dim, KerasTensor):
            return dim
        return np.array(dim, np.int64) if isinstance(dim, int) else ops.sum(self.ones(dim, "int64"))

    def vector(self, dims: Sequence[int | str | None]) -> Any:
        """Return dims as an int64 vector: an array if all are known, else a tensor."""
        sizes = [self.size(d) for d in dims]
        if all(isinstance(n, np.ndarray) for n in sizes):
            return np.array(sizes, np.int64)
        return ops.concatenate([n.reshape(1) if isinstance(n, np.ndarray) else ops.reshape(n, (1,)) for n in sizes])

    def sizes_of(self, index: int, x: Value) -> list[Any]:
        """Return the dims of an input of the current node, whose tensor is `x`: numbers, names, or tensors for dims
        without a name.
        """
        dims = self.input_dims(index)
        if not isinstance(x, KerasTensor):
            return list(dims)
        return [d if self.has(d) else ops.sum(ones_along(x, a, "int64")) for a, d in enumerate(dims)]

    def has(self, dim: int | str | None) -> bool:
        """Return whether a dim is a number, or a dim of some available tensor."""
        return isinstance(dim, int) or dim in self._dims

    def places(self, dim: int | str | KerasTensor | None, dtype: str) -> Any:
        """Return 0, 1, 2 … for the elements of a dim; the dim may be a number known at run time only."""
        if dim is None:
            raise Unsupported("a dim of which nothing is known")
        if isinstance(dim, KerasTensor):
            return ops.cast(places_below(dim), dtype)
        return np.arange(dim, dtype=dtype) if isinstance(dim, int) else ops.cumsum(self.ones(dim, dtype)) - 1

    def broadcast(self, x: Any, dims: Sequence[int | str | None]) -> Any:
        """Return `x` broadcast to dims of the graph, some of which may be known at run time only."""
        if None in dims:
            raise Unsupported("a dim of which nothing is known")
        dtype = keras.backend.standardize_dtype(x.dtype)
        rank = len(dims)
        x = with_rank(x, rank)
        shape = list(x.shape)
        for axis, (own, d) in enumerate(zip(shape, dims, strict=True)):
            if isinstance(d, str) and own == 1:
                ones = ops.reshape(self.ones(d, dtype), [-1 if i == axis else 1 for i in range(rank)])
                x = ops.logical_and(x, ones) if dtype == "bool" else ops.multiply(x, ones)
        fixed = [d if isinstance(d, int) and own == 1 else 1 for own, d in zip(shape, dims, strict=True)]
        return ops.tile(x, fixed) if any(n != 1 for n in fixed) else x

    def channels_last(self, x: KerasTensor | Constant) -> KerasTensor | Constant:
        """Transpose N C spatial… to N spatial… C."""
        rank = len(x.shape)
        return permute_axes(x, (0, *range(2, rank), 1))

    def channels_first(self, x: KerasTensor | Constant) -> KerasTensor | Constant:
        """Transpose N spatial… C to N C spatial…."""
        rank = len(x.shape)
        return permute_axes(x, (0, rank - 1, *range(1, rank - 1)))

    # -- layers -------------------------------------------------------------------------------------------------------

    def layer(self, kind: type[layers.Layer], x: Any, weights: Mapping[str, Constant | None] | None = None,
              call: dict[str, Any] | None = None, **config: Any) -> Any:  # fmt: skip
        """Apply a layer of this kind. `weights` maps names of its attributes to the content of the variables.

        Nodes of the same rank that share their weights share the layer. `call` has further arguments of the call.
        """
        first = x[0] if isinstance(x, (list, tuple)) else x
        contents = {name: content for name, content in (weights or {}).items() if content is not None}
        dtype = next(iter(contents.values())).dtype if contents else keras.backend.standardize_dtype(first.dtype)
        if dtype.startswith(("float", "bfloat")):
            config.setdefault("dtype", dtype)
        if contents and all(content.trainable is False for content in contents.values()):
            config["trainable"] = kind is layers.BatchNormalization  # its averages are updated
        self._count += 1
        key = (self._signature, self._count, kind, repr(config)) if contents and self._signature is not None else None
        if key is not None and key in self._made:
            # Normalizations keep the rank of their first call.
            if getattr(self._made[key].input_spec, "ndim", None) in (None, len(first.shape)):
                return self._made[key](x, **(call or {}))
            key = None
        layer = kind(**config)
        y = layer(x, **(call or {}))
        self.weights += [(layer, name, content) for name, content in contents.items()]
        if key is not None:
            self._made[key] = layer
        return y

    # -- graphs -------------------------------------------------------------------------------------------------------

    def _in_dtype(self, value: ir.Value, made: Any) -> Value:
        """Return a rule's result in the dtype of the graph, because Keras has its own promotion rules."""
        if made is None or isinstance(made, Constant):
            return made
        dtype = keras_dtype(value.dtype) if value.dtype is not None else None
        if not isinstance(made, KerasTensor):
            array = np.asarray(made)
            array = array if value.dtype is None else array.astype(value.dtype.numpy())
            return constant_of(array, value.name or "const")
        if dtype is not None and keras.backend.standardize_dtype(made.dtype) != dtype:
            made = ops.cast(made, dtype)
        made = _with_known_dims(made, dims_of_value(value) if value.shape is not None else [])
        if value.shape is not None and len(value.shape) == len(made.shape):
            for axis, d in enumerate(dims_of_value(value)):
                if isinstance(d, str):
                    self._dims.setdefault(d, (made, axis))
        return made

    def enter(self, value: ir.Value) -> KerasTensor:
        """Create a graph input."""
        shape = [d if isinstance(d, int) else None for d in dims_of_value(value)]
        name = value.name or "input"
        x = keras.Input(batch_shape=shape, dtype=keras_dtype(value.dtype), name=self.names.of(name))
        self.names.know(x)
        self._first = x if self._first is None else self._first
        self._in_dtype(value, x)
        return x

    def apply(self, node: ir.Node, inputs: list[Value], attributes: dict[str, Any], at: Location) -> tuple[Any, ...]:
        """Run the rule of a node; its layers and operations get names from the source."""
        if node.op_type in IN_32_BITS and any(v is not None and v.dtype == ir.DataType.UINT64 for v in node.inputs):
            problem = Problem("unsigned integers of 64 bits, with which Keras computes in 32", at)
            raise Unsupported(problems=[problem])
        inputs = self._with_a_tensor(node, inputs)
        self._count = 0
        self._signature = (key_of(node), repr(attributes), tuple(x for x in inputs if isinstance(x, Constant)))
        before = len(self.weights)
        result = onnx_op.apply(self, key_of(node), inputs, attributes, at)
        results = result if isinstance(result, tuple) else (result,)
        made = tuple(self._in_dtype(v, r) for v, r in zip(node.outputs, results, strict=False))
        module = node.metadata_props.get(MODULE_KEY, "") if len(self.weights) > before else ""
        self.names.give(made, module or node.name or node.op_type)
        return made

    def subgraph(self, graph: ir.Graph, around: Known) -> Any:
        raise Unsupported("Keras's functional models have no subgraphs")

    def _with_a_tensor(self, node: ir.Node, inputs: list[Value]) -> list[Value]:
        """Return the inputs of a node. If all are constant (the model outputs the result), one of them becomes a
        tensor.
        """
        given = [x for x in inputs if x is not None]
        needed = node.op_type not in _OF_CONSTANTS and all(isinstance(x, Constant) for x in given)
        if not given or not (needed or node.op_type in _OF_A_TENSOR):
            return inputs
        first, *others = inputs
        return [self.live(first) if isinstance(first, Constant) else first, *others]


def _with_known_dims(x: KerasTensor, dims: Sequence[int | str | None]) -> KerasTensor:
    """Return a tensor with the dims that the graph knows: Keras forgets that `x[:1]` has one row, and layers need to
    know.
    """
    known = [d if isinstance(d, int) else -1 for d in dims]
    if len(dims) != len(x.shape) or known.count(-1) > 1 or 0 in known:
        return x
    forgotten = any(own is None and d != -1 for own, d in zip(x.shape, known, strict=True))
    return ops.reshape(x, known) if forgotten else x
