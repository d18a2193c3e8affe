"""Renumbers functions in a written file; TensorFlow numbers them consecutively per process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2, node_def_pb2

_NUMBERED = re.compile(r"(.*_)(\d+)")
_REDUNDANT = re.compile(r"(?<=_)\d+(?=___redundant_placeholder\d+$)")
"""The number of a loop function in names of arguments that only the loop's other function uses."""
_GIVEN_NAME = "_user_specified_name"


def stable_names(library: function_pb2.FunctionDefLibrary) -> dict[str, str]:
    """Return new names for the functions of `library` that do not depend on what the process wrote before.

    The numbers at the end of the names are reassigned in the same order.
    """
    parts = {f.signature.name: _NUMBERED.fullmatch(f.signature.name) for f in library.function}
    numbers = sorted({int(match[2]) for match in parts.values() if match})
    rank = {number: i for i, number in enumerate(numbers)}
    return {name: f"{match[1]}{rank[int(match[2])]}" if match else name for name, match in parts.items()}


def rename_functions(definition: graph_pb2.GraphDef, names: Mapping[str, str]) -> None:
    """Rename the functions of `definition` by `names`, also where they are called, and sort them."""
    for node in _nodes(definition):
        _rename_in_node(node, names)
    library = definition.library
    for function in library.function:
        _forget_numbers(function)
        function.signature.name = names.get(function.signature.name, function.signature.name)
        for value in function.attr.values():
            _rename_in_attribute(value, names)
    for gradient in library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)
    ordered = function_pb2.FunctionDefLibrary(
        function=sorted(library.function, key=lambda f: f.signature.name),
        gradient=sorted(library.gradient, key=lambda g: g.function_name),
        registered_gradients=library.registered_gradients,
    )
    library.CopyFrom(ordered)


def _forget_numbers(function: function_pb2.FunctionDef) -> None:
    """Remove numbers of this process from the argument names of a function."""
    for given in function.arg_attr.values():
        if _GIVEN_NAME in given.attr and given.attr[_GIVEN_NAME].s.isdigit():
            del given.attr[_GIVEN_NAME]
    new = {a.name: _REDUNDANT.sub("", a.name) for a in function.signature.input_arg}
    if all(name == other for name, other in new.items()) or len(set(new.values())) < len(new):
        return
    for argument in function.signature.input_arg:
        argument.name = new[argument.name]
    for node in function.node_def:
        node.input[:] = [new.get(name, name) for name in node.input]


def _nodes(definition: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def _rename_in_node(node: node_def_pb2.NodeDef, names: Mapping[str, str]) -> None:
    node.op = names.get(node.op, node.op)
    for value in node.attr.values():
        _rename_in_attribute(value, names)


def _rename_in_attribute(value: attr_value_pb2.AttrValue, names: Mapping[str, str]) -> None:
    called: Iterable[attr_value_pb2.NameAttrList] = ()
    if value.HasField("func"):
        called = [value.func]
    elif value.HasField("list"):
        called = value.list.func
    for function in called:
        function.name = names.get(function.name, function.name)
        for inner in function.attr.values():
            _rename_in_attribute(inner, names)
