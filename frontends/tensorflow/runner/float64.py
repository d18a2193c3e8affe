"""Widens a GraphDef to float64: floating-point dtypes become double; operators without a double kernel are composed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from convert.errors import Location, Problem, Unsupported
from convert.graph.written_numbers import unrounded_number

from ..graph.programs import OPERATOR as PROGRAM
from .fake_quant import OPERATORS, constant_inputs, fake_quant
from .session import disable_optimizer
from .tensor_array_flows import flow_nodes

_FLOAT, _DOUBLE, _HALF, _BFLOAT16 = 1, 2, 19, 14
_NARROW = (_FLOAT, _HALF, _BFLOAT16)
_WIDE_COMPLEX = {8: 18}
_OF_A_DTYPE = ("Bitcast", "NextAfter")
_COMPILED = ("_XlaMustCompile", "_XlaCompile", "_XlaScope")


def widen_graph(graph: Any) -> Any:
    """Return a copy of `graph` that computes in double. Raises `Unsupported` with every operator that cannot."""
    wide = type(graph)()
    wide.CopyFrom(graph)
    functions = list(wide.library.function)
    problems: dict[str, Problem] = {}
    added: dict[str, Any] = {}
    for function in functions:
        for arg in (*function.signature.input_arg, *function.signature.output_arg):
            arg.type = _wide_dtype(arg.type)
        _widen_all(function.node_def, added, problems)
        _widen_attributes(function.attr)
    _widen_all(wide.node, added, problems)
    if problems:
        raise Unsupported(problems=list(problems.values()), hint="without a run in float64, only float32 is compared")
    for definition in added.values():
        wide.library.function.add().CopyFrom(definition)
    disable_optimizer(wide)
    return wide


def _widen_all(nodes: Sequence[Any], added: dict[str, Any], problems: dict[str, Problem]) -> None:
    handed_on = flow_nodes(nodes)
    for node in nodes:
        if node.name in handed_on:
            continue
        for name in _floating_defaults(node.op) - set(node.attr):  # SavedModels omit defaults
            node.attr[name].type = _FLOAT
        floating = _widen_attributes(node.attr)
        if node.op == PROGRAM:
            problems.setdefault(node.op, Problem("its program is not widened", Location(node.op, node.name)))
        elif node.op in OPERATORS:
            _replace_by_call(node, added, fake_quant(node.op, constant_inputs(node, nodes)))
        elif node.op in _SPELLED_OUT and (_uses_float64(node) or _has_fixed_dtype(node)):
            _replace_by_call(node, added, _SPELLED_OUT[node.op])
        elif floating and node.op in _OF_A_DTYPE:
            problems.setdefault(node.op, Problem("means another thing in float64", Location(node.op, node.name)))
        elif (floating or _has_fixed_dtype(node)) and not has_float64_kernel(node):
            problems.setdefault(
                node.op, Problem("TensorFlow has no double kernel for it", Location(node.op, node.name))
            )


@cache
def _floating_defaults(operator: str) -> frozenset[str]:
    """Return the attributes that default to a floating-point dtype."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(operator)
    attributes = definition.attr if definition is not None else ()
    return frozenset(a.name for a in attributes if a.type == "type" and a.default_value.type in _NARROW)


def _widen_attributes(attributes: Any) -> bool:
    """Widen in place; return whether anything was floating-point."""
    found = False
    for name in [n for n in attributes if n in _COMPILED]:
        del attributes[name]
    for value in attributes.values():
        kind = value.WhichOneof("value")
        if kind == "type":
            found |= value.type in _NARROW
            value.type = _wide_dtype(value.type)
        elif kind == "list" and value.list.type:
            types = list(value.list.type)
            found |= any(t in _NARROW for t in types)
            del value.list.type[:]
            value.list.type.extend(map(_wide_dtype, types))
        elif kind == "tensor" and _wide_dtype(value.tensor.dtype) != value.tensor.dtype:
            value.tensor.CopyFrom(_wide_tensor(value.tensor))
    return found


def _wide_dtype(dtype: int) -> int:
    return _DOUBLE if dtype in _NARROW else _WIDE_COMPLEX.get(dtype, dtype)


def _wide_tensor(tensor: Any) -> Any:
    import tensorflow as tf

    array = tf.make_ndarray(tensor)
    if array.dtype == np.float32 and array.size == 1:
        return tf.make_tensor_proto(unrounded_number(array.item()), tf.float64, array.shape)
    return tf.make_tensor_proto(
        array.astype(np.complex128 if array.dtype.kind == "c" else np.float64), shape=array.shape
    )


def _uses_float64(node: Any) -> bool:
    return any(v.WhichOneof("value") == "type" and v.type == _DOUBLE for v in node.attr.values())


