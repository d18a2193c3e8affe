"""Constant folding: moves weights lazily, without copies, and evaluates small arithmetic on constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from convert.graph import location_of, register_initializer
from convert.graph.tensors import dims_of, lazy_tensor
from convert.graph.trainable import add_non_trainable
from convert.graph.values import constant, constant_integers, is_random_node, is_used, known_dims
from convert.semantics.slices import slice_of

# A computed constant with more bytes than this costs more in the artefact than the node that computes it.
_LARGEST = 1 << 16

_LONGEST = 1 << 24
"""Upper bound of the steps to evaluate one node: even small arrays may need hours."""

_WINDOWS = ("kernel_shape", "pads", "strides", "dilations", "output_padding", "output_shape", "sampling_ratio", "size")
"""Attributes that determine the amount of work independently of the input and output sizes."""

_KEPT = frozenset({"DequantizeLinear", "ImageDecoder"})


def fold_constants(model: ir.Model, sizes_only: bool = False) -> bool:
    """Replace nodes whose inputs are all constant by initializers; return whether there were any.

    With `sizes_only`, floats are evaluated only if integers, conditions or sizes depend on them, and their other
    readers still compute them at run time. What is evaluated here is rounded, and a float64 run cannot recover its
    digits.

    - Transpose, Reshape, Squeeze, Unsqueeze and Flatten of a weight of any size become lazy views. So do Slices and
      Concats of weights that no other node reads whole (LSTM gates in another order).
    - Shape and Size of a value with a static shape become constants.
    - Other operators are evaluated by the reference executor if inputs and outputs are small.
    - Nodes with subgraphs, random operators and unknown operators stay. DequantizeLinear stays, because runtimes look
      for it, and a quantized weight is small only as integers. Operators on strings and images stay, because the sizes
      of their results are unpredictable.
    """
    evaluate = Evaluator(model.graph.opset_imports.get("", 0))
    modified = False
    chosen = _nodes_of_sizes(model) if sizes_only else None
    meanwhile: set[ir.Value | None] = set()
    for graph in (model.graph, *model.graph.subgraphs()):
        for node in list(graph):
            if chosen is not None and node not in chosen:
                continue
            tensors = _fold(node, evaluate)
            if tensors is None:
                continue
            of_rounded = any(v in meanwhile for v in node.inputs)
            rounded = chosen is not None and _makes_floats(node) and (of_rounded or node.op_type not in _VIEWS)
            for output, tensor in zip(node.outputs, tensors, strict=True):
                if rounded and not any(user.op_type in _SIZED_BY_FLOATS for user, _ in output.uses()):
                    output.const_value = tensor
                    meanwhile.add(output)
                    continue
                add_non_trainable(model, _replace(model.graph, output, tensor), node.inputs)
            if not any(is_used(o) for o in node.outputs):
                graph.remove(node, safe=True)
            modified = modified or not rounded
    for output in filter(None, meanwhile):
        output.const_value = None
    return modified


def _makes_floats(node: ir.Node) -> bool:
    return all(o.dtype is not None and o.dtype.is_floating_point() for o in node.outputs)


_SIZED_BY_FLOATS = frozenset({"Resize", "Upsample", "Range"})


def _nodes_of_sizes(model: ir.Model) -> set[ir.Node]:
    """Return the nodes to fold if only sizes matter.

    These are the nodes whose results are not floating-point. A node with floating results is included if sizes, or
    results that are not floating-point, are computed from these results and constants alone.

    Views of weights are included, because they round nothing; nodes that compute such a weight are not.
    """
    nodes = list(model.graph.all_nodes())
    computed: set[ir.Value] = set()
    for node in nodes:
        inputs = [v for v in node.inputs if v is not None]
        if node.op_type in ("Shape", "Size") or (inputs and all(_is_known(v, computed) for v in inputs)):
            computed.update(node.outputs)
    found: set[ir.Node] = set()
    for node in reversed(nodes):
        users = {user for output in node.outputs for user, _ in output.uses()}
        if not _makes_floats(node) or any(_is_of_size(user, found, computed) for user in users):
            found.add(node)
    return found | {node for node in nodes if node.op_type in _VIEWS}


def _is_of_size(user: ir.Node, found: set[ir.Node], computed: set[ir.Value]) -> bool:
    if user.op_type in _SIZED_BY_FLOATS:
        return True
    return user in found and all(v is None or _is_known(v, computed) for v in user.inputs)


def _is_known(value: ir.Value, computed: set[ir.Value]) -> bool:
    return value.const_value is not None or value in computed


def _fold(node: ir.Node, evaluate: Evaluator) -> Sequence[ir.TensorProtocol] | None:
    if node.domain != "" or any(o.is_graph_output() for o in node.outputs):
        return None
    if node.op_type in ("Shape", "Size"):
        return _shape_of(node)
    if node.op_type in ("Gather", "Slice") and (picked := _picked_dims(node)) is not None:
        return picked
    inputs = [v for v in node.inputs if v is not None]
    if not inputs or any(v.const_value is None for v in inputs):
        return None
    first = inputs[0].const_value
    assert first is not None
    if node.op_type in _VIEWS:
        view = _VIEWS[node.op_type](node, first)
        return None if view is None else [view]
    if node.op_type in _PIECES and (pieces := _PIECES[node.op_type](node)) is not None:
        return [pieces]
    if (
        is_random_node(node)
        or node.op_type in _KEPT
        or sum(v.const_value.nbytes for v in inputs if v.const_value is not None) > _LARGEST
    ):
        return None
    return evaluate(node)


def _shape_of(node: ir.Node) -> list[ir.TensorProtocol] | None:
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None:
        return None
    if node.op_type == "Size":
        return [ir.Tensor(np.array(np.prod(shape.numpy(), dtype=np.int64)))] if shape.is_static() else None
    start, end = node.attributes.get("start"), node.attributes.get("end")
    dims = list(shape)[slice(start.as_int() if start else 0, end.as_int() if end else None)]
    if not all(isinstance(d, int) for d in dims):
        return None
    return [ir.Tensor(np.array(dims, dtype=np.int64))]


def _picked_dims(node: ir.Node) -> list[ir.TensorProtocol] | None:
    """Return the dims that a Gather or Slice picks from a Shape as a constant, if they are known; else None."""
    source, *places = node.inputs
    shape_node = None if source is None else source.producer()
    if shape_node is None or shape_node.op_type != "Shape" or shape_node.domain or shape_node.inputs[0] is None:
        return None
    dims = known_dims(shape_node.inputs[0])
    content = [None if v is None else constant_integers(v) for v in places]
    if dims is None or any(v is not None and c is None for v, c in zip(places, content, strict=True)):
        return None
    start, end = shape_node.attributes.get_int("start", 0), shape_node.attributes.get_int("end", len(dims))
    dims = dims[start:end]
    if node.op_type == "Slice":
        starts, ends, _, steps = (*content, None, None)[:4]
        if not starts or not ends or (steps and 0 in steps):
            return None
        return _whole(dims[slice_of(starts[0], ends[0], steps[0] if steps else 1, len(dims))])
    indices = constant(places[0])
    if node.attributes.get_int("axis", 0) not in (0, -1) or indices is None:
        return None
    if any(not -len(dims) <= i < len(dims) for i in content[0] or ()):
        return None
    return _whole([dims[i] for i in content[0] or ()], dims_of(indices))


def _whole(dims: Sequence[int | str | None], shape: Sequence[int] | None = None) -> list[ir.TensorProtocol] | None:
    """Return dims as a vector, or in the shape of the indices that selected them; None if a dim is unknown."""
    if not all(isinstance(d, int) for d in dims):
        return None
    found = np.array(dims, np.int64)
    return [ir.Tensor(found if shape is None else found.reshape(shape))]


def _transpose(node: ir.Node, tensor: ir.TensorProtocol) -> ir.TensorProtocol | None:
    dims = dims_of(tensor)
    perm = list(node.attributes["perm"].as_ints()) if "perm" in node.attributes else list(range(len(dims)))[::-1]
    shape = [dims[p] for p in perm]
    return lazy_tensor(tensor.dtype, shape, lambda: np.transpose(tensor.numpy(), perm), tensor.name)


def _reshape(node: ir.Node, tensor: ir.TensorProtocol) -> ir.TensorProtocol | None:
    output = node.outputs[0].shape
    if output is None or not output.is_static() or tensor.dtype == ir.DataType.STRING:
        return None
    shape = [int(d) for d in output.numpy()]
    if int(np.prod(shape)) != tensor.size:
        raise ValueError(f"{location_of(node)}: {tensor.size} elements cannot take the shape {shape}")
    return lazy_tensor(tensor.dtype, shape, lambda: tensor.numpy().reshape(shape), tensor.name)


def _sliced(node: ir.Node) -> ir.TensorProtocol | None:
    """Return a Slice of a weight as a lazy tensor.

    Returns None unless only Slices read the weight, and together are not larger than it.
    """
    x, *places = node.inputs
    starts, ends, axes, steps = ([None if v is None else constant_integers(v) for v in places] + [None, None])[:4]
    content = _content_for(x, "Slice")
    if x is None or content is None or starts is None or ends is None or (steps and 0 in steps):
        return None
    sizes = [_shape_size(user.outputs[0]) for user, _ in x.uses()]
    if None in sizes or sum(s for s in sizes if s is not None) > content.size:
        return None
    index = [slice(None)] * len(dims_of(content))
    bounds = zip(axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True)
    for axis, start, end, step in bounds:
        index[axis] = slice_of(start, end, step, int(dims_of(content)[axis]))
    shape = np.broadcast_to(np.empty(()), dims_of(content))[tuple(index)].shape
    return lazy_tensor(content.dtype, shape, lambda: content.numpy()[tuple(index)], content.name)


def _joined(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the Concat of weights as a lazy tensor, if no other node reads them."""
    contents = [_content_for(v, "Concat") for v in node.inputs if v is not None and len(v.uses()) == 1]
    known = [t for t in contents if t is not None]
    if len(known) < len(node.inputs):
        return None
    axis, shape = node.attributes.get_int("axis", 0), [int(d) for d in dims_of(known[0])]
    shape[axis] = sum(int(dims_of(t)[axis]) for t in known)
    return lazy_tensor(known[0].dtype, shape, lambda: np.concatenate([t.numpy() for t in known], axis), node.name)


