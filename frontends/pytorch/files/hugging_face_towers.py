"""Parts of a model of texts and pictures, each a model of its own, as runtimes load them one by one.

CLIP and its like have two encoders, `text-encoder` and `vision-encoder`. A language model that sees has a
`vision-encoder`, `embed-tokens`, and a `decoder` that takes embeddings: the runtime puts those of the pictures in the
place of the tokens that stand for them. Names of inputs and outputs are those of transformers.js.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from types import MethodType
from typing import Any

import torch

from convert.errors import UsageError
from convert.options import DimSpec, InputSpec, Options
from convert.report import Report

from ..torch_internals import FakeTensorMode
from .hugging_face_inputs import BATCH, attention_of_capture, example_values, silent_fake_tensors, tower_specs
from .hugging_face_tasks import cache_parameter

VISION, TEXT, EMBED, DECODER = "vision-encoder", "text-encoder", "embed-tokens", "decoder"
_INPUTS = {VISION: ("pixel_values",), TEXT: ("input_ids", "attention_mask"), EMBED: ("input_ids",)}


def tower_names(model: Any) -> list[str]:
    """The parts that a model can be converted in; none for a model without a part for pictures."""
    if getattr(model.config, "is_encoder_decoder", False) or not hasattr(model, "get_image_features"):
        return []
    if hasattr(model, "get_text_features"):
        return [TEXT, VISION]
    takes_embeddings = "inputs_embeds" in inspect.signature(type(model).forward).parameters
    decodes = takes_embeddings and cache_parameter(type(model)) and model.can_generate()
    return [VISION, EMBED, DECODER] if decodes else [VISION]


def check_tower(model: Any, part: str) -> None:
    """Raise `UsageError` for a part that a model without an encoder and a decoder does not have."""
    names = tower_names(model)
    if not names:
        raise UsageError(f"{type(model).__name__} is no encoder with a decoder", hint="leave out --part")
    if part not in names:
        raise UsageError(f"{type(model).__name__} has no part {part!r}", hint=f"its parts are {', '.join(names)}")


def with_tower_forward(model: Any, part: str, options: Options) -> Any:
    """A shallow copy of `model` whose forward computes an encoder or the embedding of tokens, with tensors alone."""
    model = copy.copy(model)
    specs = tower_specs(model, _INPUTS[part], options)
    if part == VISION and _takes_pictures_apart(model, specs):
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


def _takes_pictures_apart(model: Any, specs: list[InputSpec]) -> bool:
    """Whether the features are a list with an item for each picture, whose number is then a fact of the capture."""
    if any(s.shape is None for s in specs):
        return False
    with torch.no_grad(), silent_fake_tensors(), FakeTensorMode(allow_non_fake_inputs=True):
        try:
            found = model.get_image_features(**example_values(specs, {str(BATCH.name): 2}))
        except Exception:  # whatever a forward raises; the capture tells
            return False
    return not isinstance(getattr(found, "pooler_output", found), torch.Tensor)


def note_single_picture(specs: tuple[InputSpec, ...], report: Report) -> None:
    """Say that a vision encoder takes one picture, where nobody asked for another number."""
    for spec in specs:
        if spec.name == "pixel_values" and spec.assumed and spec.shape and spec.shape[0].size == 1:
            others = ",".join(str(d) for d in spec.shape[1:])
            report.note(
                "pixel_values is one picture: the model takes pictures apart one by one; "
                f"--input pixel_values:{spec.dtype}[N,{others}] with a number for N sets another",
                code="fixed-dim",
            )


def _features(found: Any) -> torch.Tensor:
    """The embeddings in what a tower gives: since transformers 5 one of several; pictures are joined."""
    rows = found if isinstance(found, (torch.Tensor, list, tuple)) else found.pooler_output
    return rows if isinstance(rows, torch.Tensor) else torch.cat(list(rows), 0)
