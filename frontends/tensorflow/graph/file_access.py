"""Save, Restore and tables from files: what runs them, and on which files.

Loading a model restores its variables with operators of the file itself, which are fed the checkpoint's name. Nothing
else may reach such an operator, and loading may not reach one that writes. A table may be filled from a file among the
model's own assets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .attributes import named_functions

_WRITING = ("Save", "SaveV2", "SaveSlices", "MergeV2Checkpoints")
_ASSIGNMENTS = ("AssignVariableOp", "Assign")
_PLAIN_USES = (*_ASSIGNMENTS, "ReadVariableOp", "VarIsInitializedOp", "IsVariableInitialized", "Identity")
_MAIN_OPS = ("saved_model_main_op", "legacy_init_op", "main_op")
"""The collections with the operations that run when a SavedModel is loaded."""
_IMPLEMENTS = "api_implements"
"""The attribute of functions that TensorFlow's optimizer may substitute for each other."""
_DEEPEST = 50


def node_name(tensor: str) -> str:
    """Return the node that makes a tensor, or that a control edge waits for."""
    return tensor.removeprefix("^").partition(":")[0]


@dataclass(frozen=True)
class Graph:
    """A graph with its functions, as messages, and the parts that run when it is loaded.

    starts: nodes that loading or a signature runs. saver: the nodes of the file name, of restoring and of saving.
    objects: functions that objects of a SavedModel hold, each with the trailing arguments that are assets. assets:
    nodes that are fed paths of the model's own files.
    """

    nodes: dict[str, Any]
    functions: dict[str, Any]
    gradients: dict[str, list[str]] = field(default_factory=dict)
    starts: tuple[str, ...] = ()
    saver: tuple[str, str, str] = ("", "", "")
    objects: dict[str, list[bool]] = field(default_factory=dict)
    assets: frozenset[str] = frozenset()

    @classmethod
    def of_message(cls, graph: Any) -> Graph:
        """Return the graph of a GraphDef."""
        gradients = defaultdict(list)
        for gradient in graph.library.gradient:
            gradients[gradient.function_name].append(gradient.gradient_func)
        functions = {f.signature.name: f for f in graph.library.function}
        return cls({n.name: n for n in graph.node}, functions, dict(gradients))

    @classmethod
    def of_meta(cls, meta: Any) -> Graph:
        """Return the graph of a MetaGraphDef."""
        plain = cls.of_message(meta.graph_def)
        outputs = [t.name for s in meta.signature_def.values() for t in s.outputs.values()]
        mains = [name for key in _MAIN_OPS if key in meta.collection_def
                 for name in meta.collection_def[key].node_list.value]  # fmt: skip
        saver = meta.saver_def
        names = (saver.filename_tensor_name, saver.restore_op_name, saver.save_tensor_name)
        kinds = [n.WhichOneof("kind") for n in meta.object_graph_def.nodes]
        objects = {
            name: [n < len(kinds) and kinds[n] == "asset" for n in function.bound_inputs]
            for name, function in meta.object_graph_def.concrete_functions.items()
        }
        inside = all(_is_inside(asset.filename) for asset in meta.asset_file_def)
        assets = [node_name(a.tensor_info.name) for a in meta.asset_file_def] if inside else []
        return cls(
            plain.nodes, plain.functions, plain.gradients, tuple(map(node_name, [*outputs, *mains])),
            (node_name(names[0]), node_name(names[1]), node_name(names[2])),
            objects if inside else {name: [False] * len(given) for name, given in objects.items()}, frozenset(assets),
        )  # fmt: skip

    def all_nodes(self) -> Iterator[tuple[str, Any]]:
        """Yield every node of the graph and of its functions, with the function's name ("" for the graph)."""
        yield from (("", node) for node in self.nodes.values())
        yield from ((name, node) for name, function in self.functions.items() for node in function.node_def)

    def reach(self, names: Iterable[str]) -> tuple[set[str], set[str]]:
        """Return the nodes that `names` need or wait for, and the functions that they call, directly or not."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in self.nodes and name not in found:
                found.add(name)
                waiting += map(node_name, self.nodes[name].input)
        return found, self.called(f for name in found for f in self.callees(self.nodes[name]))

    def called(self, names: Iterable[str]) -> set[str]:
        """Return the functions `names` and all that they call."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in self.functions and name not in found:
                found.add(name)
                waiting += self.gradients.get(name, [])
                waiting += [f for node in self.functions[name].node_def for f in self.callees(node)]
        return found

    def callees(self, node: Any) -> Iterator[str]:
        """Yield the functions that a node names."""
        yield node.op
        yield from named_functions(node)

    @cached_property
    def callers(self) -> dict[str, list[tuple[str, Any]]]:
        """Return the nodes that name each function, with the functions that contain them."""
        found = defaultdict(list)
        for scope, node in self.all_nodes():
            for name in set(self.callees(node)) & set(self.functions):
                found[name].append((scope, node))
        return dict(found)