def has_float64_kernel(node: Any) -> bool:
    """Return whether a CPU kernel supports the node's (widened) dtypes."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    if definition is None:  # a function of the library, which is widened like the rest
        return True
    ends = (*definition.input_arg, *definition.output_arg)
    fixed = [a for a in ends if a.type in _NARROW and not (node.op.startswith("TensorArray") and "flow" in a.name)]
    if fixed:
        return False
    allowed = {a.name: list(a.allowed_values.list.type) for a in definition.attr if a.HasField("allowed_values")}
    for name, value in node.attr.items():
        if value.WhichOneof("value") == "type" and allowed.get(name) and value.type not in allowed[name]:
            return False
    kernels = _cpu_kernels(node.op)
    return not kernels or any(_kernel_accepts(kernel, node) for kernel in kernels)


def _has_fixed_dtype(node: Any) -> bool:
    """Return whether its dtype is fixed by the operator, not an attribute."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    ends = () if definition is None else (*definition.input_arg, *definition.output_arg)
    return any(arg.type in _NARROW for arg in ends)


@cache
def _cpu_kernels(operator: str) -> list[Any]:
    from tensorflow.python.framework import kernels

    return [k for k in kernels.get_registered_kernels_for_op(operator).kernel if k.device_type == "CPU"]


def _kernel_accepts(kernel: Any, node: Any) -> bool:
    for constraint in kernel.constraint:
        value = node.attr.get(constraint.name, None)
        wanted = list(constraint.allowed_values.list.type)
        if value is not None and value.WhichOneof("value") == "type" and wanted and value.type not in wanted:
            return False
    return True


# -- operators spelled out ----------------------------------------------------------------------------------------


def _replace_by_call(node: Any, added: dict[str, Any], make: Callable[..., list[Any]]) -> None:
    """Turn a node into a call of `make`, which computes the same in double, with the same name and outputs."""
    import tensorflow as tf

    data = [i for i in node.input if not i.startswith("^")]
    attributes = dict(node.attr.items())
    dtypes = _input_dtypes(node, len(data))

    @tf.function(autograph=False, input_signature=[tf.TensorSpec(None, d) for d in dtypes])
    def in_float64(*inputs: Any) -> Any:
        return make(attributes, *inputs)

    concrete = in_float64.get_concrete_function()
    definition = concrete.function_def
    added[definition.signature.name] = definition
    outputs = [o.dtype.as_datatype_enum for o in concrete.outputs]
    node.op = "PartitionedCall"
    node.attr.clear()
    node.attr["f"].func.name = definition.signature.name
    node.attr["Tin"].list.type.extend(d.as_datatype_enum for d in dtypes)
    node.attr["Tout"].list.type.extend(outputs)


def _input_dtypes(node: Any, count: int) -> list[Any]:
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    dtypes: list[Any] = []
    for arg in op_def_registry.get(node.op).input_arg:
        if arg.type_list_attr:
            dtypes += list(node.attr[arg.type_list_attr].list.type)
        else:
            one = node.attr[arg.type_attr].type if arg.type_attr else _wide_dtype(arg.type)
            dtypes += [one] * (node.attr[arg.number_attr].i if arg.number_attr else 1)
    return [tf.as_dtype(d) for d in dtypes[:count]]


