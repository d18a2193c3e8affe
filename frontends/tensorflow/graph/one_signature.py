"""A SavedModel without what only other signatures run, such as those of on-device training that save and restore.

TensorFlow runs more than a signature when it loads a file: an initializer, functions that restore the variables, and
those that create and fill tables. These stay. Other functions of objects can be called only by a program.
"""

from __future__ import annotations

from typing import Any

from .file_access import Graph, node_name

INTERNAL = ("__saved_model_init_op", "__saved_model_train_op")
"""Keys of signatures that are no signatures: operations that initialize a model, and that train it."""


def signature_names(meta: Any) -> list[str]:
    """Return the signatures of a MetaGraphDef, in alphabetical order."""
    return sorted(name for name in meta.signature_def if name not in INTERNAL)


def default_signature(names: list[str], wanted: str) -> str:
    """Return the signature to read: the wanted one, `serving_default`, the only one, or "" if that is open."""
    return wanted or ("serving_default" if "serving_default" in names else names[0] if len(names) == 1 else "")


def serving_meta_graph(saved: Any) -> Any:
    """Return the MetaGraphDef that serves and has the fewest tags, or None in a file without any."""
    metas = list(saved.meta_graphs)
    served = [m for m in metas if "serve" in m.meta_info_def.tags] or metas
    return min(served, key=lambda m: len(m.meta_info_def.tags), default=None)


def with_one_signature(saved: Any, name: str) -> tuple[Any, list[str]]:
    """Return a copy of a SavedModel whose serving graph has one signature, and the names of its other signatures.

    Nodes and functions that only these signatures or functions of objects reach are removed. Nodes that nothing reaches
    stay, so that a check still finds them.
    """
    copy = type(saved)()
    copy.CopyFrom(saved)
    meta = serving_meta_graph(copy)
    others = [key for key in signature_names(meta) if key != name]
    whole = Graph.of_meta(meta)
    elsewhere = whole.reach(node_name(t.name) for key in others for t in meta.signature_def[key].outputs.values())
    functions = elsewhere[1] | whole.called(whole.objects)
    for key in others:
        del meta.signature_def[key]
    own = Graph.of_meta(meta)
    needed = own.reach([*own.starts, *own.saver, *(node_name(t.name) for t in _inputs(meta, name))])
    nodes = _with_readers(own, elsewhere[0] - needed[0], needed[0])
    _remove(meta.graph_def.node, lambda node: node.name in nodes)
    kept = needed[1] | own.called([*_called_by_nodes(meta), *_run_by_loading(meta.object_graph_def)])
    lost = functions - kept
    _remove(meta.graph_def.library.function, lambda function: function.signature.name in lost)
    _remove(meta.graph_def.library.gradient, lambda g: g.function_name in lost or g.gradient_func in lost)
    _forget_functions(meta.object_graph_def, lost)
    return copy, others


def _run_by_loading(objects: Any) -> list[str]:
    """Return the functions that TensorFlow calls by itself: they restore objects, or are called `_initialize` etc."""
    private = {c.node_id for node in objects.nodes for c in node.children if c.local_name.startswith("_")}
    for node in objects.nodes:
        private |= {n for s in node.saveable_objects.values() for n in (s.save_function, s.restore_function)}
    return [name for n in private if 0 <= n < len(objects.nodes) for name in _functions_of(objects.nodes[n])]


def _functions_of(node: Any) -> list[str]:
    if node.HasField("bare_concrete_function"):
        return [node.bare_concrete_function.concrete_function_name]
    return list(node.function.concrete_functions) if node.HasField("function") else []


def _forget_functions(objects: Any, lost: set[str]) -> None:
    """Remove functions from the objects; a signature that is one becomes an object without content."""
    for name in lost & set(objects.concrete_functions):
        del objects.concrete_functions[name]
    empty = set()
    for number, node in enumerate(objects.nodes):
        if node.HasField("function"):
            _remove(node.function.concrete_functions, lambda function: function in lost)
        if node.HasField("bare_concrete_function") and node.bare_concrete_function.concrete_function_name in lost:
            node.user_object.identifier = "_generic_user_object"
            node.user_object.version.producer = 1
            empty.add(number)
    for node in objects.nodes:
        if node.user_object.identifier == "signature_map":
            _remove(node.children, lambda child: child.node_id in empty)


def _inputs(meta: Any, name: str) -> list[Any]:
    return list(meta.signature_def[name].inputs.values()) if name in meta.signature_def else []


def _called_by_nodes(meta: Any) -> list[str]:
    graph = Graph.of_message(meta.graph_def)
    return [name for node in meta.graph_def.node for name in graph.callees(node)]


def _with_readers(graph: Graph, removed: set[str], needed: set[str]) -> set[str]:
    """Return `removed` and the nodes that read these, directly or not; none of `needed` does."""
    readers: dict[str, list[str]] = {}
    for node in graph.nodes.values():
        for source in map(node_name, node.input):
            readers.setdefault(source, []).append(node.name)
    found, waiting = set[str](), list(removed)
    while waiting:
        name = waiting.pop()
        if name not in found and name not in needed:
            found.add(name)
            waiting += readers.get(name, [])
    return found


def _remove(messages: Any, unwanted: Any) -> None:
    """Remove messages from a repeated field."""
    for place in reversed([i for i, message in enumerate(messages) if unwanted(message)]):
        del messages[place]
