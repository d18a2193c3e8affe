"""Records which weights of a module the captured programs read, and notes modules with none.

Only models of Hugging Face get such notes. Other modules keep the forward that their owner wrote, in which branches for
training only, such as Inception's auxiliary classifiers, are usual.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch.export import ExportedProgram

from convert.outcome.report import Report

_MOST_NAMED = 6
_used: ContextVar[set[str] | None] = ContextVar("used", default=None)


@contextmanager
def recording_used_weights() -> Iterator[set[str]]:
    """Yield a set to which `record_used_weights` adds inside the context."""
    found: set[str] = set()
    token = _used.set(found)
    try:
        yield found
    finally:
        _used.reset(token)


def record_used_weights(program: ExportedProgram) -> None:
    """Add the names of the parameters that a captured program reads to the current recording, if any.

    Each size and each branch of a decision has a program of its own, which adds to the same recording.
    """
    if (found := _used.get()) is not None:
        parameters = program.graph_signature.inputs_to_parameters
        read = (n for n in program.graph.nodes if n.op == "placeholder" and n.users)
        found.update(parameters[n.name] for n in read if n.name in parameters)


def unused_modules(model: torch.nn.Module, used: set[str]) -> dict[str, int]:
    """Return the number of weights of each outermost module without any parameter that a program reads.

    A parameter with several names is read if one of them is. A single unread parameter next to others that are read
    (the mask token of DINOv2, used in training only) is not reported.
    """
    read = {id(p) for name, p in model.named_parameters(remove_duplicate=False) if name in used}
    found: dict[str, int] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        own = {id(p): p.numel() for p in module.parameters()}
        inside = any(name.startswith(f"{outer}.") for outer in found)
        if own and not inside and read.isdisjoint(own):
            found[name] = sum(own.values())
    return found


def note_unused_modules(
    model: torch.nn.Module, used: set[str], inputs: list[str], parts: list[str], report: Report
) -> None:
    """Note which modules of a Hugging Face model no output depends on, unless no program was recorded.

    parts: the names that `--part` takes for this model.
    """
    found = unused_modules(model, used) if used else {}
    if not found:
        return
    total = sum(p.numel() for p in model.parameters())
    named = [f"{name} ({count:,} of {total:,} parameters)" for name, count in found.items()]
    more = f" and {len(named) - _MOST_NAMED} more modules" if len(named) > _MOST_NAMED else ""
    others = _other_inputs(model, inputs)
    hint = f"; forward also takes {', '.join(others)}: --input describes all inputs to convert" if others else ""
    hint += f"; --part {', '.join(parts)} converts it part by part" if parts else ""
    report.note(
        f"no output depends on the weights of {', '.join(named[:_MOST_NAMED])}{more}: "
        f"the graph computes {type(model).__name__} with {', '.join(inputs)} alone{hint}",
        code="unused-modules",
    )


_OTHERWISE_GIVEN = ("labels", "inputs_embeds", "decoder_inputs_embeds", "past_key_values", "cache", "cache_position")


def _other_inputs(model: torch.nn.Module, inputs: list[str]) -> list[str]:
    """Return the tensor inputs that the forward of the model's class takes in addition to `inputs`, by its
    annotations.
    """
    parameters = inspect.signature(type(model).forward).parameters.values()
    return [p.name for p in parameters if p.name not in (*inputs, *_OTHERWISE_GIVEN) and _is_tensor(p.annotation)]


def _is_tensor(annotation: Any) -> bool:
    """Return whether an annotation means a tensor: True for `torch.Tensor | None`; False for a number that may also be
    a tensor.
    """
    words = re.findall(r"\w+", str(annotation))
    return any(word.endswith("Tensor") for word in words) and "int" not in words
