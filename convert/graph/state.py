"""State: inputs that receive an output of the previous call. Writes and reads their initial values."""

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
"""Initial values of at most this many elements are written element by element."""
_FILLED = 1 << 26
"""Largest number of elements that one number in a file may stand for as an initial value."""


@dataclass(frozen=True)
class State:
    """The indices of a state among the inputs and outputs of a graph; `initial` is its initial value, if known."""

    name: str
    variable: str
    input: int
    output: int
    initial: np.ndarray | None


def write_states(model: ir.Model, states: Mapping[str, tuple[str, ir.TensorProtocol]]) -> dict[str, Any]:
    """Record in the metadata which inputs are state. `states` maps each to its variable and its initial value.

    Returns the initial values as they are written: one number for all elements, nested lists, or None.
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
    """Return the states in the metadata of `model`, in the order of its inputs.

    A state without its output, or whose output has another dtype or shape, is left out. Malformed metadata is ignored,
    because anybody can write some.
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
    """Return the initial value of a state; None if it is unknown or the state has no static shape."""
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
    """Return an initial value as JSON: one number if all elements are equal, nested lists, or None."""
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
