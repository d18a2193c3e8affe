"""Module settings that change the result, such as training mode: notes for the user, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn

from convert.errors import BadInput, Unsupported
from convert.outcome.report import Report

from ..torch_internals import own_parts, script_method, script_method_names

SEEDED = (
    "forward seeds PyTorch's generator and draws from it: its numbers are the same at every call, which a graph "
    "cannot draw"
)
SEEDED_HINT = "draw them once, in __init__, and keep them in a buffer; or leave out torch.manual_seed"


def note_training(module: nn.Module, report: Report) -> None:
    """Note that a module is in training mode and has parts that compute something else then."""
    names = [name or type(part).__name__ for name, part in module.named_modules() if _acts_on_mode(part)]
    if names:
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        report.note(
            f"the module is in training mode ({shown}): it is converted as module.eval() computes", code="training-mode"
        )


def _acts_on_mode(part: nn.Module) -> bool:
    if not getattr(part, "training", False):
        return False
    if isinstance(part, torch.jit.ScriptModule):
        return any(
            node.s("name") == "training"
            for name in script_method_names(part)
            for node in script_method(part, name).graph.findAllNodes("prim::GetAttr")
        )
    classes = [c for c in type(part).__mro__ if c is not nn.Module and issubclass(c, nn.Module)]
    functions = (f for c in classes for f in vars(c).values() if isinstance(f, FunctionType))
    return any("training" in names for f in functions for names in _attribute_names(f.__code__))


def _attribute_names(code: CodeType) -> Iterator[tuple[str, ...]]:
    yield code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _attribute_names(constant)


_KERNELS_WITHOUT_GRADIENTS = ("aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention")


def chooses_kernels_by_gradients(loaded: Any) -> bool:
    """Return whether a TorchScript program has nn.TransformerEncoder's check whether gradients are needed."""
    graph = getattr(loaded, "inlined_graph", None) if isinstance(loaded, torch.jit.ScriptModule) else None
    if graph is None or not graph.findAllNodes("aten::is_grad_enabled"):
        return False
    return any(graph.findAllNodes(kind) for kind in _KERNELS_WITHOUT_GRADIENTS)


def note_fast_path(module: Any, report: Report) -> None:
    """Note that PyTorch, without gradients, uses kernels that return other numbers at padded positions."""
    if chooses_kernels_by_gradients(module):
        report.note(
            "the program has nn.TransformerEncoder's layers, for which PyTorch uses fused kernels without gradients. "
            "These give NaN for a query that may attend to nothing, and zeros at padded places of nested tensors. The "
            "converted model computes what the layers compute with gradients; other places are the same",
            code="kernel-ways",
        )
    for name, part in module.named_modules() if isinstance(module, nn.Module) else ():
        if isinstance(part, nn.TransformerEncoder) and getattr(part, "use_nested_tensor", False):
            report.note(
                f"{name or 'the module'} is a TransformerEncoder. Without gradients PyTorch's fast path gives zeros "
                "at places that src_key_padding_mask leaves out. The converted model gives what the layers compute "
                "there, as torch.backends.mha.set_fastpath_enabled(False) does; other places are the same",
                code="kernel-ways",
            )
            return


def refuse_odd_forward(module: nn.Module) -> None:
    """Raise `BadInput` for a module whose forward is no function, or does not name its inputs."""
    if isinstance(module, torch.jit.ScriptModule):
        return
    forward: Any = getattr(module, "forward", None)
    try:
        signature(forward)
    except (TypeError, ValueError):  # not a function, or one compiled into Python or PyTorch
        shown = getattr(forward, "__name__", None) or type(forward).__name__
        raise BadInput(
            f"forward of {type(module).__name__} is {shown}, which does not name its inputs",
            hint="write a module whose forward has named parameters and calls it",
        ) from None


def refuse_cycles(module: nn.Module) -> None:
    """Raise `BadInput` for a module that contains itself, which would recurse forever."""
    state: dict[int, bool] = {}  # True while a module's children are walked
    stack: list[tuple[nn.Module, str, bool]] = [(module, "", False)]
    while stack:
        part, path, done = stack.pop()
        if done:
            state[id(part)] = False
            continue
        if state.get(id(part)):
            raise BadInput(
                f"the module {path or type(part).__name__} contains itself",
                hint="keep the second reference outside of the modules: in a list, or by object.__setattr__",
            )
        if id(part) in state:
            continue
        state[id(part)] = True
        stack.append((part, path, True))
        children = own_parts(part)
        stack += [(c, f"{path}.{n}" if path else n, False) for n, c in dict(children).items() if c is not None]


@contextmanager
def watch_seeds() -> Iterator[list[Any]]:
    """Collect the seeds that forward sets during capture, without setting them."""
    found: list[Any] = []
    random: Any = torch.random
    outer: Any = torch
    originals = outer.manual_seed, random.manual_seed

    def remember(seed: Any) -> torch.Generator:
        found.append(seed)
        return torch.default_generator

    outer.manual_seed = random.manual_seed = remember
    try:
        yield found
    finally:
        outer.manual_seed, random.manual_seed = originals


def refuse_seeded(program: torch.export.ExportedProgram) -> None:
    """Raise `Unsupported` for a program that draws random numbers and was captured while forward set a seed."""
    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            if "dropout" in str(node.target) and True not in node.args:
                continue  # attention in inference, which draws no numbers
            raise Unsupported(SEEDED, hint=SEEDED_HINT)
