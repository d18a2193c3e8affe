"""The builder over onnx_ir that rules write to: `g.Conv(x, w, strides=[2, 2])`, constants, facts and subgraphs.

A value is an `onnx_ir.Value`. Its facts are its dtype, its shape with named dims, and the content of a constant. ONNX's
inference for the node sets them when the value is created; a caller that knows more sets them by `g.facts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from convert import limits
from convert.errors import Location, ResourceLimit, UnknownRank
from convert.graph.metadata import EXACT_KEY, MODULE_KEY, OPERATOR_KEY, SOURCE_KEY
from convert.graph.node_inference import infer
from convert.graph.tensors import dims_of, tensor_of
from convert.graph.values import Dim, known_dims
from convert.rules.dim_lists import refuse_dims

OPSET = 23
"""The canonical opset of the shared graph: LayerNormalization, Gelu, Attention … are one node each."""

Operand: TypeAlias = (
    "ir.Value | np.ndarray | np.generic | bool | int | float | str | Sequence[int] | Sequence[float] | None"
)

# Equal constants of at most this many bytes share one initializer.
_SMALL = 4096


class Graph:
    """An ONNX graph under construction, or a subgraph of one (`parent` is then the enclosing graph).

    Every ONNX operator is a method. Numbers and arrays among its inputs become constants.

    >>> g = Graph()
    >>> x = g.input("x", ir.DataType.FLOAT, ("batch", 3))
    >>> y = g.LeakyRelu(g.Add(x, 1.0), alpha=0.2)
    >>> g.output(y, "y")
    >>> str(y.shape), [node.op_type for node in g.model().graph]
    ('[batch,3]', ['Add', 'LeakyRelu'])
    """

    def __init__(self, name: str = "main", *, parent: Graph | None = None, opset: int = OPSET) -> None:
        self.parent = parent
        self.opset: int = parent.opset if parent else opset
        self.location: Location = parent.location if parent else Location()
        self.graph = ir.Graph([], [], nodes=[], opset_imports={"": self.opset}, name=name)
        self._root: Graph = parent._root if parent else self
        self._names: dict[str, int] = parent._root._names if parent else {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes, bytes], ir.Value] = {}
        self._functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        self._nodes_here = 0
        """Nodes that were created for the current location, in all subgraphs; counted by the outermost graph."""

    # -- values ---------------------------------------------------------------------------------------------------

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[Dim] | None) -> ir.Value:
        """Add a graph input and return it.

        `shape` holds ints, names of dynamic dims, and None for unknown dims; `shape=None` means that the rank is
        unknown.
        """
        value = ir.Value(name=self.unique(name), type=ir.TensorType(dtype), shape=_shape(shape))
        self.graph.inputs.append(value)
        return value

    def output(self, value: ir.Value, name: str | None = None) -> None:
        """Make `value` the next graph output, named exactly `name`.

        An Identity is added if the value already has another name.
        """
        taken = (
            value.is_graph_input() or value.is_initializer() or value.is_graph_output() or value.graph is not self.graph
        )
        if taken or (name is not None and value.name != name and name in self._root._names):
            value = self.Identity(value)
        if name is not None:
            value.name = name
            self._root._names.setdefault(name, 0)
        self.graph.outputs.append(value)

    def const(self, content: Any, dtype: ir.DataType | None = None, name: str | None = None) -> ir.Value:
        """Return a constant made from a number, a nested list, a numpy array or an `onnx_ir` tensor.

        Python floats become float32 and ints int64 unless `dtype` says otherwise. Equal small constants are shared.
        """
        tensor = tensor_of(content, dtype)
        key = None
        if name is None and tensor.nbytes <= _SMALL and tensor.dtype != ir.DataType.STRING:
            exact = tensor.meta.get(EXACT_KEY)
            key = (tensor.dtype.name, dims_of(tensor), tensor.tobytes(), b"" if exact is None else exact.tobytes())
            if key in self._root._constants:
                return self._root._constants[key]
        value = self.initializer(name or "const", tensor)
        if key is not None:
            self._root._constants[key] = value
        return value

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """Add a weight of the model and return it.

        `tensor` may be lazy. The initializer belongs to the outermost graph, even if a subgraph adds it.
        """
        name = self.unique(name)
        return register_initializer(self._root.graph, name, tensor)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        if not operator[:1].isupper():
            raise AttributeError(operator)

        def add(*inputs: Operand, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
            return self.node(operator, inputs, attributes, outputs=outputs, domain=domain)

        return add

    def node(
        self,
        operator: str,
        inputs: Sequence[Operand],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
        domain: str = "",
    ) -> Any:
        """Append a node and return its output, or the list of its outputs if `outputs` is not 1.

        Numbers and arrays among `inputs` become constants (Python numbers take the dtype that the operator's schema
        asks for). Attributes that are None are left out. A `Graph` as an attribute is a subgraph. Raises
        `ResourceLimit` if `outputs` exceeds `limits.NODE_OUTPUTS`, if an input has 2^63 elements, or if this is one
        node more than `limits.OPERATOR_NODES` at the current location.
        """
        check_output_count(outputs, self.location)
        self._count_node()
        if operator.startswith(("Reduce", "Squeeze")) and len(inputs) > 1 and _is_trap(inputs[0], inputs[1]):
            raise ValueError(f"{operator} with no axes takes all of them: see convert.graph.reductions")
        schema = _schema(operator, domain, self.opset)
        values = self._operands(schema, inputs)
        while values and values[-1] is None:
            values.pop()
        _check_element_counts(operator, values, self.location)
        attrs = [_attribute(k, v) for k, v in (attributes or {}).items() if v is not None]
        node = ir.Node(domain, operator, values, attrs, num_outputs=outputs)
        at = self.location
        node.name = self.unique(at.node or operator)
        for key, text in ((OPERATOR_KEY, at.operator), (MODULE_KEY, at.module), (SOURCE_KEY, at.source)):
            if text:
                node.metadata_props[key] = text
        for output in node.outputs:
            output.name = self.unique(at.node or operator)
        self.graph.append(node)
        if domain and domain not in self._root.graph.opset_imports:
            self._root.graph.opset_imports[domain] = 1
        if schema is not None:
            infer(node, schema)
        return node.outputs[0] if outputs == 1 else list(node.outputs)

    @contextmanager
    def at(self, location: Location) -> Iterator[None]:
        """Context manager: nodes created inside the block record `location` as their origin, and are counted anew."""
        root = self._root
        before, count = self.location, root._nodes_here
        self.location, root._nodes_here = location, 0
        try:
            yield
        finally:
            self.location, root._nodes_here = before, count

    def body(self, name: str = "body") -> Graph:
        """Return a new subgraph for If, Loop or Scan.

        It may use this graph's values; its constants go to the outermost graph.
        """
        return Graph(name, parent=self)

    # -- facts ----------------------------------------------------------------------------------------------------

    def facts(self, value: ir.Value, dtype: ir.DataType | None = None, shape: Sequence[Dim] | None = None) -> ir.Value:
        """Set the dtype and the shape of `value`, replacing what inference found, and return `value`."""
        if dtype is not None:
            value.type = ir.TensorType(dtype)
        if shape is not None:
            value.shape = _shape(shape)
        return value

    def shape(self, value: ir.Value) -> tuple[Dim, ...]:
        """Return the dims as ints, names or None. Raises `UnknownRank`, a ValueError, if the rank is unknown."""
        found = known_dims(value)
        if found is None:
            raise UnknownRank(str(value.name))
        return found

    def rank(self, value: ir.Value) -> int:
        """Return the number of dims. Raises `UnknownRank` if it is unknown."""
        return len(self.shape(value))

    def dtype(self, value: ir.Value) -> ir.DataType:
        """Return the element type. Raises ValueError if it is unknown."""
        if value.dtype is None:
            raise ValueError(f"the dtype of {value.name} is unknown")
        return value.dtype

    def static(self, value: ir.Value | None) -> np.ndarray | None:
        """Return the content of a constant, or None for any other value."""
        if value is None or value.const_value is None:
            return None
        return value.const_value.numpy()

    def dims(self, value: ir.Value) -> ir.Value:
        """Return the shape of `value` as an int64 tensor: a constant if the shape is static, otherwise a Shape node."""
        if value.shape is not None and value.shape.is_static():
            return self.const(np.array(value.shape.numpy(), dtype=np.int64))
        return self.Shape(value)

    # -- names, and the finished model --------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """Return `name`, or the first of `name_1`, `name_2`, … that is not taken."""
        names = self._root._names
        if name not in names:
            names[name] = 0
            return name
        while True:
            names[name] += 1
            candidate = f"{name}_{names[name]}"
            if candidate not in names:
                names[candidate] = 0
                return candidate

    def reserve(self, names: dict[str, int]) -> None:
        """Share `names`, the names in use in the model that this graph's nodes will be moved to."""
        self._root._names = self._names = names

    def discard(self) -> None:
        """Detach the nodes of a graph that stays apart, so that values of other graphs do not count them as users.

        A value with a user outside of its graph counts as captured by a subgraph: the layout pass keeps it in two
        layouts, with a transpose between them.
        """
        for node in self.graph.all_nodes():
            for place in range(len(node.inputs)):
                node.replace_input_with(place, None)

    def model(self, producer: str = "convert") -> ir.Model:
        """Return the finished model. Do not use the builder afterwards."""
        return ir.Model(self.graph, ir_version=10, producer_name=producer, functions=list(self._functions.values()))

    def _count_node(self) -> None:
        """Raise `ResourceLimit` if the operator at this location became too many nodes.

        Some rules create nodes for each element of a window or each step of a loop. A number in a file says how many.
        """
        if not self.location.operator:
            return  # nodes that no operator of the source asked for
        self._root._nodes_here += 1
        if self._root._nodes_here > limits.OPERATOR_NODES:
            text = f"{self.location}: one operator becomes more than {limits.OPERATOR_NODES:,} nodes"
            raise ResourceLimit(text, hint="a program can set convert.limits.OPERATOR_NODES")

    def _operands(self, schema: onnx.defs.OpSchema | None, inputs: Sequence[Operand]) -> list[ir.Value | None]:
        formals = _type_variables(schema, len(inputs))
        known: dict[str, ir.DataType] = {}
        for formal, operand in zip(formals, inputs, strict=True):
            if isinstance(operand, ir.Value) and operand.dtype is not None:
                known.setdefault(formal, operand.dtype)
        values: list[ir.Value | None] = []
        for formal, operand in zip(formals, inputs, strict=True):
            if operand is None or isinstance(operand, ir.Value):
                values.append(operand)
            elif isinstance(operand, (np.ndarray, np.generic)):
                values.append(self.const(operand))
            else:
                values.append(self.const(operand, known.get(formal)))
        return values


