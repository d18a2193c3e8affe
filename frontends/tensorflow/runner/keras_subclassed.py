"""Gives a Keras model that is a class with its own `call` the inputs that the user describes."""

from __future__ import annotations

import inspect
from typing import Any

from convert.errors import UsageError
from convert.request.options import Options

_HINT = 'say what call takes: inputs=["x:float32[batch,28,28,1]"], by the names of its parameters or in their order'


def with_inputs(model: Any, options: Options) -> Any:
    """Return `model`, or a functional model of the described inputs around it. Raises `UsageError` if none are
    described.

    Several inputs are passed as the parameters of `call` if these have their names, else as one list or dict.
    """
    if getattr(model, "inputs", None):
        return model
    import keras

    described = _described(options)
    if not described:
        raise UsageError(f"the inputs of the Keras model {model.name!r} are not known", hint=_hint(options))
    parameters = [n for n in inspect.signature(model.call).parameters if n not in ("training", "mask")]
    names = [name or _default_name(parameters, place) for place, (name, _, _) in enumerate(described)]
    given = {
        name: keras.Input(batch_shape=shape, dtype=dtype, name=name)
        for name, (_, shape, dtype) in zip(names, described, strict=True)
    }
    values = list(given.values())
    try:
        if len(given) == 1:
            result = model(values[0])
        elif set(given) <= set(parameters):
            result = model(**given)
        else:
            result = model(given if all(name for name, _, _ in described) else values)
    except Exception as error:
        text = " ".join(str(error).partition("Arguments received by")[0].split())[:300]
        raise UsageError(
            f"call of the Keras model {model.name!r} does not take what is described "
            f"({', '.join(f'{n} {list(v.shape)}' for n, v in given.items())}): {type(error).__name__}: {text}",
            hint=_HINT,
        ) from error
    if getattr(model, "inputs", None):  # a Sequential, which gets its inputs from its first call
        return model
    return keras.Model(values, result, name=model.name)


def batch_left_open(model: Any, shape: Any) -> Any:
    """Return the shape of an input, with a dynamic batch for a Sequential whose inputs come from a call."""
    import keras

    fixed = any(getattr(layer, "stateful", False) for layer in model.layers)
    if not isinstance(model, keras.Sequential) or fixed or not shape or shape[0] is None:
        return shape
    return (None, *shape[1:])


def _described(options: Options) -> list[tuple[str, list[int | None], str]]:
    """Return name (or none), sizes and dtype of each input."""
    if any(spec.shape is None for spec in options.inputs):
        return []
    return [(s.name or "", [d.size for d in s.shape or ()], s.dtype or "float32") for s in options.inputs]


def _hint(options: Options) -> str:
    """Return a hint with the `--input` to pass, made from arrays if there are any; arrays do not show which sizes may
    change.
    """
    shown = []
    for key, array in options.examples.items():
        dims = ",".join(["batch", *map(str, array.shape[1:])]) if array.ndim else ""
        shown.append(f'"{key + ":" if isinstance(key, str) else ""}{array.dtype}[{dims}]"')
    return f"describe what call takes: inputs=[{', '.join(shown)}]" if shown else _HINT


def _default_name(parameters: list[str], place: int) -> str:
    return parameters[place] if place < len(parameters) else f"input_{place}"
