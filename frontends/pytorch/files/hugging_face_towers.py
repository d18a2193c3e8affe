"""Parts of a text and image model as separate models, as runtimes load them.

CLIP and similar models have two encoders, `text-encoder` and `vision-encoder`. A vision language model has a
`vision-encoder`, `embed-tokens`, and a `decoder` that takes embeddings: the runtime replaces the image tokens'
embeddings by those of the images. Names of inputs and outputs are those of transformers.js.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from types import MethodType
from typing import Any

import torch

from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.options import DimSpec, InputSpec, Options

from .hugging_face_inputs import BATCH, attention_of_capture, example_values, tower_specs, trial_run
from .hugging_face_tasks import cache_parameter

VISION, TEXT, EMBED, DECODER = "vision-encoder", "text-encoder", "embed-tokens", "decoder"
_INPUTS = {VISION: ("pixel_values",), TEXT: ("input_ids", "attention_mask"), EMBED: ("input_ids",)}


def tower_names(model: Any) -> list[str]:
    """Return the parts that a model can be converted in; empty for a model without an image part."""
    if getattr(model.config, "is_encoder_decoder", False) or not hasattr(model, "get_image_features"):
        return []
    if hasattr(model, "get_text_features"):
        return [TEXT, VISION]
    takes_embeddings = "inputs_embeds" in inspect.signature(type(model).forward).parameters
    decodes = takes_embeddings and cache_parameter(type(model)) and model.can_generate()
    return [VISION, EMBED, DECODER] if decodes else [VISION]


def check_tower(model: Any, part: str) -> None:
    """Raise `UsageError` if a model that is not an encoder-decoder has no part named `part`."""
    names = tower_names(model)
    if not names:
        raise UsageError(f"{type(model).__name__} is no encoder with a decoder", hint="leave out --part")
    if part not in names:
        raise UsageError(f"{type(model).__name__} has no part {part!r}", hint=f"its parts are {', '.join(names)}")


def with_tower_forward(model: Any, part: str, options: Options) -> Any:
    """Return a shallow copy of `model` whose forward computes an encoder or the token embedding, with tensors only."""
    model = copy.copy(model)
    specs = tower_specs(model, _INPUTS[part], options)
    if part == VISION and _splits_images(model, specs):
        specs = [replace(s, shape=(DimSpec(1), *(s.shape or ())[1:])) if s.assumed else s for s in specs]
    names = [str(s.name) for s in specs]

    def tower_forward(self: Any, *tensors: torch.Tensor, **named: torch.Tensor) -> dict[str, torch.Tensor]:
        values = {**dict(zip(names, tensors, strict=False)), **named}
        if part == EMBED:
            return {"inputs_embeds": self.get_input_embeddings()(values["input_ids"])}
        with attention_of_capture():
            if part == TEXT:
                return {"text_embeds": _features(self.get_text_features(**values))}
            output = "image_embeds" if hasattr(self, "get_text_features") else "image_features"
            return {output: _features(self.get_image_features(**values))}

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    tower_forward.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])  # type: ignore
    tower_forward.specs = specs  # type: ignore
    model.forward = MethodType(tower_forward, model)
    return model


def _splits_images(model: Any, specs: list[InputSpec]) -> bool:
    """Return whether the features are a list with an item per image, so that their number is fixed by the capture."""
    if any(s.shape is None for s in specs):
        return False
    with trial_run(model):
        try:
            found = model.get_image_features(**example_values(specs, {str(BATCH.name): 2}))
        except Exception:  # any exception of a forward; the capture reports it
            return False
    return not isinstance(getattr(found, "pooler_output", found), torch.Tensor)


def note_single_image(specs: tuple[InputSpec, ...], report: Report) -> None:
    """Note that a vision encoder takes one image, if the user asked for no other number."""
    for spec in specs:
        if spec.name == "pixel_values" and spec.assumed and spec.shape and spec.shape[0].size == 1:
            others = ",".join(str(d) for d in spec.shape[1:])
            report.note(
                "pixel_values is one picture, because the model splits pictures one by one; set another number N with "
                f"--input pixel_values:{spec.dtype}[N,{others}]",
                code="fixed-dim",
            )


def _features(found: Any) -> torch.Tensor:
    """Return the embeddings in a part's result, one of several since transformers 5; images are concatenated."""
    rows = found if isinstance(found, (torch.Tensor, list, tuple)) else found.pooler_output
    return rows if isinstance(rows, torch.Tensor) else torch.cat(list(rows), 0)
