"""Runs a TorchScript program on symbolic values: what is known is computed, the rest becomes nodes of the graph.

Nothing is inlined, frozen or changed beforehand: calls of submodules are followed, so that each operator knows its
module path, attributes are read as they are met, and only the branches that can be taken are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from convert import limits
from convert.errors import Unsupported

from ..torch_internals import (
    ScriptGraph,
    ScriptModuleDict,
    ScriptModuleObject,
    ScriptParameterDict,
    inline_calls,
    script_method,
    write_autocasts,
)
from .calls import call_operator
from .containers import CONTAINERS
from .context import Env, ProgramError, Walk, own_source
from .control import Way, run_if, run_one_of
from .loops import run_loop
from .values import UNINITIALIZED, UNKNOWN, Dict, Function, List, Number, Object, OneOf, Tensor, has_unknown

# -- graphs and blocks ------------------------------------------------------------------------------------------------


def run_method(walk: Walk, thing: Object, name: str, args: list[Any]) -> Any:
    """Call a method of a module; returns what it returns."""
    key = (id(thing.script), name)
    if key not in walk.graphs:
        # The module is kept as well: an id is only its own while it lives.
        walk.graphs[key] = (_with_autocast(script_method(thing.script, name).graph), thing.script)
    outer, walk.path = walk.path, thing.path
    try:
        return run_graph(walk, walk.graphs[key][0], [thing, *args])
    finally:
        walk.path = outer


def _with_autocast(graph: Any) -> Any:
    """A graph with the casts that PyTorch puts into it when it runs, where it has `with torch.autocast(…)`.

    They reach into what is called inside of it, so that those calls are inlined.
    """
    if not any(_is_autocast(node) for node in graph.findAllNodes("prim::Enter")):
        return graph
    graph = graph.copy()
    inline_calls(graph)
    try:
        write_autocasts(graph)
    except RuntimeError as error:  # PyTorch does not run such a program either
        raise Unsupported(
            f"`with torch.autocast(…)`: {str(error).splitlines()[0]}",
            hint="give enabled, dtype and cache_enabled as constants, and script the module again",
        ) from error
    return graph


def _is_autocast(enter: Any) -> bool:
    return ".autocast_mode." in str(enter.inputsAt(0).type().annotation_str)


def run_graph(walk: Walk, graph: Any, args: list[Any]) -> Any:
    """Run a graph on its arguments; returns its output."""
    env = {v.unique(): a for v, a in zip(graph.inputs(), args, strict=True)}
    for node in graph.nodes():
        run_node(walk, env, node)
    results = [env[v.unique()] for v in graph.outputs()]
    return results[0] if len(results) == 1 else tuple(results)


def run_block(walk: Walk, env: Env, block: Any, args: list[Any]) -> list[Any]:
    """Run a block of If or Loop inside its surroundings; returns its outputs."""
    env.update({v.unique(): a for v, a in zip(block.inputs(), args, strict=True)})
    for node in block.nodes():
        run_node(walk, env, node)
    return [env[v.unique()] for v in block.outputs()]


def run_node(walk: Walk, env: Env, node: Any) -> None:
    """Run one node; its outputs go to `env`. What has no rule is noted and gives unknown values."""
    handler, walk.node = STRUCTURE.get(node.kind()), node
    try:
        if handler is not None:
            results = handler(walk, env, node)
        else:
            args = [env[v.unique()] for v in node.inputs()]
            container = CONTAINERS.get(node.kind())
            results = NotImplemented if container is None or has_unknown(args[:1]) else container(walk, node, args)
            if results is NotImplemented:
                results = call_operator(walk, node, args)
    except Unsupported as error:
        walk.problem(error, walk.location(node))
        results = UNKNOWN
    count = node.outputsSize()
    if count == 1:
        env[node.output().unique()] = results
    elif count:
        results = (UNKNOWN,) * count if results is UNKNOWN else results
        env.update({value.unique(): result for value, result in zip(node.outputs(), results, strict=True)})


# -- nodes that shape the program -------------------------------------------------------------------------------------


def _constant(walk: Walk, env: Env, node: Any) -> Any:
    output = node.output()
    if output.type().kind() == "FunctionType":
        return Function(node)
    if output.type().kind() == "NoneType" or node.mustBeNone():
        return None
    content = output.toIValue()
    # A frozen module's weights are constants called as they were: self.conv1.weight.
    value = walk.lift_object(
        content, output.debugName().removeprefix("self.") if isinstance(content, torch.Tensor) else ""
    )
    if isinstance(value, Tensor):
        walk.trainable.add(value)
    return value


def _get_attribute(walk: Walk, env: Env, node: Any) -> Any:
    thing, name = env[node.input().unique()], node.s("name")
    if has_unknown(thing):
        return UNKNOWN
    if name == "training" and name not in thing.written:
        return False
    if name not in thing.state:
        if thing.script is None:
            raise Unsupported(f"the attribute {name} of an object before it is set")
        _fetch_attribute(walk, thing, name)
    return thing.state[name]


def _fetch_attribute(walk: Walk, thing: Object, name: str) -> None:
    """Take what a module holds under `name` into its state: once, so that who reads it twice gets the same tensor."""
    path = f"{thing.path}.{name}" if thing.path else name
    if path in walk.states:
        value = walk.states[path]
    else:
        try:
            content = thing.script.getattr(name)
        except RuntimeError as error:  # of a class of the file, for which Python would need the class
            raise Unsupported(
                f"{path} is an object of a class of the program, which PyTorch does not hand out",
                hint="keep what it holds in buffers of the module, or make the object in forward",
            ) from error
        value = walk.lift_object(content, path)
    _set_outer_scope(value)
    if isinstance(value, Tensor) and isinstance(thing.script, ScriptModuleObject) and _is_parameter(thing, name):
        walk.trainable.add(value)
    thing.read.add(name)
    thing.state = {**thing.state, name: value}
    walk.memory.recall(thing, name, value)


def _is_parameter(thing: Object, name: str) -> bool:
    parameters: Any = ScriptParameterDict(thing.script)
    return any(name == other for other, _ in parameters.items())


def _set_outer_scope(value: Any) -> None:
    """What a module owns is older than any branch."""
    if isinstance(value, (Tensor, List, Dict, Object)):
        value.scope = 0
    inside = value.state if isinstance(value, List) else value.state.values() if isinstance(value, Dict) else ()
    for item in value if isinstance(value, tuple) else inside:
        _set_outer_scope(item)


def _set_attribute(walk: Walk, env: Env, node: Any) -> Any:
    thing, value, name = *(env[v.unique()] for v in node.inputs()), node.s("name")
    if walk.memory.scope and name not in thing.state and thing.script is not None:
        _fetch_attribute(walk, thing, name)  # where the branch is not taken, it stays what it was
    thing.written[name] = walk.location(node, "assignment to an attribute")
    walk.memory.write(thing, {**thing.state, name: value})
    return ()


def _create_object(walk: Walk, env: Env, node: Any) -> Any:
    """An object of a class of TorchScript that the program makes, such as torch.no_grad()."""
    return Object(None, "", scope=walk.memory.scope)


def _call_method(walk: Walk, env: Env, node: Any) -> Any:
    thing, *args = (env[v.unique()] for v in node.inputs())
    if has_unknown(thing):
        return UNKNOWN
    if isinstance(thing, OneOf):
        ways: list[Way] = [partial(_call_alone, walk, one, node.s("name"), args) for one in thing.modules]
        at = walk.location(node, "module of a list")
        return _run_call(walk, node, lambda: run_one_of(walk, thing.place, ways, at)[0])
    if thing.script is None:
        key = f"{node.inputsAt(0).type().annotation_str}.{node.s('name')}"
        if key not in walk.graphs:
            walk.graphs[key] = _inline_call(node)
        return _run_call(walk, node, lambda: run_graph(walk, walk.graphs[key], [thing, *args]))
    return _run_call(walk, node, lambda: run_method(walk, thing, node.s("name"), args))


def _call_alone(walk: Walk, thing: Object, name: str, args: list[Any]) -> list[Any]:
    return [run_method(walk, thing, name, args)]


def _call_function(walk: Walk, env: Env, node: Any) -> Any:
    function, *args = (env[v.unique()] for v in node.inputs())
    key = function.node.output().type().annotation_str
    if key not in walk.graphs:
        walk.graphs[key] = _inline_call(node, function.node)
    return _run_call(walk, node, lambda: run_graph(walk, walk.graphs[key], args))


def _inline_call(node: Any, function: Any = None) -> Any:
    """A graph of its own for what `node` calls; PyTorch has no other way to get at it from Python.

    `function` is the constant that names a function, None for a method of a class, whose object is an input then.
    """
    graph: Any = ScriptGraph()
    places = {}
    if function is not None:
        name = graph.insertNode(graph.createClone(function, lambda v: v))
        places[node.inputsAt(0).unique()] = name.output()
    for value in list(node.inputs())[0 if function is None else 1 :]:
        place = graph.addInput()
        place.setType(value.type())
        places[value.unique()] = place
    call = graph.insertNode(graph.createClone(node, lambda v: places[v.unique()]))
    for output in call.outputs():
        graph.registerOutput(output)
    inline_calls(graph)
    return graph


def _run_call(walk: Walk, node: Any, call: Callable[[], Any]) -> Any:
    if len(walk.calls) > limits.TORCHSCRIPT_CALL_DEPTH:
        raise Unsupported(f"calls are nested more than {limits.TORCHSCRIPT_CALL_DEPTH} deep")
    walk.calls.append(own_source(node))
    try:
        result = call()
    finally:
        walk.calls.pop()
    return result if node.outputsSize() == 1 else ()


def _module_of_container(walk: Walk, env: Env, node: Any) -> Any:
    """A module of a list or dict of modules with one interface."""
    container, key = (env[v.unique()] for v in node.inputs())
    if has_unknown((container, key)):
        return UNKNOWN
    names = [name for name, _ in ScriptModuleDict(container.script).items()]
    for name in names:
        if name not in container.state:
            _fetch_attribute(walk, container, name)
    if isinstance(key, Number):
        walk.report.note(
            f"{container.path}[…] takes its last module where there is none at a place: PyTorch fails",
            code="dropped-check",
        )
        return OneOf(key, tuple(container.state[name] for name in names))
    if str(key) not in names:
        raise ProgramError(f"{container.path} has no module {key}")
    return container.state[str(key)]


def _raise(walk: Walk, env: Env, node: Any) -> Any:
    raise ProgramError(str(env[node.inputsAt(0).unique()]))


def _context(walk: Walk, env: Env, node: Any) -> Any:
    """`with` of torch.no_grad() and the like, which change no number."""
    name = node.inputsAt(0).type().annotation_str
    if not name.startswith("__torch__.torch."):
        raise Unsupported(f"`with` of an object of the program's own class {name.rpartition('.')[2]}")
    return None


def _fork(walk: Walk, env: Env, node: Any) -> Any:
    """Asynchronous calls run where they are started; their wait gives the result."""
    return run_graph(walk, node.g("Subgraph"), [env[v.unique()] for v in node.inputs()])


STRUCTURE: dict[str, Callable[[Walk, Env, Any], Any]] = {
    "prim::Constant": _constant,
    "prim::CreateObject": _create_object,
    "prim::GetAttr": _get_attribute,
    "prim::SetAttr": _set_attribute,
    "prim::CallMethod": _call_method,
    "prim::Enter": _context,
    "prim::Exit": _context,
    "prim::CallFunction": _call_function,
    "prim::RaiseException": _raise,
    "prim::If": lambda walk, env, node: run_if(walk, env, node, run_block),
    "prim::Loop": lambda walk, env, node: run_loop(walk, env, node, run_block),
    "prim::fork": _fork,
    "prim::ModuleContainerIndex": _module_of_container,
    "prim::Uninitialized": lambda walk, env, node: UNINITIALIZED,
}
