"""Runs the rules over the graph in order while TensorFlow traces a function or a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from convert.errors import Location, Unsupported
from convert.graph import location_of
from convert.rules.emitter import GraphEmitter, check_coverage

from .constants import Constant, Store, permute, scope_name, tf_dtype
from .rules import onnx_op, operator_of, standard_operator
from .sequence_values import OptionalTensor, named_tensors

Value: TypeAlias = Any
"""A tf.Tensor, a Constant, a sequence or optional of `nested`, or None (absent)."""

Dim: TypeAlias = "int | tf.Tensor"

# Maximum number of elements for which TensorFlow's constant folding is asked for the content of computed shapes and
# axes.
_SMALL = 64

FUSION_BARRIER = "fusion_barrier"
"""The name of the Squeeze in `fusion_barrier`. Its axis is counted from the end, so it identifies the rank."""


class LazyDims(Sequence):
    """The dims of a tensor; unknown ones become operations only when they are read."""

    def __init__(self, x: Value) -> None:
        self._tensor = x
        self._known: list[Dim | None] = x.shape.as_list()
        self._shape: tf.Tensor | None = None

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        if self._known[index] is None:
            if self._shape is None:
                self._shape = tf.shape(self._tensor)
            self._known[index] = self._shape[index]
        return self._known[index]


def fusion_barrier(x: Value) -> tf.Tensor:
    """Return x through ExpandDims and Squeeze, because TensorFlow's optimizer neither fuses nor rewrites across them.

    Other no-ops do not work: TensorFlow removes them (IdentityN, a Reshape or BroadcastTo to x's own shape, Split into
    one), they have no gradient, or other programs read them differently. TensorFlow.js expects a second input of
    EnsureShape, and many programs treat a PlaceholderWithDefault as an input. TensorFlow Lite has its own form in
    `lite/fusion_barriers.py`.
    """
    y = tf.squeeze(tf.expand_dims(x, 0), [0 if x.shape.rank is None else -x.shape.rank - 1], name=FUSION_BARRIER)
    y.set_shape(x.shape)
    return y


class Emitter(GraphEmitter):
    """The argument `t` of rules: they call TensorFlow directly, and use `t` for facts that are known during tracing."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    # -- what is known --------------------------------------------------------------------------------------------

    def static(self, x: Value) -> np.ndarray | None:
        """Return the content of a constant, else None."""
        if isinstance(x, Constant):
            return x.array
        if isinstance(x, (np.ndarray, np.generic)):
            return np.asarray(x)
        if not isinstance(x, tf.Tensor) or x.dtype not in (tf.int32, tf.int64, tf.bool):
            return None
        count = x.shape.num_elements()
        return tf.get_static_value(x) if count is not None and count <= _SMALL else None

    def ints(self, x: Value) -> list[int] | None:
        """Return the content of a constant integer tensor as a flat list, else None."""
        found = self.static(x)
        return None if found is None else [int(i) for i in np.ravel(found)]

    def rank(self, x: Value) -> int:
        """Return the rank of a tensor. Raises `Unsupported` if it is unknown."""
        if x.shape.rank is None:
            raise Unsupported("the rank of an input is not known")
        return int(x.shape.rank)

    def of_rank(self, x: Value, rank: int) -> tf.Tensor:
        """Return x with the rank that the operator defines for it; TensorFlow may not know it after a branch."""
        x = tf.convert_to_tensor(x)
        return tf.ensure_shape(x, [None] * rank) if x.shape.rank is None else x

    def shape(self, x: Value) -> LazyDims:
        """Return the dims: known ones are numbers, others are int32 scalars."""
        self.rank(x)
        return LazyDims(x)

    def dim(self, x: Value, axis: int) -> Dim:
        """Return one dim, also of a tensor of unknown rank."""
        return tf.shape(x)[axis] if x.shape.rank is None else LazyDims(x)[axis]

    def dims(self, x: Value) -> tf.Tensor | np.ndarray:
        """Return the shape as an int32 vector; a numpy array if it is known."""
        if x.shape.is_fully_defined():
            return np.array(x.shape.as_list(), dtype=np.int32)
        return tf.shape(x)

    def fact(self, index: int = 0) -> tuple[tf.DType, tf.TensorShape]:
        """Return dtype and shape of an output of the current node in the graph."""
        assert self.node is not None
        return dtype_and_shape(self.node.outputs[index])

    def readers(self) -> set[str]:
        """Return the types of the operators that read the current node's first output."""
        assert self.node is not None
        return {use.node.op_type for use in self.node.outputs[0].uses()}

    # -- layout ---------------------------------------------------------------------------------------------------

    def permuted(self, x: Value, perm: Sequence[int]) -> tf.Tensor:
        """Permute axes; a weight is permuted when it is created, never when the model runs."""
        return permute(x, perm)

    def channels_last(self, x: Value) -> tf.Tensor:
        """Transpose N C spatial… to N spatial… C."""
        rank = self.rank(x)
        return permute(x, (0, *range(2, rank), 1))

    def channels_first(self, x: Value) -> tf.Tensor:
        """Transpose N spatial… C to N C spatial…."""
        rank = self.rank(x)
        return permute(x, (0, rank - 1, *range(1, rank - 1)))

    # -- graphs ---------------------------------------------------------------------------------------------------

    def weight(self, value: ir.Value) -> Value:
        return self.store.weight(value)

    def location(self, node: ir.Node) -> Location:
        at = location_of(node)
        return replace(at, operator=standard_operator(at.operator))

    def apply(self, node: ir.Node, inputs: list[Value], attributes: dict[str, Any], at: Location) -> Any:
        with tf.name_scope(scope_name(node.name or node.op_type)):
            return onnx_op.apply(self, operator_of(node), inputs, attributes, at)

    def in_graph(self, value: ir.Value, made: Value) -> Value:
        if isinstance(made, (np.ndarray, np.generic)):
            return self.store.known(np.asarray(made), value.name or "const")
        if isinstance(made, tf.Variable):
            return tf.convert_to_tensor(made)
        if isinstance(made, tf.Tensor) and value.shape is not None and not made.shape.is_fully_defined():
            shape = tf.TensorShape([d if isinstance(d, int) else None for d in value.shape])
            if made.shape.is_compatible_with(shape):
                made.set_shape(shape)
        return made


