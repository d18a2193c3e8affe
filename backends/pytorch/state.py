"""State as buffers: a state that a network keeps between calls is no input of the artefact if its size is known."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir
import torch
from torch import nn

from convert.errors import Unsupported
from convert.graph.metadata import state_output
from convert.graph.state import State
from convert.outcome.report import Report

from .dtypes import tensor_from
from .network import is_free, path_of


@dataclass(frozen=True)
class Buffer:
    """A state of the graph: its positions among inputs and outputs, and the path and initial content of its buffer."""

    input: int
    output: int
    place: str
    initial: torch.Tensor


def state_buffers(model: ir.Model, states: Sequence[State], report: Report | None = None) -> list[Buffer]:
    """Return the states that become buffers, named as the inputs and outputs of `model`; the report lists them.

    A state becomes a buffer if its size and initial content are known, and if a buffer can have a path that shows its
    name. States stay outputs of a network that would have no outputs otherwise.
    """
    found: list[Buffer] = []
    left: list[tuple[str, str, State]] = []
    for state in states:
        value = model.graph.inputs[state.input]
        after = str(model.graph.outputs[state.output].name)
        place = _place(str(value.name), state.variable, [b.place for b in found])
        # The verification finds the content of a buffer after a call by this name.
        if state.initial is None or place is None or after != state_output(str(value.name)):
            left.append((str(value.name), after, state))
        else:
            found.append(Buffer(state.input, state.output, place, tensor_from(state.initial.copy())))
    if len(found) == len(model.graph.outputs):
        return []
    if report is not None and found:
        report.note(
            f"{', '.join(b.place for b in found)}: kept in buffers of the artefact, which start as the source's do and "
            "which each call changes; they are not fed",
            code="state-buffers",
        )
    for name, output, state in left if report is not None else ():
        assert report is not None
        why = "its first content is not known" if state.initial is None else "no buffer can be called so"
        if not _has_one_shape(model.graph.inputs[state.input]):
            why = "its size is not known before the call"
        report.note(
            f"the state {state.variable!r} stays an input {name!r} and an output {output!r}: {why}", code="state-inputs"
        )
    return found


def _has_one_shape(value: ir.Value) -> bool:
    return value.shape is not None and all(isinstance(d, int) for d in value.shape)


def _place(name: str, variable: str, taken: Sequence[str]) -> str | None:
    """Return a path that is `name` with dots for some underscores: the variable's own, else `name`; None if neither is
    allowed.
    """
    for path in (path_of(variable), path_of(name)):
        place = ".".join(path)
        apart = all(not f"{place}.".startswith(f"{t}.") and not f"{t}.".startswith(f"{place}.") for t in taken)
        if "_".join(path) == name and apart and is_free(path[0]) and all(map(_is_plain, path)):
            return place
    return None


def _is_plain(part: str) -> bool:
    """Return whether code can write `self.part` for an attribute that no module has."""
    is_name = part.isidentifier() and not keyword.iskeyword(part) and not part.startswith("__")
    return is_name and not hasattr(_MODULE, part)


_MODULE = nn.Module()


def new_content(buffer: Buffer, y: torch.Tensor) -> torch.Tensor:
    """Return the content of a buffer after a call, detached, so that gradients stop at the call. Raises
    `Unsupported`.
    """
    if list(y.shape) != list(buffer.initial.shape) or y.dtype != buffer.initial.dtype:
        shown = f"{list(buffer.initial.shape)} before a call and {list(y.shape)} after it"
        raise Unsupported(f"the state {buffer.place!r} is {shown}")
    return y.detach()
