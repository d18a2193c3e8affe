"""Attributes that a TorchScript module's forward changes: inputs and outputs of the graph, set for each run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import NoneType
from typing import Any

import torch

from convert.errors import Problem, Unsupported
from convert.graph.tensors import dtype_name
from convert.outcome.report import Report

from ..common.state import state_inputs, state_output
from ..common.values import mark_scalar, onnx_dtype
from ..common.weights import identity_of
from ..torch_internals import script_class_name, script_method, script_method_names, script_object
from .context import Walk, example_of
from .numbers import as_number
from .values import NUMBERS, Dict, List, Number, Object, Tensor, read

_PYTHON = (bool, int, float)


# -- in the graph -----------------------------------------------------------------------------------------------------


def changed_state(walk: Walk, start: Callable[[Collection[str]], Mapping[str, torch.Tensor]]) -> dict[str, Any]:
    """Return the initial values of the module's tensors and numbers that forward reads and changes, by path.

    start: returns tensors that can replace an initial None (`first_call.py`). Raises `Unsupported` for parameters, for
    lists and dicts, whose structure may change from call to call, and for a None that no tensor can replace.
    """
    effects = {id(obj) for obj, _, effect in walk.memory.journal if effect}
    changed = [
        (obj, name, _attribute_path(obj, name))
        for obj in walk.objects
        for name, value in obj.state.items()
        if _is_assigned(obj, name, value) or _is_written(value, effects)
    ]
    unset = [p for t, n, p in changed if n in t.read and isinstance(t.state[n], Tensor) and t.script.getattr(n) is None]
    started = start([path for path in unset if path not in walk.states]) if unset else {}
    found, problems = {}, []
    hint = "make it a buffer (register_buffer) of one shape, or an argument"
    for obj, name, path in changed:
        if _is_assigned(obj, name, obj.state[name]) and name not in obj.read:
            walk.report.note(
                f"forward sets {path} and never reads it: that is not part of the converted model", code="unused-state"
            )
            continue
        before = started.get(path, obj.script.getattr(name))
        if isinstance(before, _PYTHON) or (isinstance(before, torch.Tensor) and not _is_parameter(before)):
            found[path] = before
        else:
            kind = "parameter" if isinstance(before, torch.Tensor) else type(before).__name__
            at = obj.written.get(name)
            why = f"forward changes {path}, a {kind}, which cannot be an input and an output of a graph"
            if before is None:
                why = f"{path} is None before forward and something else after it, and zeros do not do in its place"
                hint = "call the module once and convert or save it then: the converted model starts with a tensor"
            problems.append(Problem(why, at) if at else Problem(why))
    if problems:
        raise Unsupported(problems=problems, hint=hint)
    written = {path for obj, name, path in changed if _is_written(obj.state[name], effects)}
    _refuse_shared(walk, {path: tensor for path, tensor in found.items() if path in written})
    return found


def _refuse_shared(walk: Walk, written: Mapping[str, Any]) -> None:
    """Raise `Unsupported` if forward writes to memory of another attribute, which it also reads."""
    for path, before in written.items():
        for obj in walk.objects:
            for name in sorted(obj.read):
                other, tensor = _attribute_path(obj, name), obj.script.getattr(name)
                if other != path and isinstance(tensor, torch.Tensor) and _share_memory(tensor, before):
                    raise Unsupported(
                        f"forward writes to {path}, whose memory {other} has too",
                        hint="where one tensor is two buffers and forward writes to it, keep it in one of them",
                    )


def _share_memory(a: torch.Tensor, b: Any) -> bool:
    if not isinstance(b, torch.Tensor) or not a.numel() or a.layout != torch.strided:
        return False
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _is_parameter(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a parameter; the result of a call with gradients, kept in an attribute, is none."""
    return tensor.requires_grad and tensor.is_leaf


def add_state_inputs(walk: Walk, states: Mapping[str, Any], taken: Collection[str]) -> None:
    """Add graph inputs for these attributes, by path; forward reads them instead of the module's values."""
    names = state_inputs(states, taken)
    for path, before in states.items():
        if isinstance(before, torch.Tensor):
            value = walk.g.input(names[path], onnx_dtype(before.dtype), list(before.shape))
            walk.states[path] = walk.tensor(value, example_of(before))
        else:
            kind = type(before)
            walk.states[path] = Number(mark_scalar(walk.g.input(names[path], NUMBERS[kind], [])), kind, before)


