"""Compiles the submodules that TorchScript has to compile, and records one run of the module around them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import torch
from torch.overrides import TorchFunctionMode

from convert.errors import Unsupported

from .export.capture.captured import gives_same
from .export.patch_table import patched
from .export.patches.patch import Stage
from .inputs.examples import Call, resized_call

Record = Callable[[bool], Any]
"""Records one run of the module with torch.jit.trace; with True on longer inputs, or None if there are none."""


def record_around_scripts(module: torch.nn.Module, record: Record) -> Any:
    """Return the result of `record` after compiling submodules that decide in Python, so that their loops stay loops.

    A recorded run holds one path and one number of steps. If Python asks for the number in a tensor or for a size, the
    submodule that is running is compiled, or else the one around it. Raises `Unsupported` if the module itself asks, if
    nothing compiles, or if longer inputs give another record; `module` is restored afterwards.
    """
    found: dict[str, torch.nn.Module] = {}
    while True:
        with _replaced(module, found), _asking(module) as asked:
            recorded = record(False)
        if not asked:
            break
        for name, question in asked.items():
            _compile(module, name, question, found)
    with _replaced(module, found), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = record(True)
    if other is not None and _steps(other) != _steps(recorded):
        raise Unsupported("inputs of other sizes give another trace of forward")
    return recorded


def agree_at_sizes(module: torch.nn.Module, recorded: Callable[..., Any], call: Call) -> bool:
    """Return whether a record gives the module's numbers for the example and for the other sizes that forward accepts.

    Python's `is`, `type` and `str` of a size leave no trace: while a run is recorded, the size is a tensor.
    """
    calls = [call, *(resized_call(call, _small_sizes(call, n, step), ()) for n in _FIRST_SIZES for step in (0, 1))]
    tensors = ({name: example.tensor for name, example in each.items()} for each in calls)
    return all(gives_same(module, recorded, each) is not False for each in tensors)


_FIRST_SIZES = range(1, 9)


def _small_sizes(call: Call, first: int, step: int) -> dict[tuple[str, int], int]:
    """Return sizes of the dynamic dims: `first`, `first + step`, … for one name after another, clamped to their
    bounds.
    """
    lengths: dict[Any, int] = {}
    sizes = {}
    for name, example in call.items():
        for place, dynamic_dim in example.dynamic_dims.items():
            size = lengths.setdefault(dynamic_dim.name or (name, place), first + step * len(lengths))
            size = max(size, dynamic_dim.low or 1)
            sizes[name, place] = size if dynamic_dim.high is None else min(size, dynamic_dim.high)
    return sizes


def _steps(recorded: Any) -> list[tuple[str, str]]:
    """Return the operators of a record in order, each with its constant, without the sizes of tensors."""
    found = []
    graph = recorded.inlined_graph  # keeps the owner of the nodes alive
    blocks = [graph]
    while blocks:
        for node in blocks.pop().nodes():
            value = node.output().toIValue() if node.kind() == "prim::Constant" else None
            found.append((node.kind(), f"{node.outputsSize()} {value!r}"))
            blocks += node.blocks()
    return found


def _compile(module: torch.nn.Module, name: str, question: str, found: dict[str, torch.nn.Module]) -> None:
    """Compile the submodule of this name, or else the innermost module around it that compiles, and add it to the
    compiled ones.
    """
    text = question
    while name:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = torch.jit.script(module.get_submodule(name))
            return
        except Exception as error:
            text = str(error)
            name = name.rpartition(".")[0]
    raise Unsupported(" ".join(text.split())[:300])


@contextmanager
def _replaced(module: torch.nn.Module, found: Mapping[str, torch.nn.Module]) -> Iterator[None]:
    """Replace the modules of these names by compiled ones, wherever the module holds them."""
    compiled = {id(module.get_submodule(name)): script for name, script in found.items()}
    places = [
        (module.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2], part)
        for path, part in module.named_modules(remove_duplicate=False)
        if id(part) in compiled
    ]
    try:
        for holder, name, part in places:
            setattr(holder, name, compiled[id(part)])
        yield
    finally:
        for holder, name, part in places:
            setattr(holder, name, part)


@contextmanager
def _asking(module: torch.nn.Module) -> Iterator[dict[str, str]]:
    """Collect the numbers that Python asks for, by the name of the innermost module that is running.

    torch.jit.trace warns of them, except of integers used as an index or as the end of a range, and of sizes as keys.
    """
    asked: dict[str, str] = {}
    running: list[str] = []

    def ask(question: str) -> None:
        asked.setdefault(running[-1] if running else "", question)

    def shown(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, torch.jit.TracerWarning):
            ask(f"{message} ({filename}:{lineno})")

    def leave(*_: Any) -> None:
        running.pop()

    handles = []
    for name, part in module.named_modules():
        if not isinstance(part, torch.jit.ScriptModule):
            handles.append(part.register_forward_pre_hook(lambda *_, name=name: running.append(name)))
            handles.append(part.register_forward_hook(leave, always_call=True))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", torch.jit.TracerWarning)
            warnings.showwarning = shown
            with _Indices(lambda: ask("a tensor as an index of Python")), patched(Stage.TRACE, ask=ask):
                yield asked
    finally:
        for handle in handles:
            handle.remove()


class _Indices(TorchFunctionMode):
    """Calls a function whenever Python uses a tensor, or a size that torch.jit.trace records, as an index."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self.call = call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__index__:
            self.call()
        return func(*args, **(kwargs or {}))
