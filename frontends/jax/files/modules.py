"""Modules in memory, as functions of their parameters: Flax NNX, Flax Linen, Equinox, and Keras on JAX."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import UsageError
from convert.graph.inputs import match_specs
from convert.request.options import DimSpec, InputSpec

from ..program import distinct, io_name

Weights = list[tuple[str, Any]]
"""The parameters of a module by path."""


@dataclass(frozen=True)
class OpenedModule:
    """A module as a function of a list of its parameters and of its inputs.

    inputs: the inputs that the module or the user describes. outputs: names, if the module has them. signature: a
    callable with the module's own parameters. notes: what the user should know about the module's state.
    """

    weights: Weights
    function: Callable[..., Any]
    inputs: Sequence[InputSpec]
    signature: Any
    outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def open_module(module: Any, inputs: Sequence[InputSpec]) -> OpenedModule:
    """Open a module in memory; `inputs` are the user's specs. Raises `UsageError` if its parameters are unknown."""
    classes = {f"{c.__module__}.{c.__qualname__}" for c in type(module).__mro__}
    if KERAS_LAYER in classes:
        return _open_keras(module, inputs)
    notes: tuple[str, ...] = ()
    if "flax.linen.module.Module" in classes:
        weights, function = _open_linen(module)
    elif "flax.nnx.module.Module" in classes:
        weights, function = _open_nnx(module)
        notes = _training_notes(module)
    else:
        weights, function = _open_equinox(module)
    return OpenedModule(weights, function, inputs, module, notes=notes)


def _open_linen(bound: Any) -> tuple[Weights, Callable[..., Any]]:
    """Open a Linen module that is bound to its variables: `module.bind(variables)`."""
    if bound.scope is None:
        raise UsageError(
            "a module of Flax Linen without its variables", hint="bind them: convert.convert(module.bind(variables), …)"
        )
    module, variables = bound.unbind()
    return _with_leaves(variables, lambda leaves, *args, **kwargs: module.apply(leaves, *args, **kwargs))


def _open_nnx(module: Any) -> tuple[Weights, Callable[..., Any]]:
    nnx = importlib.import_module("flax.nnx")
    graph, state = nnx.split(module)
    plain = nnx.to_pure_dict(state)

    def call(leaves: Any, *args: Any, **kwargs: Any) -> Any:
        filled = nnx.split(module)[1]
        nnx.replace_by_pure_dict(filled, leaves)
        return nnx.merge(graph, filled)(*args, **kwargs)

    return _with_leaves(plain, call)


def _training_notes(module: Any) -> tuple[str, ...]:
    """Return a note if modules of NNX draw random numbers or use the statistics of a batch, as in training."""
    found = sorted({
        type(inner).__name__ for _, inner in module.iter_modules()
        if getattr(inner, "use_running_average", None) is False
        or (getattr(inner, "deterministic", None) is False and getattr(inner, "rate", 1) > 0)
    })  # fmt: skip
    if not found:
        return ()
    return (f"{', '.join(found)} in training mode, and converted so; call module.eval() first for inference",)


def _open_equinox(module: Any) -> tuple[Weights, Callable[..., Any]]:
    eqx = importlib.import_module("equinox")
    arrays, rest = eqx.partition(module, eqx.is_array)
    return _with_leaves(arrays, lambda leaves, *args, **kwargs: eqx.combine(leaves, rest)(*args, **kwargs))


def _with_leaves(tree: Any, call: Callable[..., Any]) -> tuple[Weights, Callable[..., Any]]:
    """Return the arrays in a tree by path, and `call` as a function of a list of them; random keys stay constants."""
    import jax

    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = distinct([io_name(jax.tree_util.keystr(path), f"weight{i}") for i, (path, _) in enumerate(leaves)])
    arrays = [i for i, (_, leaf) in enumerate(leaves) if not _is_key(leaf)]

    def function(weights: list[Any], *args: Any, **kwargs: Any) -> Any:
        filled = [leaf for _, leaf in leaves]
        for place, weight in zip(arrays, weights, strict=True):
            filled[place] = weight
        return call(jax.tree_util.tree_unflatten(structure, filled), *args, **kwargs)

    return [(names[i], leaves[i][1]) for i in arrays], function


def _is_key(leaf: Any) -> bool:
    import jax

    return jax.dtypes.issubdtype(getattr(leaf, "dtype", np.dtype("float32")), jax.dtypes.prng_key)


KERAS_LAYER = "keras.src.backend.jax.layer.JaxLayer"
"""The class that all layers and models of Keras have as a base if Keras runs on JAX."""


def _open_keras(model: Any, inputs: Sequence[InputSpec]) -> OpenedModule:
    """Open a Keras model or layer in inference mode. A functional model knows its inputs, others need `inputs`."""
    tree = importlib.import_module("keras").tree
    if not model.built:
        raise UsageError(
            f"the Keras model {model.name!r} has no weights yet", hint="call it on an example first, or build it"
        )
    trainable, others = list(model.trainable_variables), list(model.non_trainable_variables)
    names = distinct([v.path for v in (*trainable, *others)])
    weights = [(n, v.value) for n, v in zip(names, (*trainable, *others), strict=True)]
    structures = getattr(model, "_functional", None) or model  # a Sequential keeps a functional model inside
    structure = getattr(structures, "_inputs_struct", None)
    mode = {"training": False} if "training" in inspect.signature(model.call).parameters else {}

    def function(leaves: list[Any], *args: Any, **kwargs: Any) -> Any:
        first, second = leaves[: len(trainable)], leaves[len(trainable) :]
        if structure is not None:
            args = (tree.pack_sequence_as(structure, list(args)),)
        outputs, _ = model.stateless_call(first, second, *args, **kwargs, **mode)
        flat = tree.flatten(outputs)
        return flat if len(flat) > 1 else flat[0]

    if structure is None:
        return OpenedModule(weights, function, inputs, model.call)
    own = _keras_names(structure, model.inputs)
    given = match_specs(own, inputs)
    specs = [_keras_spec(name, tensor, given.get(name)) for name, tensor in zip(own, model.inputs, strict=True)]
    outputs = [f"{n}_output" if n in own else n for n in _keras_names(structures._outputs_struct, model.outputs)]
    return OpenedModule(weights, function, specs, None, outputs=tuple(distinct(outputs)))


def _keras_names(structure: Any, tensors: Sequence[Any]) -> list[str]:
    """Return keys if inputs or outputs are a dict, else the names of the layers that they belong to."""
    flat = structure if isinstance(structure, Mapping) else {}
    keys = sorted(flat) if len(flat) == len(tensors) else []
    return distinct(keys or [tensor._keras_history.operation.name for tensor in tensors])


def _keras_spec(name: str, tensor: Any, given: InputSpec | None) -> InputSpec:
    """Return the spec of a model's own input; sizes that it leaves open are the user's, or named dims."""
    if given is not None and given.shape is not None and len(given.shape) == len(tensor.shape):
        return InputSpec(name, tensor.dtype, given.shape)
    label = "".join(c if c.isalnum() else "_" for c in name)
    dims = [
        DimSpec(size=size) if size is not None else DimSpec(name="batch" if axis == 0 else f"{label}_d{axis}")
        for axis, size in enumerate(tensor.shape)
    ]
    return InputSpec(name, tensor.dtype, tuple(dims))