def dtype_and_shape(value: ir.Value) -> tuple[tf.DType, tf.TensorShape]:
    """Return dtype and shape of a value in the graph."""
    shape = None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]
    return tf_dtype(value.dtype), tf.TensorShape(shape)


def check(model: ir.Model) -> None:
    """Raise one `Unsupported` that lists every operator without a rule, or for a dtype that TensorFlow lacks."""
    check_coverage(model, onnx_op, tf_dtype)
    for value in model.graph.inputs:
        if isinstance(value.type, ir.SequenceType):
            raise Unsupported(
                f"the input {value.name!r} is a sequence, and TensorFlow needs its length",
                hint=f"name its elements: --input {value.name}_0 --input {value.name}_1 …",
            )


def tensor_inputs(model: ir.Model) -> list[ir.Value]:
    """Return the inputs of the artefact, without optional inputs of unknown type, which are treated as absent."""
    return [v for v in model.graph.inputs if not isinstance(v.type, ir.OptionalType)]


def model_function(model: ir.Model, store: Store) -> Callable[[Iterable[tf.Tensor]], list[tuple[str, tf.Tensor]]]:
    """Return a function of `tensor_inputs`, in order, that emits the model into the current graph.

    The function returns pairs of name and output; a sequence has a pair per element.
    """

    def function(inputs: Iterable[tf.Tensor]) -> list[tuple[str, tf.Tensor]]:
        store.enter()
        emitter = Emitter(store)
        known: dict[ir.Value, Value] = {v: OptionalTensor(None) for v in model.graph.inputs}
        known.update(zip(tensor_inputs(model), inputs, strict=True))
        outputs = zip(model.graph.outputs, emitter.run(model.graph, known), strict=True)
        return [pair for i, (v, y) in enumerate(outputs) for pair in named_tensors(v.name or f"output_{i}", y)]

    return function
