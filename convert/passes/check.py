"""Checks the graph after each pass (`--check-passes`), and names the pass that broke it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph import location_of
from convert.graph.node_inference import infer, takes_part
from convert.graph.shape_inference import subgraphs
from convert.graph.tensors import dims_of, dtype_name
from convert.graph.values import Dim, known_dims

_HINT = "this is a defect of the pass; --dump-passes DIR writes the graph before and after it"


@dataclass(frozen=True)
class _Defect:
    """One defect. Passes rename nodes, so that `place` does not tell an old defect from a new one."""

    reason: str
    place: str = ""


class PassCheck:
    """Checks a model between its passes: links between nodes, ONNX's checker, dtypes and shapes.

    Defects that the model has before the first pass are ignored.

    >>> from convert.graph import Graph
    >>> g = Graph()
    >>> g.output(g.Abs(g.input("x", ir.DataType.FLOAT, ("batch", 3))), "y")
    >>> model = g.model()
    >>> check = PassCheck(model)
    >>> model.graph.outputs[0].shape = ir.Shape(["batch", 4])
    >>> try:
    ...     check.after("widen_rows")
    ... except ConvertError as error:
    ...     error.message
    'pass widen_rows broke the graph: Abs: output 0 is float32[?,3], and declared as float32[?,4]'
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self._checked: dict[int, tuple[tuple[object, ...], list[_Defect]]] = {}
        self._names = _boundary(model)
        self._known = Counter(defect.reason for defect in self._defects())

    def after(self, name: str) -> None:
        """Raise `ConvertError` if the model has defects that it did not have before the pass called `name`."""
        found, names = self._defects(), _boundary(self.model)
        if names != self._names:
            found.append(_Defect(f"inputs and outputs were {self._names}, and are {names}"))
        old = Counter(self._known)
        for defect in found:
            old[defect.reason] -= 1
            if old[defect.reason] < 0:
                raise ConvertError(f"pass {name} broke the graph: {defect.place}{defect.reason}", hint=_HINT)

    def _defects(self) -> list[_Defect]:
        """Return all defects of the model."""
        found = _broken_links(self.model.graph, set())
        opsets = self.model.graph.opset_imports
        return [*found, *(defect for node in self.model.graph.all_nodes() for defect in self._of_node(node, opsets))]

    def _of_node(self, node: ir.Node, opsets: Mapping[str, int]) -> list[_Defect]:
        """Return the defects of one node; those of an unchanged node are remembered."""
        facts = _facts(node, opsets)
        before = self._checked.get(id(node))
        if before is None or before[0] != facts:
            place = f"{location_of(node)}: "
            before = self._checked[id(node)] = facts, [_Defect(text, place) for text in _node_defects(node, opsets)]
        return before[1]


def _boundary(model: ir.Model) -> tuple[list[str], list[str]]:
    """Return the names of the inputs and outputs, which all passes keep."""
    graph = model.graph
    return [v.name or "" for v in graph.inputs if not v.is_initializer()], [v.name or "" for v in graph.outputs]


def _broken_links(graph: ir.Graph, outer: set[int]) -> list[_Defect]:
    """Return the values that are read before they exist, and constants that differ from their declaration.

    outer: ids of the values that exist in the enclosing graphs.
    """
    found: list[_Defect] = []
    existing = outer | {id(v) for v in (*graph.inputs, *graph.initializers.values())}
    for name, value in graph.initializers.items():
        if (content := value.const_value) is not None:
            found += [
                _Defect(text, f"constant {name!r}: ") for text in _differences(value, content.dtype, dims_of(content))
            ]
    for node in graph:
        absent = [v for v in node.inputs if v is not None and id(v) not in existing]
        found += [
            _Defect(f"reads a value before it is computed ({v.name!r})", f"{location_of(node)}: ") for v in absent
        ]
        for attribute in node.attributes.values():
            for inner in subgraphs(attribute):
                found += _broken_links(inner, existing)
        existing |= {id(v) for v in node.outputs}
    return [
        *found,
        *(_Defect(f"nothing computes the output {v.name!r}") for v in graph.outputs if id(v) not in existing),
    ]


def _facts(node: ir.Node, opsets: Mapping[str, int]) -> tuple[object, ...]:
    """Return what the defects of a node depend on, in a form that compares cheaply."""
    values = [
        None if v is None else (id(v), v.type, known_dims(v), _Same(v.const_value))
        for v in (*node.inputs, *node.outputs)
    ]
    return node.domain, node.op_type, opsets.get(""), *values, *map(_Same, node.attributes.values())