def check_output_count(count: int, at: Location) -> None:
    """Raise `ResourceLimit` if one node has more than `limits.NODE_OUTPUTS` outputs.

    A single number in a file can ask for any number of outputs.
    """
    if count > limits.NODE_OUTPUTS:
        text = f"{at}: {count:,} outputs of one operator are more than the {limits.NODE_OUTPUTS:,} that are taken"
        raise ResourceLimit(text, hint="a program can set convert.limits.NODE_OUTPUTS")


_SHAPES = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Tile": 1}
"""Index of the input that holds the sizes of the result, by operator; Tile's are factors of the sizes of its input."""


def _check_element_counts(operator: str, inputs: Sequence[ir.Value | None], at: Location) -> None:
    """Raise `ResourceLimit` if known sizes of an input, or of the result, have a product that needs more than 64 bits.

    ONNX's inference multiplies them without a check, and takes 2^64 elements for none.
    """
    shapes: list[Sequence[object]] = [
        value.shape.dims for value in inputs if value is not None and value.shape is not None
    ]
    place = _SHAPES.get(operator, len(inputs))
    target = inputs[place] if place < len(inputs) else None
    content = None if target is None else target.const_value
    if content is not None and content.size <= limits.TENSOR_DIMS and content.dtype == ir.DataType.INT64:
        shapes.append([*map(int, content.numpy().ravel()), *(shapes[0] if operator == "Tile" and shapes else ())])
    for shape in shapes:
        sizes = [dim for dim in shape if isinstance(dim, int) and dim >= 0]
        if (count := math.prod(sizes)) >= 1 << 63:
            text = f"{at}: {count:.0e} elements are more than any tensor has; its sizes are {sizes}"
            raise ResourceLimit(text, hint="check the sizes in the file")


