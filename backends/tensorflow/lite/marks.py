"""Turns a quantized graph into one of real numbers, with marks where its integers are.

TensorFlow's converter fuses, folds and lays out graphs of real numbers well, but fails on quantized ones: it applies
the per-channel scales of a weight to the wrong axis, and has no transpose of 16-bit integers. So it gets real numbers.
A mark is a maximum with a constant that is below all numbers of the model. It changes no number, and the converter
moves no operator that depends on numbers across it. `kernels.py` finds the marks in the finished file, and gives the
tensors the scales of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import OPSET, Graph, location_of, register_initializer
from convert.graph.shape_inference import infer_facts
from convert.graph.tensors import dims_of, lazy_tensor
from convert.graph.values import constant, input_at, names_in_use, nodes_of
from convert.legalize.replacement import Replacement, Results
from convert.passes.tidy.clean import drop_unused
from convert.processes.arrays import save_arrays

from .steps import Steps, marking_constant

_STORED = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16)
_NARROW = (*_STORED, ir.DataType.INT4, ir.DataType.UINT4)

_MOVING = {
    **dict.fromkeys(("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"), (0,)),
    **dict.fromkeys(("MaxPool", "Reshape", "Resize", "Slice", "SpaceToDepth", "Squeeze", "Split", "Tile"), (0,)),
    **dict.fromkeys(("Transpose", "Unsqueeze", "ReduceMax", "ReduceMin"), (0,)),
    "Concat": None,
    "Pad": (0, 2),
    "Clip": (0, 1, 2),
}
"""Operators whose result consists of elements of these inputs (None: all inputs), or of numbers with their
quantization.
"""


@dataclass
class QuantizedParts:
    """The quantized parts of a graph that has been turned into real numbers.

    marks: the scale and zero point of each mark, by its number. weights: the integers of constants, with scale and zero
    point, and the axis of each. inputs, outputs: those that are integers in the model, with their dtypes. integers:
    whether integer operators have constants.
    """

    marks: list[Steps] = field(default_factory=list)
    weights: list[tuple[ir.TensorProtocol, np.ndarray, np.ndarray, int | None]] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    integers: bool = False

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the weights into `folder`; return the other fields as plain data."""
        for number, (raw, scale, zero, axis) in enumerate(self.weights):
            stored = {"raw": _integers(raw), "scale": scale, "zero": zero}
            save_arrays(folder / f"weight{number}", stored | ({} if axis is None else {"axis": np.array(axis)}))
        return {
            "marks": [asdict(mark) for mark in self.marks],
            "weights": len(self.weights),
            "inputs": self.inputs,
            "outputs": self.outputs,
            "integers": self.integers,
        }


def mark_quantized(model: ir.Model) -> QuantizedParts:
    """Replace quantized values by real numbers and marks, in place, where TensorFlow Lite supports their scales."""
    parts = QuantizedParts()
    parts.integers = any(
        node.op_type in ("ConvInteger", "MatMulInteger") and constant(node.inputs[1]) is not None
        for node in nodes_of(model.graph)
    )
    _write_by_real_numbers(model)
    for node in list(nodes_of(model.graph)):
        if node.op_type == "DequantizeLinear" and not node.domain:
            _widen_weight(node, parts)
    for group in _groups(model):
        _widen_group(model, group, parts)
    return parts


# -- constants --------------------------------------------------------------------------------------------------------


def _widen_weight(node: ir.Node, parts: QuantizedParts) -> None:
    """Replace the DequantizeLinear of a constant by the constant's real numbers, and record its integers."""
    stored, scale, zero = constant(node.inputs[0]), *_parameters(node)
    output, block = node.outputs[0], node.attributes.get_int("block_size", 0)
    if stored is None or scale is None or zero is None or block or output.dtype != ir.DataType.FLOAT:
        return
    if output.is_graph_output() or not isinstance(node.graph, ir.Graph) or scale.ndim > 1:
        return
    per_axis = scale.ndim == 1 and scale.size > 1
    axis = (node.attributes.get_int("axis", 1) or 0) % max(len(dims_of(stored)), 1) if per_axis else None
    scale, zero = (scale, zero) if per_axis else (scale.reshape(()), zero.ravel()[:1].reshape(()))

    def numbers() -> np.ndarray:
        return dequantized(_integers(stored), scale, zero, axis)

    tensor = lazy_tensor(ir.DataType.FLOAT, dims_of(stored), numbers)
    value = register_initializer(node.graph, f"{output.name}_numbers", tensor)
    ir.convenience.replace_all_uses_with(output, value)
    node.graph.remove(node, safe=True)
    if stored.dtype in _NARROW:
        parts.weights.append((stored, scale, zero, axis))


