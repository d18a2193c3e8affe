"""Buffers that forward changes: they become inputs and outputs of the graph."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from convert.errors import Problem, Unsupported
from convert.graph.metadata import state_output
from convert.graph.state import write_states
from convert.outcome.report import Report

from ..torch_internals import FakeTensor, own_buffers, own_parameters, own_parts, pytree
from .weights import identity_of, tensor_of


def changed_buffers(program: ExportedProgram) -> dict[str, str]:
    """Return the buffers that forward changes, by path, with the name of the node that computes the new value.

    Scratch buffers are left out. Raises `Unsupported` if forward changes a parameter.
    """
    specs = program.graph_signature.output_specs
    parameters = [str(s.target) for s in specs if s.kind == OutputKind.PARAMETER_MUTATION]
    if parameters:
        raise Unsupported(
            problems=[Problem(f"forward writes to the parameter {name}") for name in parameters],
            hint="compute with the changed tensor without writing it back, or make it a buffer, which becomes an input "
            "and an output of the converted model",
        )
    scratch = _scratch_buffers(program)
    changed = {str(s.target): s.arg.name for s in specs if s.kind == OutputKind.BUFFER_MUTATION}
    return {path: name for path, name in changed.items() if path not in scratch}


def _scratch_buffers(program: ExportedProgram) -> set[str]:
    """Return the buffers that are not saved with the module, and that forward overwrites as a whole before it reads
    them, such as the frequencies of LongRoPE: no call depends on what an earlier one left there.
    """
    places = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}

    def overwritten(node: torch.fx.Node) -> bool:
        whole = torch.ops.aten.copy.default
        return all(user.target is whole and user.args[0] is node and user.args[1] is not node for user in node.users)

    return {
        str(spec.target)
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.BUFFER and not spec.persistent and overwritten(places[spec.arg.name])
    }


def state_inputs(buffers: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return graph input names for buffers, by path: "layers.0.cache" gives `layers_0_cache`.

    Names in `taken` (forward's inputs), and output names (`output_0`), get the suffix `_state`.
    """
    names = {}
    for path in buffers:
        name = path.replace(".", "_")
        names[path] = f"{name}_state" if name in taken or _OUTPUT.fullmatch(name) else name
    return names


_OUTPUT = re.compile(r"output(_\d+)?")


def write_initial_states(model: ir.Model, states: Mapping[str, str], content: Mapping[str, Any]) -> None:
    """Write the initial value of each state into the metadata; `states` are its inputs by path, `content` tensors or
    numbers.

    Complex states are left out, because their input is a pair of real numbers.
    """
    tensors = {path: torch.as_tensor(content[path], dtype=_NUMBERS.get(type(content[path]))) for path in states}
    write_states(model, {states[path]: (path, tensor_of(t, path)) for path, t in tensors.items() if not t.is_complex()})


_NUMBERS = {int: torch.int64, float: torch.float64, bool: torch.bool}


def refuse_shared_names(states: Iterable[str], outputs: Collection[str]) -> None:
    """Raise `Unsupported` if an input for a buffer, or its output, has the name of an output of forward."""
    shared = sorted({n for name in states for n in (name, state_output(name)) if n in outputs})
    if shared:
        raise Unsupported(
            f"forward changes a buffer and returns something of the same name: {', '.join(shared)}",
            hint="give the buffer another name, or the key of the dict that forward returns",
        )