@dataclass(frozen=True, eq=False)
class _Same:
    """Compares an object by identity, and keeps it alive, because its id may be used again."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _node_defects(node: ir.Node, opsets: Mapping[str, int]) -> tuple[str, ...]:
    """Return what ONNX's checker and inference find wrong with a node, if the operator is ONNX's.

    Nodes of equal content are checked once in a process: each list of passes checks the whole graph before its first
    pass, and a model has many nodes of one kind.
    """
    version = opsets.get("", 0)
    if node.domain or not onnx.defs.has(node.op_type, version, ""):
        return ()
    content = _content(node, version)
    if content is None:
        return tuple(_check_node(node, version))
    defects = _outcomes.get(content)
    if defects is None:
        if len(_outcomes) >= _MOST:
            _outcomes.clear()
        defects = _outcomes[content] = tuple(_check_node(node, version))
    return defects


_outcomes: dict[tuple[object, ...], tuple[str, ...]] = {}
"""The defects of nodes by their content."""
_MOST = 20_000
"""Largest number of nodes whose defects are remembered."""
_PLAIN = {
    ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT, ir.AttributeType.FLOATS,
    ir.AttributeType.STRING, ir.AttributeType.STRINGS,
}  # fmt: skip
"""Types of attributes that compare by their content, and keep no tensor alive."""


def _content(node: ir.Node, version: int) -> tuple[object, ...] | None:
    """Return all that the defects of a node of ONNX's depend on, or None if it has tensors or graphs as attributes."""
    attributes = []
    for attribute in node.attributes.values():
        if attribute.is_ref() or attribute.type not in _PLAIN:
            return None
        value = attribute.value
        attributes.append((attribute.name, attribute.type, tuple(value) if isinstance(value, list) else value))
    inputs = [None if v is None else (v.type, known_dims(v), _inferred_from(v)) for v in node.inputs]
    outputs = [(bool(v.name), v.type, known_dims(v)) for v in node.outputs]
    return node.op_type, version, tuple(attributes), tuple(inputs), tuple(outputs)


def _inferred_from(value: ir.Value) -> tuple[object, ...] | None:
    """Return the content of a constant that inference reads, else None."""
    content = value.const_value
    if content is None or not takes_part(content):
        return None
    return content.dtype, dims_of(content), content.tobytes()


def _check_node(node: ir.Node, version: int) -> Iterator[str]:
    """Yield what ONNX's checker and inference find wrong with a node of an operator of ONNX's."""
    copy, context = _copy(node), onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = _IR_VERSION, {"": version}
    try:
        onnx.checker.check_node(ir.serde.serialize_node(copy), context)
        infer(copy, onnx.defs.get_schema(node.op_type, version, ""))
    except (onnx.checker.ValidationError, ValueError) as error:
        yield " ".join(str(error).split())
        return
    for index, (output, own) in enumerate(zip(copy.outputs, node.outputs, strict=True)):
        for text in _differences(own, output.dtype, known_dims(output)):
            yield f"output {index} {text}"


_IR_VERSION = 10
"""Any version that the checker knows will do: it checks nodes by the opset."""


def _copy(node: ir.Node) -> ir.Node:
    """Return the node outside any graph, with empty subgraphs."""
    inputs = [
        None if v is None else ir.Value(name=f"i{i}", type=v.type, shape=v.shape, const_value=v.const_value)
        for i, v in enumerate(node.inputs)
    ]
    attributes = [_without_graphs(attribute) for attribute in node.attributes.values()]
    copy = ir.Node(node.domain, node.op_type, inputs, attributes, num_outputs=len(node.outputs), name="n")
    for index, (output, own) in enumerate(zip(copy.outputs, node.outputs, strict=True)):
        output.name = f"o{index}" if own.name else ""
    return copy


def _without_graphs(attribute: ir.Attr) -> ir.Attr:
    empty = ir.Graph([], [], nodes=[], name="empty")
    if attribute.type == ir.AttributeType.GRAPH:
        return ir.AttrGraph(attribute.name, empty)
    return ir.AttrGraphs(attribute.name, [empty]) if attribute.type == ir.AttributeType.GRAPHS else attribute


def _differences(value: ir.Value, dtype: ir.DataType | None, dims: tuple[Dim, ...] | None) -> Iterator[str]:
    """Yield how a value's declaration contradicts a dtype and dims; what is unknown contradicts nothing."""
    declared = known_dims(value)
    same_dtype = dtype is None or value.dtype is None or dtype == value.dtype
    same_dims = (
        dims is None
        or declared is None
        or (
            len(dims) == len(declared)
            and all(a == b for a, b in zip(dims, declared, strict=True) if isinstance(a, int) and isinstance(b, int))
        )
    )
    if not (same_dtype and same_dims):
        yield f"is {_tensor(dtype, dims)}, and declared as {_tensor(value.dtype, declared)}"


def _tensor(dtype: ir.DataType | None, dims: tuple[Dim, ...] | None) -> str:
    """Return a dtype and a shape as text. Names of dims are left out: a pass may rename them in an old defect."""
    shape = "" if dims is None else "[" + ",".join(str(d) if isinstance(d, int) else "?" for d in dims) + "]"
    return f"{dtype_name(dtype)}{shape}"
