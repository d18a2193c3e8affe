"""The cache of a decoder as inputs and outputs: keys and values of attention, states of convolutions and recurrences.

Names are those that transformers.js looks for: `past_key_values.0.key` and `present.0.key`, `past_conv.1` and
`present_conv.1`, `past_ssm.1` for the state of a state space model, and `past_recurrent.1` for that of another
recurrence. A first call takes keys and values of length 0, and states of zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from convert.errors import Unsupported
from convert.request.options import DimSpec, InputSpec

from ..torch_internals import pytree
from .hugging_face_tasks import cache_parameter

PAST, PRESENT = "past_key_values", "present"
"""`--input past_key_values:float32` makes a decoder's cache inputs and outputs."""
_CONV, _SSM, _RECURRENT = "conv", "ssm", "recurrent"
_PREFIXES = f"(?:{PAST}|past_{_CONV}|past_{_SSM}|past_{_RECURRENT})"
_PARAMETER = re.compile(rf"({_PREFIXES})_(\d+(?:_\w+)?)")
_INPUT = re.compile(rf"{_PREFIXES}\.\d.*")
_WITHOUT = "--task text-generation converts the model without it"
_STATE_SIZES = ("state_size", "ssm_state_size", "mamba_d_state")
"""Names of the size of a state in the configurations of state space models."""


def is_cache_parameter(name: str) -> bool:
    """Return whether a parameter of a forward made for capture is a part of the cache."""
    return _PARAMETER.fullmatch(name) is not None


def cache_input_name(parameter: str) -> str:
    """Return the graph input for a parameter of such a forward: `past_key_values_0_key` with dots."""
    found = _PARAMETER.fullmatch(parameter)
    return parameter if found is None else f"{found[1]}.{found[2].replace('_', '.')}"


def parameter_name(name: str) -> str:
    """Return the parameter of such a forward for a graph input."""
    return name.replace(".", "_") if _INPUT.fullmatch(name) else name


def is_cache(value: Any) -> bool:
    """Return whether a value is a cache of transformers with layers."""
    return hasattr(value, "layers") and hasattr(value, "get_seq_length")


def cache_outputs(model: Any, cache: Any) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors of a cache by the names of their outputs."""
    parts = _tensors(model, cache)
    return [(_name(PRESENT, "present", layer, part, index), tensor) for layer, part, index, tensor in parts]


def cache_specs(model: Any, sizes: Mapping[str, Any]) -> list[InputSpec]:
    """Return the inputs for a cache. `sizes` are forward's inputs for a run on fake tensors, of 2 rows and 3 tokens.

    Must be called inside of `fake_run`. Raises `Unsupported` for caches that are made of other tensors.
    """
    rows, length = sizes["input_ids"].shape
    try:
        cache = model.forward(**sizes, use_cache=True, return_dict=True).get(cache_parameter(model))
    except Exception as error:  # any exception of a forward
        raise Unsupported(
            f"{type(model).__name__} does not run with a cache on tensors without content: "
            f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            hint=_WITHOUT,
        ) from error
    if not is_cache(cache):
        raise Unsupported(f"{type(model).__name__} returns no cache with layers", hint=_WITHOUT)
    specs: list[InputSpec] = []
    fits = True
    for layer, part, index, tensor in _tensors(model, cache):
        dims = [DimSpec(name="batch_size"), *map(DimSpec, tensor.shape[1:])]
        if part in ("key", "value"):
            fits &= tensor.dim() == 4 and tensor.shape[2] == length
            dims[2:3] = [DimSpec(name="past_sequence_length")]
        fits &= tensor.shape[0] == rows
        name = _name(PAST, "past", layer, part, index).replace(".", "_")
        specs.append(InputSpec(name, str(tensor.dtype).removeprefix("torch."), tuple(dims)))
    if fits and specs and not _others(cache):
        return specs
    reason = "keeps tensors beside its layers" if _others(cache) else "has other shapes than keys, values and states"
    raise Unsupported(f"the cache of {type(model).__name__} {reason}", hint=_WITHOUT)


def _others(cache: Any) -> list[str]:
    """Return the attributes of a cache that hold tensors, or lists of them, besides its layers."""
    leaves = {name: pytree.tree_leaves(value) for name, value in vars(cache).items() if name != "layers"}
    return [name for name, found in leaves.items() if any(isinstance(leaf, torch.Tensor) for leaf in found)]


def filled_cache(model: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Return a cache of transformers with these tensors, which are named as the parameters of a forward."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    layers: dict[int, dict[tuple[str, int], torch.Tensor]] = {}
    for name, tensor in tensors.items():
        found = _PARAMETER.fullmatch(name)
        assert found is not None
        number, _, rest = found[2].partition("_")
        part = (rest, 0) if found[1] == PAST else (found[1].removeprefix("past_"), int(rest or 0))
        layers.setdefault(int(number), {})[part] = tensor
    cache = DynamicCache()
    for number in range(max(layers) + 1):
        given = layers.get(number, {})
        states = {part: tensor for part, tensor in given.items() if part[0] not in ("key", "value")}
        layer = _layer_with_states(states, len(states) < len(given)) if states else DynamicLayer()
        if ("key", 0) in given:
            layer.update(given["key", 0], given["value", 0])
        cache.layers.append(layer)
    return cache


def _layer_with_states(states: Mapping[tuple[str, int], torch.Tensor], attends: bool) -> Any:
    """Return a layer of a cache whose states are known, so that a forward continues from them."""
    from transformers.cache_utils import LinearAttentionAndFullAttentionLayer, LinearAttentionLayer

    count = max(index for _, index in states) + 1
    layer: Any = (LinearAttentionAndFullAttentionLayer if attends else LinearAttentionLayer)(number_of_states=count)
    for (part, index), tensor in states.items():
        if part == _CONV:
            layer.update_conv_state(tensor, state_idx=index)
        else:
            layer.update_recurrent_state(tensor, state_idx=index)
            layer.has_previous_state[index] = True
    return layer


def _tensors(model: Any, cache: Any) -> Iterator[tuple[int, str, int, torch.Tensor]]:
    """Yield the tensors of a cache, each with its layer, its part of it and its number among equal parts."""
    config = model.config.get_text_config()
    recurrent = _SSM if any(hasattr(config, name) for name in _STATE_SIZES) else _RECURRENT
    for number, layer in enumerate(getattr(cache, "layers", ())):
        for part in ("key", "value"):
            if (tensor := getattr(layer, f"{part}s", None)) is not None:
                yield number, part, 0, tensor
        for part, states in ((_CONV, "conv_states"), (recurrent, "recurrent_states")):
            for index, tensor in getattr(layer, states, {}).items():
                if tensor is not None:
                    yield number, part, index, tensor


def _name(attention: str, states: str, layer: int, part: str, index: int) -> str:
    """Return the name of a tensor of a cache; the prefix is `attention` for keys and values, else from `states`."""
    if part in ("key", "value"):
        return f"{attention}.{layer}.{part}"
    return f"{states}_{part}.{layer}{f'.{index}' if index else ''}"
