"""State: inputs that are fed with an output of the call before; what each starts with, written down and read again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from .metadata import INITIAL_KEY, STATE_KEY, state_output

_LISTED = 4096
"""Elements of an initial value that are written one by one."""
_FILLED = 1 << 26
"""Elements of an initial value that a number in a file may stand for."""


@dataclass(frozen=True)
class State:
    """The places of a state among the inputs and outputs of a graph; `initial` is what it starts with, if known."""

    name: str
    variable: str
    input: int
    output: int
    initial: np.ndarray | None


def write_states(model: ir.Model, states: Mapping[str, tuple[str, ir.TensorProtocol]]) -> dict[str, Any]:
    """Say in the metadata which inputs are state: by name the variable, and the tensor that it starts with.

    Returns what each starts with as it is written: a number for all elements, nested lists, or None.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    descriptions, found = {}, {}
    for name, (variable, tensor) in states.items():
        found[name] = _initial_json(tensor)
        descriptions[name] = {"variable": variable, "output": state_output(name), "initial": found[name]}
        inputs[name].meta[INITIAL_KEY] = tensor
    if descriptions:
        model.metadata_props[STATE_KEY] = json.dumps(descriptions)
    return found


def states_of(model: ir.Model) -> list[State]:
    """The states that the metadata of `model` tell, in the order of its inputs.

    One whose output is not there, or has another dtype or shape, is left out; so are metadata of another form, as
    anybody may write some.
    """
    try:
        described = json.loads(model.metadata_props.get(STATE_KEY, "{}"))
    except (ValueError, RecursionError):
        return []
    outputs = {str(value.name): place for place, value in enumerate(model.graph.outputs)}
    found: list[State] = []
    for place, value in enumerate(model.graph.inputs):
        entry = described.get(value.name) if isinstance(described, dict) else None
        if not isinstance(entry, dict):
            continue
        output = outputs.get(str(entry.get("output")))
        if output is None or any(state.output == output for state in found):
            continue
        after = model.graph.outputs[output]
        if after.dtype == value.dtype and _may_be_equal(value.shape, after.shape):
            variable = str(entry.get("variable", value.name))
            found.append(State(str(value.name), variable, place, output, _initial(value, entry.get("initial"))))
    return found


def _may_be_equal(before: ir.Shape | None, after: ir.Shape | None) -> bool:
    if before is None or after is None:
        return True
    pairs = zip(before, after, strict=False)
    return len(before) == len(after) and not any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in pairs)


def _initial(value: ir.Value, written: Any) -> np.ndarray | None:
    """What a state starts with, where it is known and the state has one shape."""
    dims = None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]
    if dims is None or None in dims or value.dtype in (None, ir.DataType.STRING):
        return None
    shape = tuple(d for d in dims if d is not None)
    kept = value.meta.get(INITIAL_KEY)
    if isinstance(kept, ir.TensorProtocol) and kept.dtype == value.dtype:
        array = np.asarray(kept.numpy())
        return array if array.shape == shape else None
    if written is None or math.prod(shape) > _FILLED:
        return None
    assert value.dtype is not None
    try:
        array = np.array(written, value.dtype.numpy())
        return np.array(np.broadcast_to(array, shape)) if array.ndim == 0 or array.shape == shape else None
    except (ValueError, TypeError, OverflowError):
        return None


def _initial_json(tensor: ir.TensorProtocol) -> Any:
    """An initial value as JSON: one number where all elements are equal, nested lists, or None."""
    array = tensor.numpy()
    if tensor.dtype == ir.DataType.STRING:
        array = np.vectorize(lambda b: b.decode("utf-8", "replace"), otypes=[object])(array)
    elif tensor.dtype.is_floating_point():
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            return None
    if array.size and (array == array.flat[0]).all():
        first = array.flat[0]
        return first.item() if isinstance(first, np.generic) else first
    return array.tolist() if array.size <= _LISTED else None
