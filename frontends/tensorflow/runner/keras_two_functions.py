"""TensorFlow functions that Keras 2 files store as layers, by their names in TensorFlow's API.

Keras 2.4 to 2.15 write `x + 1` or `tf.reshape(x, …)` as a TFOpLambda layer with the function's name and arguments. Only
functions that compute from their arguments alone are listed here: no files, no Python, no random numbers, no variables.
tf.keras of TensorFlow 1.14 to 2.3 writes a single operator instead, TensorFlowOpLayer, as a NodeDef with its constant
inputs.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from ..graph.allowed import operator_problem as refused

TENSORFLOW_FUNCTION = "convert>TensorFlowFunction"
TENSORFLOW_OPERATOR = "convert>TensorFlowOperator"

_ARRAYS = """
    broadcast_to cast clip_by_value concat expand_dims gather gather_nd identity meshgrid norm one_hot ones_like pad
    range rank repeat reshape reverse roll shape shape_n size slice space_to_batch split squeeze stack stop_gradient
    strided_slice tensordot tile transpose unstack where zeros_like
"""
_MATH = """
    abs acos acosh add add_n angle argmax argmin asin asinh atan atan2 atanh ceil cos cosh cumprod cumsum divide
    divide_no_nan equal erf erfc exp expm1 floor floordiv floormod greater greater_equal is_finite is_inf is_nan
    l2_normalize less less_equal log log1p log_sigmoid log_softmax logical_and logical_not logical_or logical_xor
    maximum minimum mod multiply multiply_no_nan negative not_equal pow reciprocal reduce_all reduce_any
    reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_std reduce_sum
    reduce_variance rint round rsqrt scalar_mul segment_sum sigmoid sign sin sinh softmax softplus softsign sqrt
    square squared_difference subtract tan tanh top_k truediv xdivy xlogy
"""
_NEURAL = """
    atrous_conv2d avg_pool avg_pool1d avg_pool2d avg_pool3d batch_normalization bias_add conv1d conv2d conv3d
    conv2d_transpose crelu depth_to_space depthwise_conv2d elu fused_batch_norm gelu l2_loss l2_normalize leaky_relu
    local_response_normalization log_softmax lrn max_pool max_pool1d max_pool2d max_pool3d moments
    normalize_moments relu relu6 selu sigmoid silu softmax softplus softsign space_to_depth swish tanh
    weighted_moments
"""
_LINEAR = "band_part diag diag_part eye l2_normalize matmul matrix_transpose matvec norm tensordot trace"
_IMAGES = """
    adjust_brightness adjust_contrast central_crop convert_image_dtype crop_to_bounding_box flip_left_right
    flip_up_down grayscale_to_rgb pad_to_bounding_box per_image_standardization resize resize_bilinear
    resize_nearest_neighbor resize_with_crop_or_pad rgb_to_grayscale rot90 transpose
"""
_OPERATORS = "add eq getitem ne"


def _allowed() -> frozenset[str]:
    modules = {"math": _MATH, "nn": _NEURAL, "linalg": _LINEAR, "image": _IMAGES, "__operators__": _OPERATORS}
    names = [*_ARRAYS.split(), *(f"{module}.{name}" for module, text in modules.items() for name in text.split())]
    return frozenset([*names, *_MATH.split(), *(f"compat.v1.{name}" for name in (*names, *_MATH.split()))])


ALLOWED = _allowed()
"""The functions that a file may call."""


def tensorflow_function() -> Any:
    """Return a layer that applies the TensorFlow function of a given name; raises `ValueError` for one not allowed."""
    import keras
    import tensorflow as tf

    operators = {"add": tf.add, "eq": tf.math.equal, "ne": tf.math.not_equal, "getitem": _getitem}

    class TensorFlowFunction(keras.layers.Layer):
        def __init__(self, function: str, arguments: str, **config: Any) -> None:
            if function not in ALLOWED:
                raise ValueError(f"tf.{function} is none of the functions that only compute")
            super().__init__(**config | {"autocast": False})
            self._form = arguments
            self._function: Any = tf
            for part in function.split("."):
                self._function = operators if part == "__operators__" else _member(self._function, part)

        def call(self, tensors: Any) -> Any:
            form = json.loads(self._form)
            others = {key: _argument(value, tensors) for key, value in form["others"].items()}
            return self._function(_argument(form["first"], tensors), **others)

    return TensorFlowFunction


def operator_problem(node: Any) -> str:
    """Return why the operator of a TensorFlowOpLayer may not be run, or ""."""
    operator = _node(node).get("op")
    return "" if isinstance(operator, str) and not refused(operator) else str(operator)


def _node(node: Any) -> dict[str, Any]:
    """Return a NodeDef, which some versions store as text inside the text."""
    found = json.loads(node) if isinstance(node, str) else node
    return found if isinstance(found, dict) else {}


def tensorflow_operator() -> Any:
    """Return a layer that applies one TensorFlow operator; raises `ValueError` for one not allowed."""
    import keras
    import tensorflow as tf
    from google.protobuf import json_format
    from tensorflow.core.framework.node_def_pb2 import NodeDef

    class TensorFlowOperator(keras.layers.Layer):
        def __init__(self, node_def: Any, constants: dict[str, Any] | None = None, **config: Any) -> None:
            if problem := operator_problem(node_def):
                raise ValueError(f"{problem} is none of the operators that only compute")
            super().__init__(**config | {"autocast": False})
            self._convert_input_args = False
            self._node = json_format.ParseDict(_node(node_def), NodeDef())
            self._constants = {int(place): value for place, value in (constants or {}).items()}

        def call(self, tensors: Any) -> Any:
            left = iter(tensors if isinstance(tensors, list | tuple) else [tensors])
            values = [self._constants[i] if i in self._constants else next(left) for i in range(len(self._node.input))]
            return _run_operator(tf, self._node, values)

    return TensorFlowOperator


def _run_operator(tf: Any, node: Any, values: list[Any]) -> Any:
    """Return the result of an operator on its inputs, in order, with the attributes of its NodeDef."""
    from tensorflow.python.framework import op_def_registry

    definition, left, given = op_def_registry.get(node.op), iter(values), dict[str, Any]()
    for arg in definition.input_arg:
        many = arg.number_attr and range(node.attr[arg.number_attr].i)
        given[arg.name] = [next(left) for _ in many] if many else next(left)
    function = getattr(tf.raw_ops, node.op)
    taken = inspect.signature(function).parameters
    return function(**given, **{key: _attribute(tf, value) for key, value in node.attr.items() if key in taken})


def _attribute(tf: Any, value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    if kind == "list":
        return [*found.i, *found.f, *found.b, *found.s, *map(tf.as_dtype, found.type)]
    return {"type": tf.as_dtype, "shape": tf.TensorShape}.get(kind, lambda plain: plain)(found)


def _argument(form: Any, tensors: list[Any]) -> Any:
    """Return an argument for the function: dicts in a file represent tensors, slices and `...`."""
    if isinstance(form, list):
        return [_argument(item, tensors) for item in form]
    if isinstance(form, dict):
        if "tensor" in form:
            return tensors[form["tensor"]]
        return ... if form.get("class_name") == "__ellipsis__" else slice(*(form[k] for k in ("start", "stop", "step")))
    return form


def _member(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)


def _getitem(x: Any, slice_spec: Any) -> Any:
    return x[tuple(slice_spec) if isinstance(slice_spec, list) else slice_spec]
