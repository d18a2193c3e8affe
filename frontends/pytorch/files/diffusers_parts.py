"""The parts of a diffusers pipeline as separate models, with the inputs and outputs that optimum's runtime feeds."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MethodType
from typing import Any

import torch

from convert.errors import Unsupported, UsageError
from convert.files.folders import PIPELINE_INDEX
from convert.request.options import DimSpec, InputSpec, Options

from .diffusers_index import AUTOENCODERS, DECODER, ENCODER, components, read_index
from .hugging_face_inputs import BATCH, SEQUENCE, attention_of_capture
from .hugging_face_tasks import PART

_HEIGHT, _WIDTH = DimSpec(name="height"), DimSpec(name="width")
_PACKED = DimSpec(name="packed_height_width")

Specs = list[InputSpec]
Tensors = dict[str, torch.Tensor]


# -- the inputs of each class -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Class:
    """A class of diffusers: its inputs, and the name of its output.

    specs: returns the inputs for a configuration. inside: the inputs that forward takes in a dict, with its name.
    decode: the inputs of the second half of an autoencoder.
    """

    specs: Callable[[Mapping[str, Any]], Specs]
    output: str
    inside: Mapping[str, Sequence[str]] | None = None
    decode: Callable[[Mapping[str, Any]], Specs] | None = None


def _floats(name: str, *dims: DimSpec | int) -> InputSpec:
    return InputSpec(name, "float32", tuple(DimSpec(d) if isinstance(d, int) else d for d in dims), assumed=True)


def _refuse(config: Mapping[str, Any], **usual: Sequence[Any]) -> None:
    """Raise `Unsupported` for an entry with a value that asks for inputs that are not known."""
    for key, known in usual.items():
        if config.get(key) not in known:
            raise Unsupported(f"{config.get('_class_name')} with {key} {config.get(key)!r}: its inputs are not known")


def _class_labels(config: Mapping[str, Any]) -> Specs:
    kind = config.get("class_embed_type")
    if kind in ("projection", "simple_projection"):
        return [_floats("class_labels", BATCH, config["projection_class_embeddings_input_dim"])]
    if kind in ("timestep", "identity"):
        width = [] if kind == "timestep" else [4 * config["block_out_channels"][0]]
        return [_floats("class_labels", BATCH, *width)]
    return [InputSpec("class_labels", "int64", (BATCH,), assumed=True)] if config.get("num_class_embeds") else []


def _unet(config: Mapping[str, Any]) -> Specs:
    image = _floats("sample", BATCH, config["in_channels"], _HEIGHT, _WIDTH)
    return [image, _floats("timestep"), *_class_labels(config)]


def _unconditioned_unet(config: Mapping[str, Any]) -> Specs:
    """Return the inputs of UNet2DModel, of the size that it was trained for.

    Unlike UNet2DConditionModel it takes multiples of its factors alone, and generates pictures of one size.
    """
    _, *others = _unet(config)
    size = config.get("sample_size") or (_HEIGHT, _WIDTH)
    height, width = (size, size) if isinstance(size, int) else size
    return [_floats("sample", BATCH, config["in_channels"], height, width), *others]


def _conditioned_unet(config: Mapping[str, Any]) -> Specs:
    """Return the inputs of UNet2DConditionModel, in the order of optimum's exporter."""
    _refuse(config, encoder_hid_dim_type=(None, "text_proj"), addition_embed_type=(None, "text", "text_time"))
    width = config["encoder_hid_dim"] if config.get("encoder_hid_dim_type") else config["cross_attention_dim"]
    widths = set(width) if isinstance(width, (list, tuple)) else {width}
    if len(widths) > 1:
        raise Unsupported(f"UNet2DConditionModel with cross_attention_dim {width}: its inputs are not known")
    image, timestep, *labels = _unet(config)
    specs = [image, timestep, _floats("encoder_hidden_states", BATCH, SEQUENCE, widths.pop())]
    if config.get("addition_embed_type") == "text_time":
        # SDXL has six numbers on the size and crop of the picture; its refiner has five.
        step, whole = config["addition_time_embed_dim"], config["projection_class_embeddings_input_dim"]
        count = config.get("time_ids", 6)
        specs += [_floats("text_embeds", BATCH, whole - count * step), _floats("time_ids", BATCH, count)]
    if config.get("time_cond_proj_dim"):
        specs.append(_floats("timestep_cond", BATCH, config["time_cond_proj_dim"]))
    return specs + labels


def _joint_transformer(config: Mapping[str, Any]) -> Specs:
    """Return the inputs of the transformer of Stable Diffusion 3, whose table of positions limits the sizes."""
    longest = config["pos_embed_max_size"] * config["patch_size"]
    sizes = (replace(dim, low=config["patch_size"], high=longest) for dim in (_HEIGHT, _WIDTH))
    return [
        _floats("hidden_states", BATCH, config["in_channels"], *sizes),
        _floats("encoder_hidden_states", BATCH, SEQUENCE, config["joint_attention_dim"]),
        _floats("pooled_projections", BATCH, config["pooled_projection_dim"]),
        _floats("timestep", BATCH),
    ]


def _flux(config: Mapping[str, Any]) -> Specs:
    specs = [
        _floats("hidden_states", BATCH, _PACKED, config["in_channels"]),
        _floats("encoder_hidden_states", BATCH, SEQUENCE, config["joint_attention_dim"]),
        _floats("pooled_projections", BATCH, config["pooled_projection_dim"]),
        _floats("timestep", BATCH),
        _floats("txt_ids", SEQUENCE, 3),
        _floats("img_ids", _PACKED, 3),
    ]
    return [*specs, _floats("guidance", BATCH)] if config.get("guidance_embeds") else specs


