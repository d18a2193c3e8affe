"""Interprets a TorchScript program on symbolic values: computes what is known, makes graph nodes of the rest.

The program is not inlined, frozen or changed beforehand. Calls of submodules are followed, so that each operator knows
its module path; attributes are read when the program reads them; only branches that can be taken are interpreted.
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


def run_method(walk: Walk, obj: Object, name: str, args: list[Any]) -> Any:
    """Call a method of a module and return its result."""
    key = (id(obj.script), name)
    if key not in walk.graphs:
        # Keep the module as well, because its id may be reused once it is gone.
        walk.graphs[key] = (_with_autocast(script_method(obj.script, name).graph), obj.script)
    outer, walk.path = walk.path, obj.path
    try:
        return run_graph(walk, walk.graphs[key][0], [obj, *args])
    finally:
        walk.path = outer


def _with_autocast(graph: Any) -> Any:
    """Return a graph with autocast's casts, which PyTorch inserts when it runs `with torch.autocast(…)`.

    The casts also apply inside called functions, so those calls are inlined. A graph without autocast is returned
    unchanged. Raises `Unsupported` for a program whose autocast PyTorch refuses.
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
    """Run a graph on its arguments and return its output."""
    env = {v.unique(): a for v, a in zip(graph.inputs(), args, strict=True)}
    for node in graph.nodes():
        run_node(walk, env, node)
    results = [env[v.unique()] for v in graph.outputs()]
    return results[0] if len(results) == 1 else tuple(results)


def run_block(walk: Walk, env: Env, block: Any, args: list[Any]) -> list[Any]:
    """Run a block of an If or Loop in the environment around it, and return its outputs."""
    env.update({v.unique(): a for v, a in zip(block.inputs(), args, strict=True)})
    for node in block.nodes():
        run_node(walk, env, node)
    return [env[v.unique()] for v in block.outputs()]


def run_node(walk: Walk, env: Env, node: Any) -> None:
    """Run one node and put its outputs into `env`. A missing rule is noted, and the outputs are unknown."""
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
    # A frozen module's weights are constants named like the attributes that they were: self.conv1.weight.
    value = walk.lift_object(
        content, output.debugName().removeprefix("self.") if isinstance(content, torch.Tensor) else ""
    )
    if isinstance(value, Tensor):
        walk.trainable.add(value)
    return value


def _get_attribute(walk: Walk, env: Env, node: Any) -> Any:
    obj, name = env[node.input().unique()], node.s("name")
    if has_unknown(obj):
        return UNKNOWN
    if name == "training" and name not in obj.written:
        return False
    if name not in obj.state:
        if obj.script is None:
            raise Unsupported(f"the attribute {name} of an object before it is set")
        _fetch_attribute(walk, obj, name)
    return obj.state[name]


def _fetch_attribute(walk: Walk, obj: Object, name: str) -> None:
    """Copy a module's attribute into its state, once, so that a second read returns the same tensor.

    Raises `Unsupported` for an object of a class of the program.
    """
    path = f"{obj.path}.{name}" if obj.path else name
    if path in walk.states:
        value = walk.states[path]
    else:
        try:
            content = obj.script.getattr(name)
        except RuntimeError as error:  # raised for a class of the file, whose Python class PyTorch would need
            raise Unsupported(
                f"{path} is an object of a class of the program, which PyTorch does not hand out",
                hint="keep what it holds in buffers of the module, or make the object in forward",
            ) from error
        value = walk.lift_object(content, path)
    _set_outer_scope(value)
    if isinstance(value, Tensor) and isinstance(obj.script, ScriptModuleObject) and _is_parameter(obj, name):
        walk.trainable.add(value)
    obj.read.add(name)
    obj.state = {**obj.state, name: value}
    walk.memory.recall(obj, name, value)


def _is_parameter(obj: Object, name: str) -> bool:
    parameters: Any = ScriptParameterDict(obj.script)
    return any(name == other for other, _ in parameters.items())


def _set_outer_scope(value: Any) -> None:
    """Mark a value that a module owns as older than any branch."""
    if isinstance(value, (Tensor, List, Dict, Object)):
        value.scope = 0
    inside = value.state if isinstance(value, List) else value.state.values() if isinstance(value, Dict) else ()
    for item in value if isinstance(value, tuple) else inside:
        _set_outer_scope(item)


def _set_attribute(walk: Walk, env: Env, node: Any) -> Any:
    obj, value, name = *(env[v.unique()] for v in node.inputs()), node.s("name")
    if walk.memory.scope and name not in obj.state and obj.script is not None:
        _fetch_attribute(walk, obj, name)  # the variable then keeps its value if the branch is not taken
    obj.written[name] = walk.location(node, "assignment to an attribute")
    walk.memory.write(obj, {**obj.state, name: value})
    return ()


def _create_object(walk: Walk, env: Env, node: Any) -> Any:
    """Return an object of a TorchScript class that the program makes, such as torch.no_grad()."""
    return Object(None, "", scope=walk.memory.scope)


def _call_method(walk: Walk, env: Env, node: Any) -> Any:
    obj, *args = (env[v.unique()] for v in node.inputs())
    if has_unknown(obj):
        return UNKNOWN
    if isinstance(obj, OneOf):
        ways: list[Way] = [partial(_call_alone, walk, one, node.s("name"), args) for one in obj.modules]
        at = walk.location(node, "module of a list")
        return _run_call(walk, node, lambda: run_one_of(walk, obj.place, ways, at)[0])
    if obj.script is None:
        key = f"{node.inputsAt(0).type().annotation_str}.{node.s('name')}"
        if key not in walk.graphs:
            walk.graphs[key] = _inline_call(node)
        return _run_call(walk, node, lambda: run_graph(walk, walk.graphs[key], [obj, *args]))
    return _run_call(walk, node, lambda: run_method(walk, obj, node.s("name"), args))


def _call_alone(walk: Walk, obj: Object, name: str, args: list[Any]) -> list[Any]:
    return [run_method(walk, obj, name, args)]


def _call_function(walk: Walk, env: Env, node: Any) -> Any:
    function, *args = (env[v.unique()] for v in node.inputs())
    key = function.node.output().type().annotation_str
    if key not in walk.graphs:
        walk.graphs[key] = _inline_call(node, function.node)
    return _run_call(walk, node, lambda: run_graph(walk, walk.graphs[key], args))


def _inline_call(node: Any, function: Any = None) -> Any:
    """Return the graph of what `node` calls; Python has no other way to get at it than inlining the call.

    `function` is the constant that names a function; None for a method of a class, whose object is then an input.
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
    """Return a submodule of a list or dict whose modules share an interface; `OneOf` for a run-time index."""
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
    """Handle `with` of torch.no_grad() and similar contexts, which change no number.

    Raises `Unsupported` for a class of the program.
    """
    name = node.inputsAt(0).type().annotation_str
    if not name.startswith("__torch__.torch."):
        raise Unsupported(f"`with` of an object of the program's own class {name.rpartition('.')[2]}")
    return None


def _fork(walk: Walk, env: Env, node: Any) -> Any:
    """Run an asynchronous call at once; its wait returns the result."""
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
