"""The cache of a decoder as inputs and outputs: keys and values of attention, and states of convolutions.

Names are those that transformers.js looks for: `past_key_values.0.key` and `present.0.key`, `past_conv.1` and
`present_conv.1`. A first call takes keys and values of length 0, and states of zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from convert.errors import Unsupported
from convert.request.options import DimSpec, InputSpec

from .hugging_face_tasks import cache_parameter

PAST, PRESENT = "past_key_values", "present"
"""`--input past_key_values:float32` makes a decoder's cache inputs and outputs."""
_CONV, _RECURRENT = "conv", "recurrent"
_PARAMETER = re.compile(rf"({PAST}|past_{_CONV})_(\d+(?:_\w+)?)")
_INPUT = re.compile(rf"(?:{PAST}|past_{_CONV})\.\d.*")


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


def cache_outputs(cache: Any) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors of a cache by the names of their outputs."""
    rows = _tensors(cache)
    return [(_name(PRESENT, "present", layer, part, index), tensor) for layer, part, index, tensor in rows]


def cache_specs(model: Any, sizes: Mapping[str, Any]) -> list[InputSpec]:
    """Return the inputs for a cache. `sizes` are forward's inputs for a run on fake tensors, of 2 rows and 3 tokens.

    Must be called inside of `fake_run`. Raises `Unsupported` for caches of another kind, such as states of recurrences:
    transformers computes these by chunks, whose number a capture of any length does not know.
    """
    rows, length = sizes["input_ids"].shape
    cache = model.forward(**sizes, use_cache=True, return_dict=True).get(cache_parameter(model))
    specs: list[InputSpec] = []
    fits = True
    for layer, part, index, tensor in _tensors(cache):
        dims = [DimSpec(name="batch_size"), *map(DimSpec, tensor.shape[1:])]
        if part in ("key", "value"):
            fits &= tensor.dim() == 4 and tensor.shape[2] == length
            dims[2:3] = [DimSpec(name="past_sequence_length")]
        fits &= part != _RECURRENT and tensor.shape[0] == rows
        name = _name(PAST, "past", layer, part, index).replace(".", "_")
        specs.append(InputSpec(name, str(tensor.dtype).removeprefix("torch."), tuple(dims)))
    # Keys of attention say how many tokens there were, which the mask needs.
    if not fits or not any(str(s.name).endswith("_key") for s in specs):
        raise Unsupported(
            f"the cache of {type(model).__name__} is not made of keys and values, and of states of convolutions",
            hint="--task text-generation converts the model without it",
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
        part = half if found[1] == PAST else f"{_CONV}_{half}"
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
        layer.update_conv_state(tensor, state_idx=int(part.partition("_")[2] or 0))
    return layer


def _tensors(cache: Any) -> Iterator[tuple[int, str, int, torch.Tensor]]:
    """Yield the tensors of a cache, each with its layer, its part of it and its number among equal parts."""
    for number, layer in enumerate(getattr(cache, "layers", ())):
        for part in ("key", "value"):
            if (tensor := getattr(layer, f"{part}s", None)) is not None:
                yield number, part, 0, tensor
        for part in (_CONV, _RECURRENT):
            for index, tensor in getattr(layer, f"{part}_states", {}).items():
                if tensor is not None:
                    yield number, part, index, tensor


def _name(attention: str, states: str, layer: int, part: str, index: int) -> str:
    if part in ("key", "value"):
        return f"{attention}.{layer}.{part}"
    return f"{states}_{part}.{layer}{f'.{index}' if index else ''}"