def _batch_norm(attributes: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> list[Any]:
    import tensorflow as tf

    channels_first = attributes["data_format"].s.startswith(b"NC") if "data_format" in attributes else False
    if "is_training" not in attributes or attributes["is_training"].b:
        raise Unsupported("a batch normalization in training mode has no double kernel")
    epsilon = _float_attribute(attributes, "epsilon", 1e-4)

    def broadcast(v: Any) -> Any:
        trailing = tf.ones([tf.rank(x) - 2], tf.int32)
        return tf.reshape(v, tf.concat([tf.shape(v), trailing], 0)) if channels_first else v

    y = (x - broadcast(mean)) * broadcast(scale / tf.sqrt(variance + epsilon)) + broadcast(offset)
    return [y, mean, variance, mean, variance, mean]


def _batch_norm_five(attributes: Any, *inputs: Any) -> list[Any]:
    return _batch_norm(attributes, *inputs)[:5]


def _resize_bilinear(attributes: Any, images: Any, size: Any) -> list[Any]:
    """Two gathers and a blend along height, then along width."""
    import tensorflow as tf

    aligned = attributes["align_corners"].b if "align_corners" in attributes else False
    centred = attributes["half_pixel_centers"].b if "half_pixel_centers" in attributes else False
    x = tf.cast(images, tf.float64)
    for axis in (1, 2):
        have, want = tf.shape(x)[axis], size[axis - 1]
        n, m = tf.cast(have, tf.float64), tf.cast(want, tf.float64)
        scale = tf.where(tf.logical_and(aligned, want > 1), (n - 1) / tf.maximum(m - 1, 1), n / m)
        at = tf.range(m, dtype=tf.float64)
        at = (at + 0.5) * scale - 0.5 if centred else at * scale
        low = tf.floor(at)
        weight = tf.reshape(at - low, [-1, 1, 1] if axis == 1 else [-1, 1])
        below = tf.clip_by_value(tf.cast(low, tf.int32), 0, have - 1)
        above = tf.clip_by_value(tf.cast(low, tf.int32) + 1, 0, have - 1)
        first, second = tf.gather(x, below, axis=axis), tf.gather(x, above, axis=axis)
        x = first + (second - first) * weight
    return [x]


def _lrn(attributes: Any, x: Any) -> list[Any]:
    import tensorflow as tf

    radius = attributes["depth_radius"].i if "depth_radius" in attributes else 5
    alpha, beta, bias = (_float_attribute(attributes, n, d) for n, d in (("alpha", 1.0), ("beta", 0.5), ("bias", 1.0)))
    squares = tf.pad(x * x, [[0, 0], [0, 0], [0, 0], [radius, radius]])
    total = tf.add_n([squares[..., i : tf.shape(squares)[-1] - 2 * radius + i] for i in range(2 * radius + 1)])
    return [x / tf.pow(bias + alpha * total, tf.constant(beta, tf.float64))]


def _leaky_relu(attributes: Any, x: Any) -> list[Any]:
    import tensorflow as tf

    return [tf.where(x > 0, x, x * tf.constant(_float_attribute(attributes, "alpha", 0.2), tf.float64))]


def _in_top_k(attributes: Any, predictions: Any, targets: Any, *k: Any) -> list[Any]:
    """Return whether fewer than k classes score above the target's, which must be a class; NaN is above and below
    nothing.
    """
    import tensorflow as tf

    most = tf.cast(k[0], tf.int64) if k else tf.constant(attributes["k"].i, tf.int64)
    known = (targets >= 0) & (tf.cast(targets, tf.int64) < tf.shape(predictions, tf.int64)[1])
    own = tf.gather(predictions, tf.where(known, targets, 0), axis=1, batch_dims=1)
    above = tf.math.count_nonzero(predictions > own[:, None], 1)
    return [known & tf.math.is_finite(own) & (above < most)]


def _float_attribute(attributes: Any, name: str, default: float) -> float:
    """Return a float attribute of a node as it was written; attributes hold it in float32."""
    return unrounded_number(attributes[name].f) if name in attributes else default


def _pool(reduce: Callable[..., Any], fill: float) -> Callable[..., list[Any]]:
    """Return a 3-D pool as a reduction over shifted views; SAME averages count elements inside only."""

    def pool(attributes: Any, x: Any) -> list[Any]:
        import tensorflow as tf

        if "data_format" in attributes and attributes["data_format"].s != b"NDHWC":
            raise Unsupported("a pool in NCDHW has no double kernel")
        kernel, strides = list(attributes["ksize"].list.i)[1:4], list(attributes["strides"].list.i)[1:4]
        size = tf.shape(x)[1:4]
        counts = (size - kernel) // strides + 1
        before = tf.zeros(3, tf.int32)
        total = tf.zeros(3, tf.int32)
        if attributes["padding"].s == b"SAME":
            counts = -(-size // strides)
            total = tf.maximum((counts - 1) * strides + kernel - size, 0)
            before = total // 2
        edges = tf.stack([tf.pad(before, [[1, 1]]), tf.pad(total - before, [[1, 1]])], 1)
        views = [tf.pad(x, edges, constant_values=tf.constant(fill, tf.float64)), tf.pad(tf.ones_like(x), edges)]
        shifted: list[list[Any]] = [[], []]
        for at in np.ndindex(*kernel):
            for i, view in enumerate(views):
                a, b, c = (slice(at[d], at[d] + (counts[d] - 1) * strides[d] + 1, strides[d]) for d in range(3))
                shifted[i].append(view[:, a, b, c])
        return [reduce(tf.stack(shifted[0]), tf.stack(shifted[1]))]

    return pool


def _reduce_max(values: Any, inside: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_max(values, 0)


def _reduce_mean(values: Any, inside: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(values, 0) / tf.reduce_sum(inside, 0)


_SPELLED_OUT: dict[str, Callable[..., list[Any]]] = {
    "FusedBatchNorm": _batch_norm_five,
    "FusedBatchNormV2": _batch_norm_five,
    "FusedBatchNormV3": _batch_norm,
    "ResizeBilinear": _resize_bilinear,
    "LRN": _lrn,
    "LeakyRelu": _leaky_relu,
    "InTopK": _in_top_k,
    "InTopKV2": _in_top_k,
    "MaxPool3D": _pool(_reduce_max, -np.inf),
    "AvgPool3D": _pool(_reduce_mean, 0.0),
}