def dequantized(raw: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int | None) -> np.ndarray:
    """Return the real numbers of integers, in float32, computed as in onnxruntime."""
    shape = [-1 if i == axis else 1 for i in range(raw.ndim)] if axis is not None else []
    steps = raw.astype(np.int64) - zero.astype(np.int64).reshape(shape)
    return np.asarray(steps.astype(np.float32) * scale.astype(np.float32).reshape(shape), np.float32)


def _integers(tensor: ir.TensorProtocol) -> np.ndarray:
    array = tensor.numpy()
    return array if array.dtype.kind in "iu" and tensor.dtype in _STORED else array.astype(np.int32)


def _parameters(node: ir.Node) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return scale and zero point of a QuantizeLinear or DequantizeLinear; None if they are not constant, or not
    float32.
    """
    scale, given = constant(node.inputs[1]), input_at(node, 2)
    zero = constant(given)
    if scale is None or scale.dtype != ir.DataType.FLOAT or (given is not None and zero is None):
        return None, None
    array = scale.numpy()
    return array, np.zeros(array.shape, np.int64) if zero is None else zero.numpy().astype(np.int64)


# -- activations ------------------------------------------------------------------------------------------------------


@dataclass
class _Group:
    """Values of one quantization, joined by operators that only move elements."""

    values: list[ir.Value] = field(default_factory=list)
    steps: set[tuple[Steps, ir.DataType]] = field(default_factory=set)
    quantizing: list[ir.Node] = field(default_factory=list)
    dequantizing: list[ir.Node] = field(default_factory=list)
    moving: dict[ir.Node, None] = field(default_factory=dict)
    possible: bool = True


def _groups(model: ir.Model) -> Iterator[_Group]:
    """Yield the groups that can be replaced by real numbers and marks."""
    seen: set[ir.Value] = set()
    for node in nodes_of(model.graph):
        for value in (*node.inputs, *node.outputs):
            if value is not None and value not in seen and _is_stored(value):
                group = _collect(model, value)
                seen |= set(group.values)
                if group.possible and len(group.steps) == 1 and (group.quantizing or group.dequantizing):
                    yield group


def _is_stored(value: ir.Value) -> bool:
    return value.dtype in _STORED and constant(value) is None and not value.is_initializer()


def _collect(model: ir.Model, first: ir.Value) -> _Group:
    group, waiting = _Group(), [first]
    while waiting:
        value = waiting.pop()
        if any(value is other for other in group.values):
            continue
        group.values.append(value)
        producer = value.producer()
        if producer is None:
            group.possible &= any(value is v for v in model.graph.inputs)
        else:
            waiting += _reach(group, producer, value)
        group.possible &= not value.is_graph_output() or any(value is v for v in model.graph.outputs)
        for node, place in value.uses():
            if node.op_type == "DequantizeLinear" and not node.domain and place == 0:
                _add_steps(group, node, value)
                group.dequantizing.append(node)
            else:
                waiting += _reach(group, node, value)
    return group


def _reach(group: _Group, node: ir.Node, value: ir.Value) -> Iterable[ir.Value]:
    """Add the other values at a node to the group, if the node quantizes or moves; otherwise the group cannot be
    replaced.
    """
    if node.op_type == "QuantizeLinear" and not node.domain and value is node.outputs[0]:
        group.possible &= node.inputs[0] is not None and node.inputs[0].dtype == ir.DataType.FLOAT
        _add_steps(group, node, value)
        group.quantizing.append(node)
        return ()
    if node.op_type not in _MOVING or node.domain or any(v.dtype not in _STORED for v in node.outputs[:1]):
        group.possible = False
        return ()
    computes = node.op_type == "Resize" and _mode(node, "nearest") != "nearest"  # of integers, onnxruntime truncates
    if computes or (node.op_type == "MaxPool" and len(node.outputs) > 1):
        group.possible = False
        return ()
    group.moving[node] = None
    data = _data_inputs(node)
    if any(v.dtype != value.dtype for v in data) or (node.op_type == "Pad" and _mode(node) != "constant"):
        group.possible = group.possible and _mode(node) in ("reflect", "edge")
    return [v for v in (*data, *node.outputs) if _is_stored(v)]


def _mode(node: ir.Node, default: str = "constant") -> str:
    return node.attributes.get_string("mode", default) or default


def _data_inputs(node: ir.Node) -> list[ir.Value]:
    places = _MOVING[node.op_type]
    found = node.inputs if places is None else [input_at(node, i) for i in places]
    return [v for v in found if v is not None]


def _add_steps(group: _Group, node: ir.Node, value: ir.Value) -> None:
    scale, zero = _parameters(node)
    if scale is None or zero is None or scale.size != 1 or node.attributes.get_int("block_size"):
        group.possible = False
        return
    assert value.dtype is not None
    number, dtype = int(zero.ravel()[0]), value.dtype
    steps = Steps(float(scale.ravel()[0]), number - 128 if dtype == ir.DataType.UINT8 else number, _dtype(dtype))
    # 16-bit kernels have no zero point, and no kernel takes a scale of 0.
    group.possible &= steps.scale > 0 and (dtype != ir.DataType.INT16 or number == 0)
    group.steps.add((steps, dtype))


def _dtype(dtype: ir.DataType) -> str:
    """The dtype of TensorFlow Lite's kernels for integers of a model."""
    return "int16" if dtype == ir.DataType.INT16 else "int8"