def add_state_outputs(walk: Walk, states: Mapping[str, Any], taken: Collection[str]) -> None:
    """Add graph outputs for the attributes' values at the end of forward. Raises `Unsupported` for a changed shape."""
    names = state_inputs(states, taken)
    ends = {_attribute_path(obj, name): value for obj in walk.objects for name, value in obj.state.items()}
    for path, before in states.items():
        end = ends.get(path, walk.states[path])
        if isinstance(end, Tensor):
            value = walk.value(read(walk.memory, end))
            sizes = [] if value.shape is None else [(a, b) for a, b in zip(value.shape, before.shape, strict=False)]
            grown = end.state.example is not None and end.state.example.shape != before.shape
            grown = grown or (value.shape is not None and len(value.shape) != before.dim())
            if grown or any(isinstance(a, int) and a != b for a, b in sizes) or value.dtype != onnx_dtype(before.dtype):
                raise _shape_change_error(path, before, value, end.state.example)
            walk.g.output(value, state_output(names[path]))
        else:
            walk.g.output(as_number(walk.g, end), state_output(names[path]))


def _shape_change_error(path: str, before: torch.Tensor, value: Any, example: torch.Tensor | None) -> Unsupported:
    sizes = value.shape if example is None else example.shape
    after = "of unknown rank" if sizes is None else [d if isinstance(d, int) else str(d) for d in sizes]
    was = f"{str(before.dtype).removeprefix('torch.')}{list(before.shape)}"
    return Unsupported(
        f"{path} is {was} before forward and {dtype_name(value.dtype)}{after} after it: an input that is fed "
        "with an output cannot change its shape or dtype",
        hint="if it has its final shape after one call, call the module once and convert it then; else keep a buffer "
        "of the largest size, and how far it is filled",
    )


def note_state(report: Report, states: Mapping[str, Any], taken: Collection[str]) -> None:
    """Tell the user which attributes became inputs and outputs, and how to feed them."""
    listed = (f"{p} (input {n}, output {state_output(n)})" for p, n in state_inputs(states, taken).items())
    report.note(
        f"forward changes {', '.join(listed)}: feed the value that it has in the module first, then the output of the "
        "last call",
        code="state-inputs",
    )


def _attribute_path(obj: Object, name: str) -> str:
    return f"{obj.path}.{name}" if obj.path else name


def _is_assigned(obj: Object, name: str, value: Any) -> bool:
    return name in obj.written and not _is_unchanged(obj, name, value)


def _is_unchanged(obj: Object, name: str, value: Any) -> bool:
    before = obj.script.getattr(name)
    if isinstance(value, Tensor):
        content = value.state.content
        known = isinstance(content, torch.Tensor) and isinstance(before, torch.Tensor)
        return known and identity_of(content) == identity_of(before)
    return isinstance(value, (bool, int, float, str, type(None))) and type(value) is type(before) and value == before


def _is_written(value: Any, effects: set[int]) -> bool:
    if id(value) in effects and isinstance(value, (Tensor, List, Dict)):
        return True
    items = value.state if isinstance(value, List) else value.state.values() if isinstance(value, Dict) else ()
    return any(_is_written(v, effects) for v in items) if isinstance(items, tuple) or isinstance(value, Dict) else False


# -- in PyTorch -------------------------------------------------------------------------------------------------------


def attributes(module: Any) -> dict[str, Any]:
    """Return a module's buffers, and the numbers, tensors and None to which its code assigns, by path."""
    found: dict[str, Any] = dict(module.named_buffers(remove_duplicate=False))
    parts = [(path, part) for path, part in module.named_modules() if isinstance(part, torch.jit.ScriptModule)]
    names = {name for _, part in parts for method in _method_graphs(part) for name in _assigned_names(method)}
    for path, part in parts:
        own = script_object(part)
        class_name = script_class_name(own)
        for owner, name in names:
            # Another class may assign to an attribute that is a constant in this one, as quantized layers do.
            value = own.getattr(name) if owner == class_name and own.hasattr(name) else ...
            if isinstance(value, (*_PYTHON, torch.Tensor, NoneType)):
                found.setdefault(f"{path}.{name}" if path else name, value)
    return found


def _method_graphs(part: Any) -> Iterator[Any]:
    for name in script_method_names(part):
        yield script_method(part, name).graph


def _assigned_names(graph: Any) -> Iterator[tuple[str, str]]:
    """Yield the class and the name of each attribute to which a graph assigns."""
    for node in graph.findAllNodes("prim::SetAttr"):
        yield next(iter(node.inputs())).type().str(), node.s("name")


@contextmanager
def override_attributes(module: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Within the context, the attributes at these paths hold these values; afterwards all are restored."""
    before = {path: v.clone() if isinstance(v, torch.Tensor) else v for path, v in attributes(module).items()}
    for path, value in values.items():
        _set_attribute(module, path, type(before[path])(value) if isinstance(before[path], _PYTHON) else value.clone())
    try:
        yield
    finally:
        for path, value in before.items():
            _set_attribute(module, path, value)


def _set_attribute(module: Any, path: str, value: Any) -> None:
    owner, _, name = path.rpartition(".")
    for part in filter(None, owner.split(".")):
        module = getattr(module, part)
    setattr(module, name, value)