@contextmanager
def track_assignments(module: nn.Module) -> Iterator[dict[str, Any]]:
    """Make capture see buffers that forward replaces (`self.h = h`), which torch.export would drop without an error.

    When forward ends, the new content is written to the buffer in place. Forward's outputs are copied first, because
    they may be the old buffer. A buffer that forward registers again is treated as an assignment, or as any other
    attribute.

    Yields the values that other attributes of modules, and lists and dicts in them, had before forward assigned to
    them, by path. The value is None for an item added to a list or dict, and `UNSET` if a module had None or no such
    attribute. It is a `Problem` for a buffer that changes its form.
    """
    buffers: dict[str, torch.Tensor] = {}
    others: dict[str, Any] = {}
    assigned: dict[str, Any] = {}
    modules = {path for path, _ in module.named_modules()}
    plain = [(m, {k: v for k, v in vars(m).items() if k not in _OWN}) for m in module.modules()]
    # Buffers become plain attributes, because torch.export cannot assign to a buffer that was None before.
    unset = [(m, n) for m in module.modules() for n, buffer in list(own_buffers(m).items()) if buffer is None]
    containers = [pair for _, content in plain for value in content.values() for pair in _containers(value)]

    def begin(_: nn.Module, args: Any, kwargs: Any) -> None:
        buffers.update(module.named_buffers(remove_duplicate=False))
        others.update(_plain_attributes(module))

    def end(_: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        now = _plain_attributes(module)
        assigned.update(_assigned_attributes(others, now, modules))
        found = dict(module.named_buffers(remove_duplicate=False))
        replaced = {path: new for path, new in found.items() if path in buffers and new is not buffers[path]}
        for path, new in replaced.items():
            if not _is_like(new, buffers[path]):
                assigned[path] = Problem(f"forward puts {_form(new)} in the buffer {path}, a {_form(buffers[path])}")
        if not replaced:
            return None
        output = pytree.tree_map_only(torch.Tensor, torch.clone, output)
        for path, new in replaced.items():
            if not isinstance(assigned.get(path), Problem):
                buffers[path].copy_(new)
            _set_buffer(module, path, buffers[path])
        return output

    handles = [
        module.register_forward_pre_hook(begin, with_kwargs=True),
        module.register_forward_hook(end, with_kwargs=True),
    ]
    for part, name in unset:
        del own_buffers(part)[name]
        vars(part)[name] = None
    original = _assigned_when_registered(set(module.modules()))
    try:
        yield assigned
    finally:
        setattr(nn.Module, "register_buffer", original)  # noqa: B010
        for handle in handles:
            handle.remove()
        for container, content in containers:
            _put_back(container, content)
        _restore_attributes(plain)
        for part, name in unset:
            vars(part).pop(name, None)
            own_buffers(part)[name] = None


def _assigned_attributes(before: Mapping[str, Any], now: Mapping[str, Any], modules: Collection[str]) -> dict[str, Any]:
    """Return the earlier values of attributes that have another value now, by path, as `track_assignments` yields them.

    modules: the paths of all modules.
    """
    changed = {path: old for path, old in before.items() if path in now and now[path] is not old}
    added = [path for path, value in now.items() if path not in before and isinstance(value, torch.Tensor)]
    return changed | {path: UNSET if path.rpartition(".")[0] in modules else None for path in added}


def _restore_attributes(earlier: Iterable[tuple[nn.Module, Mapping[str, Any]]]) -> None:
    """Give modules their earlier attributes, and remove tensors that were added since."""
    for owner, content in earlier:
        for name in [n for n, v in vars(owner).items() if n not in content and n not in _OWN and _has_tensor(v)]:
            delattr(owner, name)
        vars(owner).update(content)


def _assigned_when_registered(parts: Collection[nn.Module]) -> Any:
    """Let `register_buffer` of `parts` assign, which torch.export can follow; return the original.

    An existing buffer is replaced, any other name becomes a plain attribute.
    """
    original = nn.Module.register_buffer

    def register_buffer(self: nn.Module, name: str, tensor: Any, persistent: bool = True) -> None:
        if self not in parts or name in own_parameters(self) or name in own_parts(self) or "." in name:
            original(self, name, tensor, persistent)
        elif name in own_buffers(self):
            own_buffers(self)[name] = tensor
        else:
            vars(self)[name] = tensor

    setattr(nn.Module, "register_buffer", register_buffer)  # noqa: B010
    return original


def _has_tensor(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for _, leaf in _leaves(value, ""))


def _is_like(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Return whether a buffer can take a new content; a dynamic size, which is 2 or more, may be any but 0 and 1."""
    sizes = zip(new.shape, old.shape, strict=False)
    return (
        new.dtype == old.dtype
        and new.dim() == old.dim()
        and not any(n != o if isinstance(n, int) else o < 2 for n, o in sizes)
    )


def _form(tensor: torch.Tensor) -> str:
    sizes = (str(size) if isinstance(size, int) else "?" for size in tensor.shape)  # the text of a size would fix it
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"


UNSET = object()
"""Marks attributes that had no tensor before forward."""

_OWN = frozenset(vars(nn.Module()))
"""Attributes of every module: training mode, tables of children and hooks."""


def _plain_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the tensors and numbers that modules hold as plain attributes, or in lists and dicts of them, by path."""
    found: dict[str, Any] = {}
    for path, owner in module.named_modules():
        for name, value in vars(owner).items():
            if name not in _OWN:
                found.update(_leaves(value, f"{path}.{name}" if path else name))
    return found


def _leaves(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (torch.Tensor, int, float)):
        yield path, value
    for key, item in _items(value, depth):
        yield from _leaves(item, f"{path}.{key}", depth + 1)


_DEEPEST, _MOST_ITEMS = 3, 256


def _items(value: Any, depth: int) -> Iterable[tuple[Any, Any]]:
    """Yield the items of a list, tuple or dict; long ones are tables, not state."""
    if type(value) not in (list, tuple, dict) or len(value) > _MOST_ITEMS or depth == _DEEPEST:
        return ()
    return value.items() if isinstance(value, dict) else enumerate(value)


def _containers(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield the lists and dicts in a value, each with a copy of its content."""
    if type(value) in (list, dict):
        yield value, value.copy()
    for _, item in _items(value, depth):
        yield from _containers(item, depth + 1)


def _put_back(container: Any, content: Any) -> None:
    if isinstance(container, list):
        container[:] = content
    else:
        container.clear()
        container.update(content)


def refuse_assignments(program: ExportedProgram, assigned: Mapping[str, Any], report: Report) -> None:
    """Raise `Unsupported` for tensors that forward both reads and replaces, and that are no buffers.

    Tensors that it replaces and never reads are by-products. A changed number is noted: the graph has its first value.
    """
    constants = {str(s.target) for s in program.graph_signature.input_specs if s.kind == InputKind.CONSTANT_TENSOR}
    tensors = {path: value for path, value in assigned.items() if isinstance(value, torch.Tensor)}
    # A tensor in a list has a name made up by capture.
    memory = {identity_of(t) for name, t in program.constants.items() if name in constants}
    known = {
        path for path, value in tensors.items() if not isinstance(value, FakeTensor) and identity_of(value) in memory
    }
    read = sorted(known | (tensors.keys() & constants))
    if read:
        raise Unsupported(
            problems=[Problem(f"forward replaces the tensor {path}, which is no buffer") for path in read],
            hint="register it with register_buffer: then it becomes an input and an output of the converted model",
        )
    unread = {
        str(s.target)
        for s in program.graph_signature.input_specs
        if s.kind == InputKind.BUFFER and not next(n for n in program.graph.nodes if n.name == s.arg.name).users
    }
    problems = [v for path, v in assigned.items() if isinstance(v, Problem) and path not in unread]
    if problems:
        raise Unsupported(
            problems=problems, hint="an input that is fed with an output cannot change its shape or dtype"
        )
    for path, value in assigned.items():
        if value is UNSET:
            report.note(
                f"forward stores a tensor in {path}, which was empty before. The converted model computes every call "
                "as a first one. To keep the tensor between calls, register it as a buffer (register_buffer)",
                code="dropped-state",
            )
        elif isinstance(value, Problem):
            report.note(
                f"{value.why}, without a look at what it was: the converted model keeps none of it, and computes every "
                "time as it does in a first call",
                code="dropped-state",
            )
        elif value is None:
            report.note(
                f"forward puts a tensor into {path.rpartition('.')[0]}; the converted model keeps none of it, and "
                "computes every time as it does in a first call",
                code="dropped-state",
            )
        elif path not in tensors:
            report.note(
                f"forward changes the number {path}; the converted model computes with {value} at every call",
                code="dropped-state",
            )


@contextmanager
def override_buffers(module: nn.Module, values: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Set buffers at these paths to these values inside the context; restore the original tensors afterwards."""
    before = {path: module.get_buffer(path) for path in values}
    for path, value in values.items():
        _set_buffer(module, path, value.clone())
    try:
        yield
    finally:
        for path, value in before.items():
            _set_buffer(module, path, value)


@contextmanager
def kept_buffers(module: nn.Module) -> Iterator[None]:
    """Restore the buffers of a module at the end: their contents, and the tensors that forward has replaced."""
    before = [(path, b, b.detach().clone()) for path, b in module.named_buffers(remove_duplicate=False)]
    try:
        yield
    finally:
        now = dict(module.named_buffers(remove_duplicate=False))
        with torch.no_grad():
            for path, buffer, content in before:
                buffer.copy_(content)
                if path in now and not _shares_content(now[path], buffer):
                    _set_buffer(module, path, buffer)


def _shares_content(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors are one; a module of TorchScript returns a new object for it at each access."""
    return a is b or (a.layout is b.layout is torch.strided and a.data_ptr() == b.data_ptr())


def _set_buffer(module: nn.Module, path: str, value: torch.Tensor) -> None:
    owner, _, name = path.rpartition(".")
    own_buffers(module.get_submodule(owner))[name] = value