def _widen_group(model: ir.Model, group: _Group, parts: QuantizedParts) -> None:
    ((steps, dtype),) = group.steps
    for node in group.moving:
        for given in {v for v in _data_inputs(node) if not _is_stored(v)}:
            _widen_constant(node, given, steps, dtype)
        if node.op_type == "Pad" and input_at(node, 2) is None:
            _set_pad(node, steps, dtype)
    for value in group.values:
        value.type = ir.TensorType(ir.DataType.FLOAT)
        name = str(value.name)
        if value.is_graph_output():
            parts.outputs[name] = dtype.name.lower()
        if value.is_graph_input():
            parts.inputs[name] = dtype.name.lower()
            _mark_input(model.graph, value, steps, parts)
    for node in group.quantizing:
        _become_mark(node, steps, parts)
    for node in group.dequantizing:
        marked, output = node.inputs[0], node.outputs[0]
        assert marked is not None
        assert node.graph is not None
        if output.is_graph_output():
            identity = ir.Node("", "Identity", [marked], num_outputs=1, name=node.name)
            ir.convenience.replace_nodes_and_values(
                node.graph, node, [node], [identity], [output], [_named_like(identity.outputs[0], output)]
            )
        else:
            ir.convenience.replace_all_uses_with(output, marked)
            node.graph.remove(node, safe=True)


def _named_like(value: ir.Value, other: ir.Value) -> ir.Value:
    value.name, value.type, value.shape = other.name, other.type, other.shape
    return value


def _widen_constant(node: ir.Node, value: ir.Value, steps: Steps, dtype: ir.DataType) -> None:
    tensor = constant(value)
    assert tensor is not None
    assert node.graph is not None
    number = _initializer(node, f"{value.name}_numbers", _number(tensor.numpy(), steps, dtype))
    for place, given in enumerate(node.inputs):
        if given is value:
            node.replace_input_with(place, number)


def _set_pad(node: ir.Node, steps: Steps, dtype: ir.DataType) -> None:
    """Set the pad value of quantized integers, because the integer 0 usually represents another real number."""
    node.resize_inputs(max(3, len(node.inputs)))
    node.replace_input_with(2, _initializer(node, f"{node.name}_pad", _number(np.array(0), steps, dtype)))


def _number(raw: np.ndarray, steps: Steps, dtype: ir.DataType) -> np.ndarray:
    shift = 128 if dtype == ir.DataType.UINT8 else 0
    return dequantized(raw.astype(np.int64), np.array(steps.scale, np.float32), np.array(steps.zero + shift), None)


def _initializer(node: ir.Node, name: str, array: np.ndarray) -> ir.Value:
    assert isinstance(node.graph, ir.Graph)
    return register_initializer(node.graph, name, ir.tensor(array, name=name))


