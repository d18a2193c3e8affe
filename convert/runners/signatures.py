"""What the inputs and outputs of TensorFlow functions and Keras models are called, for readers and runners alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def keras_names(model: Any) -> tuple[list[str], list[str]]:
    """Input and output names of a built Keras model: keys where these are dicts, else their layers."""
    inputs = _ends(getattr(model, "_inputs_struct", None), model.inputs)
    return _unique(inputs), _unique(_ends(getattr(model, "_outputs_struct", None), model.outputs))


def _ends(structure: Any, tensors: Sequence[Any]) -> list[str]:
    if isinstance(structure, Mapping):
        return [".".join(map(str, path)) for path, _ in _leaves(structure)]
    return [_maker(tensor) for tensor in tensors]


def function_names(concrete: Any) -> tuple[list[str], list[str]]:
    """Input and output names of a ConcreteFunction: its arguments', and the keys (or `output_0` …) of its results."""
    captured = len(concrete.captured_inputs)
    tensors = concrete.inputs[: len(concrete.inputs) - captured]
    inputs = [_argument(t) for t in tensors]
    paths = [".".join(map(str, path)) for path, _ in _leaves(concrete.structured_outputs)]
    named = isinstance(concrete.structured_outputs, Mapping)
    outputs = paths if named else [f"output_{i}" for i in range(len(concrete.outputs))]
    return _unique(inputs), _unique(outputs)


def _argument(tensor: Any) -> str:
    """The name that the caller gave to an argument, which a placeholder keeps as an attribute."""
    try:
        return tensor.op.get_attr("_user_specified_name").decode()
    except ValueError:
        return tensor.op.name


def _maker(tensor: Any) -> str:
    history = getattr(tensor, "_keras_history", None)
    return history.operation.name if history is not None else tensor.name.partition(":")[0]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """The tensors in nested containers in TensorFlow's order: dicts by sorted keys."""
    if isinstance(value, Mapping):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key], (*path, key))]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [leaf for i, item in enumerate(value) for leaf in _leaves(item, (*path, i))]
    return [] if value is None else [(path, value)]


def _unique(names: Iterable[str]) -> list[str]:
    """`names` with `_1`, `_2` … behind those that come again."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.append(f"{name}_{count}" if count else name)
    return found
