"""The cache of a decoder as inputs and outputs: keys and values of attention, states of convolutions and recurrences.

Names are those that transformers.js looks for: `past_key_values.0.key` and `present.0.key`, `past_conv.1` and
`present_conv.1`. A first call takes keys and values of length 0, and states of zeros.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from convert.errors import Unsupported
from convert.request.options import DimSpec, InputSpec

from .hugging_face_tasks import cache_parameter

PAST, PRESENT = "past_key_values", "present"
"""`--input past_key_values:float32` makes a decoder's cache inputs and outputs."""
_STATES = ("conv", "recurrent")
_PARAMETER = re.compile(rf"({PAST}|past_conv|past_recurrent|past_ssm)_(\d+(?:_\w+)?)")
_INPUT = re.compile(rf"(?:{PAST}|past_conv|past_recurrent|past_ssm)\.\d.*")


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
    return [(_name(model, PRESENT, "present", *place), tensor) for *place, tensor in _tensors(cache)]


def cache_specs(model: Any, sizes: Mapping[str, Any]) -> list[InputSpec]:
    """Return the inputs for a cache. `sizes` are forward's inputs for a run on fake tensors, of 2 rows and 3 tokens.

    Must be called inside of `fake_run`. Raises `Unsupported` for caches of another kind, and for recurrences that
    transformers continues with a single token only.
    """
    rows, length = sizes["input_ids"].shape
    cache = model.forward(**sizes, use_cache=True, return_dict=True).get(cache_parameter(model))
    specs = []
    for layer, part, index, tensor in _tensors(cache):
        known = tensor.shape[0] == rows and (part in _STATES or (tensor.dim() == 4 and tensor.shape[2] == length))
        if not known:
            specs = []
            break
        dims = [DimSpec(name="batch_size"), *map(DimSpec, tensor.shape[1:])]
        if part not in _STATES:
            dims[2] = DimSpec(name="past_sequence_length")
        name = _name(model, PAST, "past", layer, part, index).replace(".", "_")
        specs.append(InputSpec(name, str(tensor.dtype).removeprefix("torch."), tuple(dims)))
    # Attention says how many tokens there were, which the mask needs.
    if not any(str(s.name).endswith("_key") for s in specs):
        raise Unsupported(
            f"the cache of {type(model).__name__} has no keys and values of attention",
            hint="--task text-generation converts the model without it",
        )
    if hasattr(sys.modules[type(model).__module__], "mamba_selective_scan"):
        raise Unsupported(
            f"transformers continues the state of {type(model).__name__} by one token at a time only",
            hint="--task text-generation converts the model without its cache",
        )
    return specs


def filled_cache(tensors: Mapping[str, torch.Tensor]) -> Any:
    """Return a cache of transformers with these tensors, which are named as the parameters of a forward."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    layers: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        found = _PARAMETER.fullmatch(name)
        assert found is not None
        number, _, half = found[2].partition("_")
        part = half if found[1] == PAST else "_".join(filter(None, (found[1].removeprefix("past_"), half)))
        layers.setdefault(int(number), {})[part] = tensor
    cache = DynamicCache()
    for number in range(max(layers) + 1):
        given = layers.get(number, {})
        states = {part: tensor for part, tensor in given.items() if part not in ("key", "value")}
        layer = _layer_with_states(states, len(states) < len(given)) if states else DynamicLayer()
        if "key" in given:
            layer.update(given["key"], given["value"])
        cache.layers.append(layer)
    return cache


def _layer_with_states(states: Mapping[str, torch.Tensor], attends: bool) -> Any:
    """Return a layer of a cache whose states are known, so that a forward continues from them."""
    from transformers.cache_utils import LinearAttentionAndFullAttentionLayer, LinearAttentionLayer

    count = max(int(part.partition("_")[2] or 0) for part in states) + 1
    layer: Any = (LinearAttentionAndFullAttentionLayer if attends else LinearAttentionLayer)(number_of_states=count)
    for part, tensor in states.items():
        kind, _, index = part.partition("_")
        update = layer.update_conv_state if kind == "conv" else layer.update_recurrent_state
        update(tensor, state_idx=int(index or 0))
    return layer


def _tensors(cache: Any) -> Iterator[tuple[int, str, int, torch.Tensor]]:
    """Yield the tensors of a cache, each with its layer, its part of it and its number among equal parts."""
    for number, layer in enumerate(getattr(cache, "layers", ())):
        for part in ("key", "value"):
            if (tensor := getattr(layer, f"{part}s", None)) is not None:
                yield number, part, 0, tensor
        for part in _STATES:
            for index, tensor in getattr(layer, f"{part}_states", {}).items():
                if tensor is not None:
                    yield number, part, index, tensor


def _name(model: Any, attention: str, states: str, layer: int, part: str, index: int) -> str:
    if part not in _STATES:
        return f"{attention}.{layer}.{part}"
    # transformers.js calls a recurrence of Mamba a state space model.
    mamba = any("mamba" in key for key in vars(model.config.get_text_config()))
    kind = "ssm" if part == "recurrent" and mamba else part
    return f"{states}_{kind}.{layer}{f'.{index}' if index else ''}"