def register_initializer(graph: ir.Graph, name: str, tensor: ir.TensorProtocol) -> ir.Value:
    """Add an initializer to a graph, finished or not, named `name` or the first free `name_1`, `name_2`, ….

    Returns it.
    """
    unique, n = name, 0
    while unique in graph.initializers:
        n += 1
        unique = f"{name}_{n}"
    shape = ir.Shape(dims_of(tensor))
    value = ir.Value(name=unique, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
    graph.register_initializer(value)
    return value


def location_of(node: ir.Node) -> Location:
    """Return where a node of the shared graph came from, for error messages."""
    props = node.metadata_props
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return Location(operator, node.name or "", props.get(MODULE_KEY, ""), props.get(SOURCE_KEY, ""))


def _shape(shape: Sequence[Dim] | None) -> ir.Shape | None:
    if shape is not None and len(shape) > limits.TENSOR_DIMS:
        refuse_dims(f"the {len(shape):,} dims of a tensor")
    return None if shape is None else ir.Shape(shape)


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, Graph):
        return ir.AttrGraph(name, value.graph)
    if isinstance(value, ir.DataType):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, (bool, np.bool_, np.integer)):
        value = int(value)
    elif isinstance(value, np.floating):
        value = float(value)
    elif isinstance(value, np.ndarray):
        return ir.AttrTensor(name, ir.Tensor(value))
    elif isinstance(value, (list, tuple)):
        if not value:
            return ir.AttrInt64s(name, [])
        value = [v.item() if isinstance(v, np.generic) else v for v in value]
    return ir.convenience.convert_attribute(name, value)


def _is_trap(x: Operand, axes: Operand) -> bool:
    """Return whether `axes` is an empty list and `x` has dims: ONNX then reduces over all of them."""
    empty = isinstance(axes, (Sequence, np.ndarray)) and len(axes) == 0
    return empty and not (isinstance(x, ir.Value) and x.shape is not None and len(x.shape) == 0)


def _schema(operator: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    if domain not in ("", "ai.onnx"):
        return None
    return onnx.defs.get_schema(operator, opset, domain)


def _type_variables(schema: onnx.defs.OpSchema | None, count: int) -> list[str]:
    """Return the type variable of each input; a Python number gets the dtype of the other tensors with the same
    variable.
    """
    if schema is None:
        return [f"?{i}" for i in range(count)]
    names = [i.type_str for i in schema.inputs]
    homogeneous = bool(schema.inputs) and schema.inputs[-1].is_homogeneous
    while len(names) < count:
        names.append(names[-1] if names and homogeneous else f"?{len(names)}")
    return names[:count]