def _become_mark(node: ir.Node, steps: Steps, parts: QuantizedParts) -> None:
    """Turn a QuantizeLinear into a mark, whose output stays the same value."""
    node.op_type = "Max"
    node.attributes.clear()
    node.resize_inputs(2)
    node.replace_input_with(1, _initializer(node, f"{node.name}_mark", _next_mark(steps, parts)))


def _mark_input(graph: ir.Graph, value: ir.Value, steps: Steps, parts: QuantizedParts) -> None:
    name = f"{value.name}_mark"
    constant_value = register_initializer(graph, name, ir.tensor(_next_mark(steps, parts), name=name))
    node = ir.Node("", "Max", [value, constant_value], num_outputs=1, name=name)
    marked = node.outputs[0]
    marked.name, marked.type, marked.shape = f"{value.name}_marked", value.type, value.shape
    for reader, place in tuple(value.uses()):
        if reader is not node:
            reader.replace_input_with(place, marked)
    if value.is_graph_output():
        for place, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[place] = marked
    first = next(iter(graph), None)
    if first is None:
        graph.append(node)
    else:
        graph.insert_before(first, node)


def _next_mark(steps: Steps, parts: QuantizedParts) -> np.ndarray:
    if steps not in parts.marks:
        parts.marks.append(steps)
    return np.array(marking_constant(parts.marks.index(steps)), np.float32)


# -- operators on integers --------------------------------------------------------------------------------------------


def _write_by_real_numbers(model: ir.Model) -> None:
    """Write operators on integers as operators on real numbers between DequantizeLinear and QuantizeLinear."""
    replacement = Replacement(model, names_in_use(model))
    in_turn = {"QLinearConv": _convolution, "QLinearMatMul": _product}, {"Cast": _shift}, {"QuantizeLinear": _average}
    for forms in in_turn:
        for node in list(nodes_of(model.graph)):
            if node.op_type not in forms or node.domain:
                continue
            form = partial(forms[node.op_type], node=node)
            built = replacement.build(form, model.opset_imports.get("", OPSET), location_of(node))
            if built is not None:
                replacement.place_graph(node, *built)
    if replacement.changed:
        drop_unused(model)
        infer_facts(model)


def _convolution(g: Graph, node: ir.Node) -> Results:
    """Return QLinearConv as a Conv of real numbers; None if its scales are not constant."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = [*node.inputs, None][:9]
    scales = g.static(x_scale), g.static(w_scale)
    if scales[0] is None or scales[1] is None:
        return None
    before = [g.DequantizeLinear(x, x_scale, x_zero, axis=1), g.DequantizeLinear(w, w_scale, w_zero, axis=0)]
    if bias is not None:
        product = scales[0].ravel() * scales[1].ravel()
        before.append(g.DequantizeLinear(bias, product if product.size > 1 else product.reshape(()), axis=0))
    return [g.QuantizeLinear(g.node("Conv", before, dict(node.attributes)), y_scale, y_zero)]


def _product(g: Graph, node: ir.Node) -> Results:
    """Return QLinearMatMul as a MatMul of real numbers."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    assert b is not None
    last = 1 if b.shape is None else len(b.shape) - 1
    left, right = g.DequantizeLinear(a, a_scale, a_zero, axis=-2), g.DequantizeLinear(b, b_scale, b_zero, axis=last)
    return [g.QuantizeLinear(g.MatMul(left, right), y_scale, y_zero)]


def _shift(g: Graph, node: ir.Node) -> Results:
    """Return a shift by 128 between uint8 and int8 as DequantizeLinear and QuantizeLinear of one scale; else None.

    TensorFlow Lite files with uint8 inputs and outputs are read in this form. The scale is that of a neighbour.
    """
    y = node.outputs[0]
    add = None if node.inputs[0] is None else node.inputs[0].producer()
    if y.dtype not in _SHIFTS or add is None or add.op_type != "Add" or add.domain or add.inputs[0] is None:
        return None
    cast, number = add.inputs[0].producer(), constant(add.inputs[1])
    if cast is None or cast.op_type != "Cast" or number is None or number.size != 1:
        return None
    x, shift = cast.inputs[0], int(number.numpy().ravel()[0])
    if x is None or x.dtype != _SHIFTS[y.dtype] or shift != (-128 if y.dtype == ir.DataType.INT8 else 128):
        return None
    found = _steps_nearby(y) or _steps_nearby(x)
    if found is None:
        return None
    scale, zero, dtype = np.float32(found[0]), found[1], found[2]
    behind = zero if dtype == y.dtype else zero + shift
    numbers = g.DequantizeLinear(x, scale, g.const(behind - shift, x.dtype))
    return [g.QuantizeLinear(numbers, scale, g.const(behind, y.dtype))]