def _is_inside(filename: str) -> bool:
    parts = filename.replace("\\", "/").split("/")
    return bool(filename) and ".." not in parts and parts[0] != "" and ":" not in parts[0]


def file_problems(
    graph: Graph, roots: Iterable[str], saver: Collection[str], tables: Collection[str]
) -> Iterator[tuple[str, Any, str]]:
    """Yield each forbidden operator of `saver` and `tables`: its function, its node, and the reason.

    roots: nodes that are run in addition to those that the graph names.
    """
    if not any(node.op in saver or node.op in tables for _, node in graph.all_nodes()):
        return
    run, functions = graph.reach((*graph.starts, *roots))
    functions |= graph.called(graph.objects)
    restoring = graph.reach([graph.saver[1]])
    saving = graph.reach([graph.saver[2]])
    for scope, node in graph.all_nodes():
        is_run = scope in functions if scope else node.name in run
        restores = scope in restoring[1] if scope else node.name in restoring[0]
        if node.op in saver:
            if is_run:
                yield scope, node, "touches files, and not only when the variables are restored"
            elif restores and node.op in _WRITING:
                yield scope, node, "writes files when the variables are restored"
            elif restores and not _is_checkpoint(graph, scope, node):
                yield scope, node, "restores from another file than the checkpoint"
            elif scope and not (restores or scope in saving[1]):
                yield scope, node, "touches files in a function that no saver calls"
            elif scope and _IMPLEMENTS in graph.functions[scope].attr:
                yield scope, node, "touches files in a function that may stand for another"
        elif node.op in tables and (is_run or restores or scope) and not _is_asset_table(graph, scope, node):
            yield scope, node, "reads a file that is not among the model's assets"


def _is_checkpoint(graph: Graph, scope: str, node: Any) -> bool:
    """Return whether a Restore takes the file name that it is fed."""
    return _comes_from(graph, scope, node.input[0] if node.input else "", frozenset({graph.saver[0]}), assets=False)


def _is_asset_table(graph: Graph, scope: str, node: Any) -> bool:
    return len(node.input) > 1 and _comes_from(graph, scope, node.input[1], graph.assets, assets=True)


def _comes_from(
    graph: Graph, scope: str, tensor: str, sources: Collection[str], *, assets: bool, depth: int = 0
) -> bool:
    """Return whether a tensor can only be a value that is fed to one of the graph's nodes `sources`."""
    name = node_name(tensor)
    if depth > _DEEPEST or not name:
        return False
    if not scope:
        node = graph.nodes.get(name)
        if name in sources:
            return node is not None and node.op in ("Placeholder", "PlaceholderWithDefault", "Const")
        if node is not None and assets and node.op == "ReadVariableOp":
            return _holds_asset(graph, node, sources)
    else:
        function = graph.functions[scope]
        arguments = [a.name for a in function.signature.input_arg]
        if name in arguments:
            return _is_given(graph, scope, arguments.index(name), len(arguments), sources, assets, depth)
        node = next((n for n in function.node_def if n.name == name), None)
    if node is None or node.op != "Identity" or not node.input:
        return False
    return _comes_from(graph, scope, node.input[0], sources, assets=assets, depth=depth + 1)


def _is_given(
    graph: Graph, function: str, place: int, count: int, sources: Collection[str], assets: bool, depth: int
) -> bool:
    """Return whether every caller of a function passes one of `sources` at a position."""
    callers = graph.callers.get(function, [])
    for scope, node in callers:
        data = [i for i in node.input if not i.startswith("^")]
        plain = node.op in ("PartitionedCall", "StatefulPartitionedCall") and len(data) == count
        if not plain or not _comes_from(graph, scope, data[place], sources, assets=assets, depth=depth + 1):
            return False
    if function in graph.objects:
        bound = graph.objects[function]
        own = place - (count - len(bound))
        return assets and 0 <= own < len(bound) and bound[own]
    return bool(callers)


def _holds_asset(graph: Graph, reading: Any, assets: Collection[str]) -> bool:
    """Return whether a read variable holds the path of an asset, which the same run assigns before."""
    variable = graph.nodes.get(node_name(reading.input[0])) if reading.input else None
    if variable is None or variable.op != "VarHandleOp":
        return False
    shared = _shared_name(variable)
    if sum(n.op == "VarHandleOp" and _shared_name(n) == shared for _, n in graph.all_nodes()) != 1:
        return False
    saver = graph.reach(graph.saver[1:])[0]
    uses = [n for n in graph.nodes.values() if variable.name in map(node_name, n.input) and n.name not in saver]
    assigned = [n for n in uses if n.op in _ASSIGNMENTS]
    waits = {node_name(i) for i in reading.input if i.startswith("^")}
    given = all(len(n.input) > 1 and _comes_from(graph, "", n.input[1], assets, assets=False) for n in assigned)
    return given and any(n.name in waits for n in assigned) and all(n.op in _PLAIN_USES for n in uses)


def _shared_name(variable: Any) -> str:
    given = variable.attr["shared_name"].s.decode("utf-8", "replace") if "shared_name" in variable.attr else ""
    return given or variable.name
