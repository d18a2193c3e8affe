"""An encoder with a decoder as separate models, which runtimes use to generate.

- The encoder runs once.
- The decoder runs once on the first token, and returns keys and values of both halves.
- The decoder with a cache runs for every further token. It does not return the keys and values of the encoder's states,
  which stay the same.

Names and order of inputs and outputs are the usual ones.
"""

from __future__ import annotations

import copy
import inspect
from types import MethodType
from typing import Any

import torch

from convert.errors import Unsupported, UsageError
from convert.request.options import DimSpec, InputSpec, Options

from ..torch_internals import NEEDS_CONTENT
from .hugging_face_cache import PAST, PRESENT
from .hugging_face_inputs import (
    BATCH,
    DECODER_SEQUENCE,
    ENCODER_SEQUENCE,
    PAST_DECODER_SEQUENCE,
    attention_of_capture,
    encoder_specs,
    trial_run,
)
from .hugging_face_tasks import cache_parameter

ENCODER, DECODER, WITH_CACHE = "encoder", "decoder", "decoder-with-past"
_HALVES = ("decoder", "encoder")
_STATES, _MASK = "encoder_hidden_states", "encoder_attention_mask"


def with_part_forward(model: Any, part: str, options: Options) -> Any:
    """Return a shallow copy of `model` whose forward computes one part of it, with tensors as inputs and outputs.

    Raises `UsageError` for a model that is no encoder with a decoder, or for requested inputs.
    """
    if not getattr(model.config, "is_encoder_decoder", False) or not hasattr(model, "get_encoder"):
        raise UsageError(f"{type(model).__name__} is no encoder with a decoder", hint="leave out --part")
    model = copy.copy(model)
    main, *rest = encoder_specs(model)
    masked = any(s.name == "attention_mask" for s in rest)
    layers, width = _sizes(model, main)
    known = {
        ENCODER: lambda: [main, *rest],
        DECODER: lambda: _decoder_specs(masked, width),
        WITH_CACHE: lambda: [*_decoder_specs(masked, None), *_past_specs(layers)],
    }
    if part not in known:
        raise UsageError(f"{type(model).__name__} has no part {part!r}", hint=f"its parts are {', '.join(known)}")
    specs = known[part]()
    names = [str(s.name) for s in specs]

    def part_forward(self: Any, *tensors: torch.Tensor, **named: torch.Tensor) -> dict[str, torch.Tensor]:
        values = {**dict(zip(names, tensors, strict=False)), **named}
        with attention_of_capture():
            if part == ENCODER:
                return {"last_hidden_state": self.get_encoder()(**values, return_dict=True).last_hidden_state}
            return _decode(self, values, part == WITH_CACHE, width)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    part_forward.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])  # type: ignore
    part_forward.specs = specs  # type: ignore
    model.forward = MethodType(part_forward, model)
    return model


def _decode(model: Any, values: dict[str, torch.Tensor], cached: bool, width: int) -> dict[str, torch.Tensor]:
    from transformers import DynamicCache, EncoderDecoderCache
    from transformers.modeling_outputs import BaseModelOutput

    past, cache_name = None, cache_parameter(type(model))
    states = values.get(_STATES)
    if cached:
        rows = [values[n] for n in values if n.startswith(f"{PAST}_")]
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
        own, others = (DynamicCache(ddp_cache_data=pairs[half::2]) for half in (0, 1))
        past = EncoderDecoderCache(own, others)
        # These inputs are unused, because their keys and values are in the cache. Their length determines the mask.
        states = rows[2].new_zeros(rows[2].shape[0], rows[2].shape[2], width)
    found = type(model).forward(
        model,
        encoder_outputs=BaseModelOutput(last_hidden_state=states),
        decoder_input_ids=values["input_ids"],
        **({"attention_mask": values[_MASK]} if _MASK in values else {}),
        **{cache_name: past},
        use_cache=True,
        return_dict=True,
    )
    outputs = {"logits": found.logits}
    cache = found[cache_name]
    halves = {"decoder": cache.self_attention_cache, "encoder": cache.cross_attention_cache}
    for index in range(len(halves["decoder"].layers)):
        for half in _HALVES[:1] if cached else _HALVES:
            layer = halves[half].layers[index]
            outputs[f"{PRESENT}.{index}.{half}.key"] = layer.keys
            outputs[f"{PRESENT}.{index}.{half}.value"] = layer.values
    return outputs


def _decoder_specs(masked: bool, width: int | None) -> list[InputSpec]:
    """Return a decoder's inputs besides its cache; the encoder's states, of size `width`, in the first call only."""
    specs = [InputSpec(_MASK, "int64", (BATCH, ENCODER_SEQUENCE))] if masked else []
    specs.append(InputSpec("input_ids", "int64", (BATCH, DECODER_SEQUENCE)))
    states = InputSpec(_STATES, "float32", (BATCH, ENCODER_SEQUENCE, DimSpec(width)))
    return [*specs, states] if width is not None else specs


def _past_specs(layers: list[list[tuple[int, int]]]) -> list[InputSpec]:
    lengths = {"decoder": PAST_DECODER_SEQUENCE, "encoder": ENCODER_SEQUENCE}
    return [
        InputSpec(f"{PAST}_{layer}_{half}_{part}", "float32", (BATCH, DimSpec(heads), lengths[half], DimSpec(size)))
        for layer, halves in enumerate(layers)
        for half, (heads, size) in zip(_HALVES, halves, strict=True)
        for part in ("key", "value")
    ]


def _first_call(model: Any, main: InputSpec, *, content: bool = False) -> Any:
    """Return what forward returns for ones of few sizes, with the cache that it makes."""
    rows, length = 2, 3
    shape = [rows, *(d.size or length for d in (main.shape or ())[1:])]
    with trial_run(model, content=content):
        given = torch.ones(shape, dtype=torch.int64 if main.dtype == "int64" else next(model.parameters()).dtype)
        ids = torch.ones(rows, length, dtype=torch.int64)
        return model.forward(**{str(main.name): given}, decoder_input_ids=ids, use_cache=True, return_dict=True)


def _sizes(model: Any, main: InputSpec) -> tuple[list[list[tuple[int, int]]], int]:
    """Return heads and head size of both halves of each layer's cache, and the width of the encoder's states.

    They come from a run on fake tensors, or on real ones if forward looks at numbers, as LED's does at its mask. Raises
    `Unsupported` if the model keeps something else.
    """
    try:
        found = _first_call(model, main)
    except NEEDS_CONTENT:
        found = _first_call(model, main, content=True)
    cache = found.get(cache_parameter(model))
    halves = [getattr(cache, f"{name}_attention_cache", None) for name in ("self", "cross")]
    tensors = [[getattr(layer, "keys", None) for layer in getattr(half, "layers", ())] for half in halves]
    if not tensors[0] or any(t is None or t.dim() != 4 for half in tensors for t in half):
        raise Unsupported(f"the cache of {type(model).__name__} is not keys and values of a decoder and an encoder")
    layers = [[(t.shape[1], t.shape[3]) for t in pair] for pair in zip(*tensors, strict=True)]
    return layers, int(found.encoder_last_hidden_state.shape[-1])
