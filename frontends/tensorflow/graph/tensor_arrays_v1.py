"""Converts TensorFlow 1's TensorArrays to TensorFlow 2's lists: one list replaces a handle and a flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .function_body import FunctionBody, Node, Ref
from .protos import MESSAGES

# The list operator, its inputs (by position; "shape": the elements' shape, "lengths": none known), and the attribute
# with the dtype of an element.
_LISTS: dict[str, tuple[str, tuple[int | str, ...], str]] = {
    "TensorArrayV3": ("TensorListReserve", ("shape", 0), "dtype"),
    "TensorArrayReadV3": ("TensorListGetItem", (2, 1, "shape"), "dtype"),
    "TensorArrayWriteV3": ("TensorListSetItem", (3, 1, 2), "T"),
    "TensorArrayGatherV3": ("TensorListGather", (2, 1, "shape"), "dtype"),
    "TensorArrayScatterV3": ("TensorListScatterIntoExistingList", (3, 2, 1), "T"),
    "TensorArraySplitV3": ("TensorListSplit", (1, "shape", 2), "T"),
    "TensorArraySizeV3": ("TensorListLength", (1,), ""),
    "TensorArrayConcatV3": ("TensorListConcatV2", (1, "shape", "lengths"), "dtype"),
}
OPERATORS = (*_LISTS, "TensorArrayCloseV3")
"""The operators that `arrays_to_lists` removes."""

_INT32, _INT64 = 3, 9


def arrays_to_lists(body: FunctionBody) -> FunctionBody:
    """Return `body` with lists in place of arrays; itself if there are none.

    If one of them grows, all are treated as growing: a write after the end of another is an error in TensorFlow.
    """
    arrays = {n.name for n in body.nodes.values() if n.op in _LISTS}
    if not arrays:
        return body
    nodes: dict[str, Node] = {}
    grows = any(n.op == "TensorArrayV3" and "dynamic_size" in n.attr and n.attr["dynamic_size"].b
                for n in body.nodes.values())  # fmt: skip
    for node in body.nodes.values():
        if node.op in _LISTS:
            _rewrite_node(nodes, node, body.nodes, grows)
        elif node.op != "TensorArrayCloseV3":
            nodes[node.name] = node

    def list_ref(ref: Ref) -> Ref:
        """Return the list for a reference. A list has one output; only the lengths of a concatenation are a second."""
        if ref.node not in arrays:
            return ref
        second = body.nodes[ref.node].op == "TensorArrayConcatV3" and (ref.index == 1 or ref.output == "lengths")
        return Ref(ref.node, "", int(second))

    def is_kept(control: str) -> bool:
        return control in nodes

    nodes = {
        name: replace(n, inputs=[list_ref(r) for r in n.inputs], controls=[*filter(is_kept, n.controls)])
        for name, n in nodes.items()
    }
    return FunctionBody(body.name, nodes, body.arguments, [list_ref(r) for r in body.results], body.effects)


def _rewrite_node(nodes: dict[str, Node], node: Node, before: Mapping[str, Node], grows: bool) -> None:
    operator, places, dtype = _LISTS[node.op]
    attr = {"element_dtype": node.attr[dtype]} if dtype in node.attr else {}
    if grows and operator == "TensorListSetItem":
        attr["resize_if_index_out_of_bounds"] = MESSAGES["AttrValue"]()
        attr["resize_if_index_out_of_bounds"].b = True
    if (
        node.op == "TensorArrayScatterV3"
        and _is_new_array(node.inputs[3], before)
        and _counts_up(node.inputs[1], before)
    ):
        operator, places = "TensorListFromTensor", (2, "shape")
    if node.op == "TensorArrayGatherV3" and _is_gather_of_all(node, before):
        operator, places = "TensorListStack", (2, "shape")
    inputs = []
    for place in places:
        if isinstance(place, int):
            inputs.append(node.inputs[place])
            continue
        content = [] if place == "lengths" else _element_dims(node)
        name = f"{node.name}/{place}"
        nodes[name] = Node(name, "Const", [], [], _const_attributes(content, _INT64 if place == "lengths" else _INT32))
        inputs.append(Ref(name))
    nodes[node.name] = Node(node.name, operator, inputs, node.controls, attr)


def _element_dims(node: Node) -> list[int] | None:
    """Return the declared dims of an element, None for an unknown rank."""
    value = node.attr["element_shape"] if "element_shape" in node.attr else None  # noqa: SIM401 (protobuf)
    if value is None or value.shape.unknown_rank:
        return None
    return [d.size for d in value.shape.dim]


def _const_attributes(content: list[int] | None, dtype: int) -> dict[str, Any]:
    """Return the attributes of a Const: a vector, or the scalar -1 for None."""
    value, kind = MESSAGES["AttrValue"](), MESSAGES["AttrValue"]()
    kind.type = value.tensor.dtype = dtype
    if content is not None:
        value.tensor.tensor_shape.dim.add().size = len(content)
    field = value.tensor.int_val if dtype == _INT32 else value.tensor.int64_val
    field.extend([-1] if content is None else content)
    return {"value": value, "dtype": kind}


def _is_new_array(flow: Ref, nodes: Mapping[str, Node]) -> bool:
    return flow.node in nodes and nodes[flow.node].op == "TensorArrayV3"


def _counts_up(indices: Ref, nodes: Mapping[str, Node]) -> bool:
    """Return whether indices are 0, 1, 2 …; an array filled with them equals the tensor."""
    node = nodes.get(indices.node)
    if node is None or node.op != "Range":
        return False
    ends = [nodes.get(node.inputs[k].node) for k in (0, 2)]
    return [_scalar_content(e) for e in ends] == [0, 1]


def _is_gather_of_all(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Return whether a gather takes all elements in order, as `stack` does."""
    if not _counts_up(node.inputs[1], nodes):
        return False
    size = nodes.get(nodes[node.inputs[1].node].inputs[1].node)
    return size is not None and size.op == "TensorArraySizeV3" and size.inputs[1] == node.inputs[2]


def _scalar_content(node: Node | None) -> int | None:
    if node is None or node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    if len(tensor.tensor_shape.dim) or tensor.dtype != _INT32:
        return None
    if tensor.tensor_content:
        return int.from_bytes(tensor.tensor_content, "little", signed=True)
    return tensor.int_val[0] if tensor.int_val else 0
