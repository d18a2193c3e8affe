"""Constants of the model during emission: lazy, shared, and created in the layout that the reading operator needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable, UninitializedVariable

from convert.errors import Unsupported
from convert.graph.tensors import contiguous_array, dims_of
from convert.graph.trainable import non_trainable, single_weights
from convert.request.naming import Naming

Permutation = tuple[int, ...]

# Limits for tensors stored outside the graph: TensorFlow inspects small constants; these dtypes are stored as in
# memory.
_LARGE = 1024
_PLAIN = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64)


class Constant:
    """A tensor with known content: an initializer, a Constant node, or a numpy array that a rule returned.

    TensorFlow functions accept it as a tensor. It is created, and its weight read, only when one of them does.
    """

    def __init__(
        self, store: Store, tensor: ir.TensorProtocol, name: str, variable: bool, trainable: bool = True
    ) -> None:
        self.store = store
        self.tensor = tensor
        self.name = name
        self.variable = variable
        self.trainable = trainable
        self.dtype: tf.DType = tf_dtype(tensor.dtype)
        self.shape = tf.TensorShape(dims_of(tensor))
        self._made: dict[Permutation, BaseResourceVariable] = {}

    @property
    def array(self) -> np.ndarray:
        """The content, read again at each access."""
        if self.dtype == tf.string:
            return np.array(self.tensor.numpy(), dtype=object).reshape(self.shape.as_list())
        return self.tensor.numpy()

    def emit(self, perm: Permutation = ()) -> tf.Tensor:
        """Return the tensor in the current graph, permuted when it is created, not when the model runs."""
        if not self.variable:
            return self.store.constant(self, perm)
        if perm not in self._made:
            self._made[perm] = self.store.variable(self, perm)
        return self._made[perm].value()

    def __getitem__(self, index: Any) -> tf.Tensor:
        return self.emit()[index]

    def permuted(self, perm: Permutation) -> np.ndarray:
        """Return the content, permuted and contiguous."""
        return contiguous_array(np.transpose(self.array, perm)) if perm else self.array


class Store:
    """The constants and variables of one artefact.

    With `beside`, the content of weights is left out. Variables then have no content, and `contents_of_variables` lists
    it in the order of `variables`. Without variables, weights are placeholders in the graph, and `contents` maps their
    names to the content.
    """

    def __init__(self, *, variables: bool, beside: bool = False, model: ir.Model | None = None) -> None:
        """Create a store. `model` says which weights are trained."""
        self.variables: list[BaseResourceVariable] = []
        self.contents: dict[str, tuple[Constant, Permutation]] = {}
        self.contents_of_variables: list[tuple[Constant, Permutation]] = []
        self._use_variables = variables
        self._non_trainable = set[ir.Value]() if model is None else non_trainable(model)
        self._single = set[ir.Value]() if model is None else single_weights(model)
        self._beside = beside
        self._graph: tf.Graph = tf.compat.v1.get_default_graph()
        self._constants: dict[tuple[int, Permutation], tf.Tensor] = {}
        self._keep: list[Constant] = []

    def enter(self) -> None:
        """Create constants in the graph that is current now, including those of its subgraphs."""
        self._graph = tf.compat.v1.get_default_graph()

    def weight(self, value: ir.Value) -> Constant:
        """Return an initializer: a variable if it is a float with more than one element, or is known to be a weight."""
        tensor = value.const_value
        assert tensor is not None
        floating = tf_dtype(tensor.dtype).is_floating and tensor.dtype.itemsize >= 2
        variable = self._use_variables and floating
        variable &= value in self._single or (len(tensor.shape) > 0 and int(tensor.size) > 1)
        return Constant(self, tensor, value.name or "weight", variable, value not in self._non_trainable)

    def known(self, array: np.ndarray | ir.TensorProtocol, name: str = "const") -> Constant:
        """Return a constant that is not a weight."""
        tensor = ir.tensor(array) if isinstance(array, (np.ndarray, np.generic)) else array
        return Constant(self, tensor, name, variable=False)

    def constant(self, constant: Constant, perm: Permutation) -> tf.Tensor:
        """Return a Const node in the outermost graph; there is one per permutation."""
        key = (id(constant), perm)
        if key not in self._constants:
            self._keep.append(constant)
            with self._graph.as_default(), tf.name_scope(scope_name(constant.name)), tf.control_dependencies(None):
                self._constants[key] = self._constant_tensor(constant, perm)
        return self._constants[key]

    def _constant_tensor(self, constant: Constant, perm: Permutation) -> tf.Tensor:
        large = constant.dtype in _PLAIN and constant.tensor.nbytes >= _LARGE
        if not (self._beside and large) or self._use_variables:
            return tf.constant(constant.permuted(perm), constant.dtype, name="value")
        dims = constant.shape.as_list()
        made = tf.compat.v1.placeholder(constant.dtype, [dims[i] for i in perm] if perm else dims, name="value")
        self.contents[made.op.name] = (constant, perm)
        return made

    def variable(self, constant: Constant, perm: Permutation) -> BaseResourceVariable:
        """Return a variable that is created outside the traced graph."""
        name, dtype = scope_name(constant.name), constant.dtype
        with tf.init_scope():
            # The creator scope of the trace would intercept tf.Variable and turn its content into graph constants.
            if self._beside:
                dims = constant.shape.as_list()
                shape = [dims[i] for i in perm] if perm else dims
                variable = UninitializedVariable(trainable=constant.trainable, name=name, shape=shape, dtype=dtype)
            else:
                variable = ResourceVariable(
                    constant.permuted(perm), trainable=constant.trainable, dtype=dtype, name=name
                )
        self.variables.append(variable)
        self.contents_of_variables.append((constant, perm))
        return variable


def permute(x: tf.Tensor | Constant, perm: Sequence[int]) -> tf.Tensor:
    """Permute axes: of a constant when it is created, of other values when the model runs."""
    if list(perm) == sorted(perm):
        return tf.convert_to_tensor(x)
    if isinstance(x, Constant):
        return x.emit(tuple(perm))
    dims = x.shape.as_list() if x.shape.rank is not None else [None] * len(perm)
    long = [axis for axis in perm if dims[axis] != 1]
    if long == sorted(long):
        # Only dims of size 1 move, so the bytes stay in order.
        x = tf.squeeze(x, [axis for axis in perm if dims[axis] == 1])
        for place, axis in enumerate(perm):
            x = tf.expand_dims(x, place) if dims[axis] == 1 else x
        return x
    return tf.transpose(x, list(perm))


_DTYPES = {
    ir.DataType.FLOAT8E4M3FN: "float8_e4m3fn",
    ir.DataType.FLOAT8E5M2: "float8_e5m2",
    ir.DataType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    ir.DataType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    ir.DataType.FLOAT4E2M1: "float4_e2m1fn",
    ir.DataType.INT4: "int4",
    ir.DataType.UINT4: "uint4",
    ir.DataType.INT2: "int2",
    ir.DataType.UINT2: "uint2",
    ir.DataType.BFLOAT16: "bfloat16",
    ir.DataType.STRING: "string",
}


def tf_dtype(dtype: ir.DataType | None) -> tf.DType:
    """Return TensorFlow's dtype. Raises `Unsupported` if there is none."""
    if dtype is None:
        raise Unsupported("the dtype of a tensor is unknown")
    name = _DTYPES.get(dtype)
    if name is None:
        try:
            return tf.as_dtype(dtype.numpy())
        except TypeError as error:
            raise Unsupported(f"TensorFlow has no dtype {dtype.name}") from error
    found = getattr(tf, name, None) or getattr(tf.dtypes.experimental, name, None)
    if found is None:
        raise Unsupported(f"TensorFlow has no dtype {dtype.name}")
    return found


def scope_name(name: str) -> str:
    """Return `name` with characters replaced that TensorFlow does not accept in operation names."""
    while "//" in name:
        name = name.replace("//", "/")
    return _SCOPE.legal(name)


_SCOPE = Naming(r"[^A-Za-z0-9._/-]", r"[A-Za-z0-9.]", "/")


def _to_tensor(
    value: Constant, dtype: tf.DType | None = None, name: str | None = None, as_ref: bool = False
) -> tf.Tensor:
    if dtype is not None and tf.as_dtype(dtype).base_dtype != value.dtype:
        return NotImplemented
    return value.emit()


tf.register_tensor_conversion_function(Constant, _to_tensor)