def _pixels(config: Mapping[str, Any]) -> Specs:
    sizes = DimSpec(name="sample_height"), DimSpec(name="sample_width")
    return [_floats("sample", BATCH, config["in_channels"], *sizes)]


def _latents(config: Mapping[str, Any]) -> Specs:
    sizes = DimSpec(name="latent_height"), DimSpec(name="latent_width")
    return [_floats("latent_sample", BATCH, config["latent_channels"], *sizes)]


CLASSES: Mapping[str, _Class] = {
    "UNet2DConditionModel": _Class(_conditioned_unet, "out_sample", {"added_cond_kwargs": ("text_embeds", "time_ids")}),
    "UNet2DModel": _Class(_unconditioned_unet, "out_sample"),
    "SD3Transformer2DModel": _Class(_joint_transformer, "out_hidden_states"),
    "FluxTransformer2DModel": _Class(_flux, "out_hidden_states"),
    "AutoencoderKL": _Class(_pixels, "sample", decode=_latents),
    "AutoencoderTiny": _Class(_pixels, "sample", decode=_latents),
}
"""The classes of diffusers whose inputs are known."""


# -- forward ----------------------------------------------------------------------------------------------------------


def with_diffusers_forward(model: Any, path: Path, folder: Path, options: Options) -> Any:
    """Return a shallow copy of `model` whose forward computes the requested part, with tensors as inputs and outputs.

    path: the pipeline, or the folder with a single model. folder: that of the model. Raises `Unsupported` for unknown
    inputs, and `UsageError` for a part that the model does not have.
    """
    name, part = type(model).__name__, PART.of(options)
    model = copy.copy(model)
    if name not in CLASSES:
        specs, compute = _text_encoder(model, _has_hidden_states(path))
    else:
        config = {**model.config, **_of_pipeline(path)}
        row = CLASSES[name]
        halves = name in AUTOENCODERS
        if halves and part not in (ENCODER, DECODER):
            raise UsageError(f"{folder} is an autoencoder of two parts", hint=f"give --part {ENCODER} or {DECODER}")
        specs = row.decode(config) if row.decode is not None and part == DECODER else row.specs(config)
        compute = {ENCODER: _encode, DECODER: _decode}[part] if halves else _denoise(row)
    return _with_forward(model, _with_user_shapes(specs, options), compute)


def _with_forward(model: Any, specs: Specs, compute: Callable[[Any, Tensors], Tensors]) -> Any:
    names = [str(s.name) for s in specs]

    def part_forward(self: Any, *tensors: torch.Tensor, **named: torch.Tensor) -> Tensors:
        with attention_of_capture():
            return compute(self, {**dict(zip(names, tensors, strict=False)), **named})

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    part_forward.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])  # type: ignore
    part_forward.specs = specs  # type: ignore
    model.forward = MethodType(part_forward, model)
    return model


def _with_user_shapes(specs: Specs, options: Options) -> Specs:
    """Return the inputs with the user's dtypes and shapes. Raises `UsageError` for an input that there is not."""
    given = {str(s.name): s for s in options.inputs}
    if unknown := sorted(set(given) - {str(s.name) for s in specs}):
        raise UsageError(
            f"there is no input {', '.join(unknown)}", hint=f"the inputs are {', '.join(str(s.name) for s in specs)}"
        )
    users = ((s, given.get(str(s.name), InputSpec())) for s in specs)
    return [replace(s, dtype=u.dtype or s.dtype, shape=u.shape or s.shape, assumed=u.shape is None) for s, u in users]


def _of_pipeline(path: Path) -> dict[str, Any]:
    """Return what a pipeline says about the inputs of its UNet: the count of its `time_ids`."""
    index = read_index(path) if (path / PIPELINE_INDEX).is_file() else {}
    return {"time_ids": 5} if index.get("requires_aesthetics_score") else {}


def _has_hidden_states(path: Path) -> bool:
    """Return whether a pipeline reads the states between the layers of its CLIP encoders, as those with a projected
    text embedding do: Stable Diffusion XL and 3.
    """
    return "CLIPTextModelWithProjection" in components(path).values()


def _text_encoder(model: Any, hidden: bool) -> tuple[Specs, Callable[[Any, Tensors], Tensors]]:
    """Return the inputs and the computation of a text encoder: tokens without a mask, as the pipelines call it."""
    longest = getattr(model.config, "max_position_embeddings", None)
    hidden = hidden and longest is not None  # T5 has relative positions, and no pipeline reads its layers
    length = DimSpec(name=SEQUENCE.name, high=longest)

    def compute(self: Any, values: Tensors) -> Tensors:
        found = type(self).forward(self, **values, output_hidden_states=hidden, return_dict=True)
        tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
        states = found["hidden_states"] if hidden else ()
        return tensors | {f"hidden_states.{i}": state for i, state in enumerate(states)}

    return [InputSpec("input_ids", "int64", (BATCH, length), assumed=True)], compute


def _encode(model: Any, values: Tensors) -> Tensors:
    """Return the parameters of the distribution of latents; a model without one has the latents themselves."""
    found = model.encode(values["sample"])
    if hasattr(found, "latent_dist"):
        return {"latent_parameters": found.latent_dist.parameters}
    return {"latent_sample": found.latents}


def _decode(model: Any, values: Tensors) -> Tensors:
    return {"sample": model.decode(values["latent_sample"], return_dict=False)[0]}


def _denoise(row: _Class) -> Callable[[Any, Tensors], Tensors]:
    def compute(self: Any, values: Tensors) -> Tensors:
        given: dict[str, Any] = dict(values)
        for place, names in (row.inside or {}).items():
            if found := {n: given.pop(n) for n in names if n in given}:
                given[place] = found
        return {row.output: type(self).forward(self, **given, return_dict=False)[0]}

    return compute