def _content_for(value: ir.Value | None, reader: str) -> ir.TensorProtocol | None:
    """Return the content of a constant that only operators of type `reader` read; else None."""
    if value is None or value.dtype in (None, ir.DataType.STRING) or value.is_graph_output():
        return None
    alone = all(user.op_type == reader and not user.domain for user, _ in value.uses())
    return value.const_value if alone else None


def _shape_size(value: ir.Value) -> int | None:
    dims = known_dims(value) or (None,)
    known = [d for d in dims if isinstance(d, int)]
    return math.prod(known) if len(known) == len(dims) else None


_PIECES: dict[str, Callable[[ir.Node], ir.TensorProtocol | None]] = {"Slice": _sliced, "Concat": _joined}

_VIEWS: dict[str, Callable[[ir.Node, ir.TensorProtocol], ir.TensorProtocol | None]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Flatten": _reshape,
}


class Evaluator:
    """Evaluates one node by the executor of the float64 run, which is imported on first use.

    Its kernels replace those of ONNX's own implementation that are wrong, such as ConvTranspose with groups and a bias.
    Functions that numpy computes differently on other processors are computed in long double
    (`convert.graph.long_double`), so that a model has the same bytes everywhere.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset

    def __call__(self, node: ir.Node) -> list[ir.TensorProtocol] | None:
        if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
            return None
        from convert.reference.wide_executor import evaluate_for_file

        schema_known = onnx.defs.has(node.op_type, self.opset)
        if not schema_known or any(o.shape is not None and _byte_size(o) > _LARGEST for o in node.outputs):
            return None
        proto = ir.serde.serialize_node(node)
        feeds = {str(v.name): v.const_value.numpy() for v in node.inputs if v is not None and v.const_value is not None}
        # a string may have any length, and a pattern may run for hours
        if any(array.dtype.kind in "SUO" for array in feeds.values()):
            return None
        if _steps(node, feeds) > _LONGEST:
            return None
        if not all(o.shape is not None and o.shape.is_static() for o in node.outputs) and not self._is_small(
            proto, feeds
        ):
            return None
        try:
            results = evaluate_for_file(node, self.opset)
        except Exception:  # leave what the executor cannot evaluate to the runtime
            return None
        if any(not isinstance(r, np.ndarray | np.generic) or np.asarray(r).nbytes > _LARGEST for r in results):
            return None
        arrays = [np.asarray(r) for r in results]
        if any(array.dtype == np.longdouble for array in arrays):
            return None  # the dtype that the graph declares is unknown
        tensors = [ir.tensor(array) for array in arrays]
        agree = all(o.dtype == t.dtype for o, t in zip(node.outputs, tensors, strict=True))
        return tensors if agree else None

    def _is_small(self, node: onnx.NodeProto, feeds: Mapping[str, np.ndarray]) -> bool:
        """Return whether the results are small, by ONNX's inference on the constants.

        Range and Tile can produce any size.

        A dim that inference leaves open depends on content (NonZero, Unique), and is not longer than an input.
        """
        tensors = {name: onnx.numpy_helper.from_array(array, name) for name, array in feeds.items()}
        types = {n: onnx.helper.make_tensor_type_proto(t.data_type, list(t.dims)) for n, t in tensors.items()}
        schema = onnx.defs.get_schema(node.op_type, self.opset)
        try:
            found = onnx.shape_inference.infer_node_outputs(schema, node, types, tensors)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError):
            return False
        shapes = [[d.dim_value for d in t.tensor_type.shape.dim if d.HasField("dim_value")] for t in found.values()]
        return all(0 <= math.prod(dims) <= _LARGEST for dims in shapes)


def _steps(node: ir.Node, feeds: Mapping[str, np.ndarray]) -> int:
    """Return how many steps a node may need beyond those proportional to its inputs and outputs."""
    if node.op_type == "Einsum":  # a sum over all labels, which may all differ
        return math.prod(array.size for array in feeds.values())
    listed = [a for name, a in node.attributes.items() if name in _WINDOWS]
    numbers = [a.as_ints() if a.type == ir.AttributeType.INTS else [a.as_int()] for a in listed if a.type in _INTEGERS]
    most = max((math.prod(max(1, abs(n)) for n in given) for given in numbers), default=1)
    return most**2 if node.op_type == "RoiAlign" else most  # RoiAlign takes this many samples along both axes


_INTEGERS = (ir.AttributeType.INT, ir.AttributeType.INTS)


def _byte_size(value: ir.Value) -> int:
    assert value.shape is not None
    known = [d for d in value.shape if isinstance(d, int)]
    return math.prod(known) if len(known) == len(value.shape) else 0


def _replace(graph: ir.Graph, old: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
    made = register_initializer(graph, f"{old.name}_folded", tensor)
    ir.convenience.replace_all_uses_with(old, made)
    return made