_SHIFTS = {ir.DataType.INT8: ir.DataType.UINT8, ir.DataType.UINT8: ir.DataType.INT8}


def _average(g: Graph, node: ir.Node) -> Results:
    """Return a QuantizeLinear of averaged steps as one of averaged real numbers; else None.

    PyTorch averages steps, so its quantized tensors are read as numbers with a scale of 1, perhaps without the zero
    point. The averages are the same; a tie may be rounded to the other step, as TensorFlow Lite's kernels do too.
    """
    y, averaging = node.outputs[0], []
    maker = None if node.inputs[0] is None else node.inputs[0].producer()
    shift = 0
    if maker is not None and maker.op_type == "Add" and not maker.domain:
        number = g.static(maker.inputs[1])
        shift = int(number.ravel()[0]) if number is not None and number.size == 1 else 0
        maker = _producer(maker)
    while maker is not None and _averages(maker):
        averaging.append(maker)
        maker = _producer(maker)
    behind, before = _steps_of(node), _steps_of(maker)
    if not averaging or maker is None or maker.op_type != "DequantizeLinear" or before is None or behind is None:
        return None
    zero = before[1]
    steps = {_steps_of(reader) for reader, _ in y.uses()} | {_steps_of(_producer(maker))}
    (scale, of_steps), *others = [found or (1.0, zero) for found in steps]
    if others or (before[0], *behind) != (1.0, 1.0, zero - shift) or of_steps != zero or scale == 1:
        return None
    numbers, storage = np.float32(scale), g.const(zero, y.dtype)
    result = g.DequantizeLinear(maker.inputs[0], numbers, storage)
    for average in reversed(averaging):
        result = g.node(average.op_type, [result, *average.inputs[1:]], dict(average.attributes))
    return [g.QuantizeLinear(result, numbers, storage)]


def _averages(node: ir.Node) -> bool:
    """Return whether a multiple of the first input gives the same multiple of the result."""
    outside = node.op_type == "Resize" and _mode_of_places(node) == "tf_crop_and_resize"
    return node.op_type in _AVERAGING and not node.domain and len(node.outputs) == 1 and not outside


_AVERAGING = ("AveragePool", "GlobalAveragePool", "ReduceMean", "Reshape", "Resize", "Squeeze", "Transpose",
              "Unsqueeze")  # fmt: skip


def _mode_of_places(node: ir.Node) -> str | None:
    return node.attributes.get_string("coordinate_transformation_mode", "half_pixel")


def _producer(node: ir.Node) -> ir.Node | None:
    """Return the node that computes the first input."""
    return None if node.inputs[0] is None else node.inputs[0].producer()


def _steps_of(node: ir.Node | None) -> tuple[float, int] | None:
    """Return the scale and zero point of a QuantizeLinear or DequantizeLinear if they are constant numbers."""
    if node is None or node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.domain:
        return None
    scale, zero = _parameters(node)
    if scale is None or zero is None or scale.size != 1:
        return None
    return float(scale.ravel()[0]), int(zero.ravel()[0])


def _steps_nearby(value: ir.Value) -> tuple[float, int, ir.DataType] | None:
    """Return scale, zero point and dtype of the first quantization before or after a value, across operators that only
    move elements.
    """
    seen: set[ir.Value] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if current in seen or current.dtype not in _STORED:
            continue
        seen.add(current)
        producer = current.producer()
        for node in [*([] if producer is None else [producer]), *(reader for reader, _ in current.uses())]:
            if current.dtype is not None and (steps := _steps_of(node)) is not None:
                return *steps, current.dtype
            elif node.op_type in _MOVING and not node.domain:
                waiting += [v for v in (*_data_inputs(node), *node.outputs) if v.dtype == current.dtype]
    return None
