"""Merges a LoRA adapter, as peft saves it, into the weights of a Hugging Face model."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from convert import limits
from convert.errors import BadInput, Unsupported, UsageError
from convert.files.counted_json import parse_json
from convert.files.folders import check_files
from convert.outcome.report import Report

from .safetensors_file import read_safetensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_BASE = ".base_layer"
"""Name of the layer below an adapter. peft saves that of an embedding too."""
_MERGE = "merge it with peft (merge_and_unload), save the result, and convert that"

_READ = frozenset(
    {"alpha_pattern", "lora_alpha", "fan_in_fan_out", "modules_to_save", "peft_type", "rank_pattern", "use_rslora"}
)
_ABOUT_TRAINING = frozenset(
    {"auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "exclude_modules", "inference_mode"}
    | {"layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core", "peft_version", "qalora_group_size"}
    | {"r", "revision", "target_modules", "task_type"}
)
_USUAL: Mapping[str, tuple[Any, ...]] = {"bias": ("none",), "init_lora_weights": (True, "gaussian")}
"""Other starts of training (PiSSA, CorDA, OLoRA) change the weights of the base model."""

_MOST_CHOICES, _REPEATED_GROUP = 3, re.compile(r"\)[*+?{]")
"""Python's regular expressions take time to the power of their repetitions, and 2 to that power for groups."""


def merge_adapter(model: torch.nn.Module, path: Path, report: Report) -> None:
    """Add the adapter in the folder `path` to the weights of `model`, in place.

    Raises `BadInput` for a folder that holds no adapter or one of another model, and `Unsupported` for adapters that
    are more than products of two matrices.
    """
    config, tensors = _read_adapter(path)
    factors: dict[str, dict[str, torch.Tensor]] = {}
    whole: dict[str, torch.Tensor] = {}
    for key, tensor in tensors.items():
        name = key.removeprefix(_PREFIX)
        if not tensor.is_floating_point():
            raise BadInput(f"{path / WEIGHTS} has {name} of {tensor.dtype}", hint="get the adapter again")
        found = re.fullmatch(r"(.+)\.lora_(?:embedding_)?([AB])(?:\.weight)?", name)
        known = whole if found is None else factors.setdefault(found[1], {})
        if known.setdefault(name if found is None else found[2], tensor) is not tensor:
            raise BadInput(f"{path / WEIGHTS} has {name} twice", hint="get the adapter again")
    saved = config.get("modules_to_save") or []
    for name, tensor in whole.items():
        module, _, weight = name.rpartition(".")
        base = module.removesuffix(_BASE)
        if base not in factors and not _is_saved(module, saved):
            raise Unsupported(f"{path / WEIGHTS} has {name}, which is no part of LoRA", hint=_MERGE)
        owner = base if base in factors else module
        _weight(model, owner, weight, tensor.shape, path)
        _replace(model, owner, weight, tensor)
    for name, pair in factors.items():
        if set(pair) != {"A", "B"}:
            raise BadInput(f"{path / WEIGHTS} has one of the two matrices of {name}", hint="get the adapter again")
        _add_product(model, name, pair, config, path)
    if not (count := len(factors) + len(whole)):
        raise BadInput(f"{path / WEIGHTS} has no weights", hint="get the adapter again")
    report.note(f"the adapter in {path} was merged into {count} weights", code="merged-adapter")


def _is_saved(module: str, saved: Sequence[str]) -> bool:
    """Return whether a module, or one that holds it, is saved whole: peft compares the ends of names."""
    names = module.split(".")
    return any(".".join(names[:n]).endswith(part) for n in range(1, len(names) + 1) for part in saved)


def _read_adapter(path: Path) -> tuple[dict[str, Any], Mapping[str, torch.Tensor]]:
    if not (path / CONFIG).is_file():
        raise UsageError(f"{path} has no {CONFIG}", hint="--adapter takes the folder that peft's save_pretrained wrote")
    if not (path / WEIGHTS).exists():
        raise Unsupported(f"{path} has no {WEIGHTS}", hint=f"older adapters are pickles; {_MERGE}")
    # In the hub's cache, links lead to the folder of blobs next to its snapshots.
    root = path.parent.parent if path.absolute().parent.name == "snapshots" else path
    check_files(path, root, [CONFIG, WEIGHTS])
    try:
        with (path / CONFIG).open("rb") as file:
            config = parse_json(file.read(limits.FOLDER_CONFIG_BYTES), str(path / CONFIG))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path / CONFIG} is not JSON: {error}", hint="get the file again") from None
    if not isinstance(config, dict):
        raise BadInput(f"{path / CONFIG} is not a JSON object", hint="get the file again")
    others = {
        key: value
        for key, value in config.items()
        if value and key not in _READ | _ABOUT_TRAINING and value not in _USUAL.get(key, ())
    }
    if config.get("peft_type") != "LORA":
        others["peft_type"] = config.get("peft_type")
    if others:
        asked = ", ".join(f"{key} {str(value)[:60]}" for key, value in sorted(others.items()))
        raise Unsupported(f"{path / CONFIG} asks for {asked}", hint=_MERGE)
    _check_values(config, path / CONFIG)
    return config, read_safetensors(path / WEIGHTS)


def _check_values(config: Mapping[str, Any], file: Path) -> None:
    """Raise `BadInput` for a scale or a rank that is no number, and for modules that are no list of names.

    Raises `Unsupported` for a pattern of names that may take forever to compare.
    """
    saved, alphas, ranks = (config.get(key) or {} for key in ("modules_to_save", "alpha_pattern", "rank_pattern"))
    again = "get the adapter again"
    if saved and not (isinstance(saved, list) and all(isinstance(name, str) and name for name in saved)):
        raise BadInput(f"{file}: modules_to_save is no list of names", hint=again)
    if not isinstance(alphas, dict) or not isinstance(ranks, dict):
        raise BadInput(f"{file}: alpha_pattern or rank_pattern is no JSON object", hint=again)
    for key, values in (("lora_alpha", alphas), ("r", ranks)):
        for number in (config.get(key, 8), *values.values()):
            if type(number) not in (int, float) or not abs(number) <= sys.float_info.max:
                raise BadInput(f"{file}: {key} is {str(number)[:60]}", hint=again)
    if not isinstance(config.get("use_rslora") or False, bool):
        raise BadInput(f"{file}: use_rslora is {str(config['use_rslora'])[:60]}", hint=again)
    for pattern in (*alphas, *ranks):
        if sum(map(pattern.count, "*+?{(")) > _MOST_CHOICES or _REPEATED_GROUP.search(pattern):
            raise Unsupported(f"{file}: the pattern {pattern[:60]} is too complicated", hint=_MERGE)
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise BadInput(f"{file}: {pattern[:60]} is no pattern: {error}", hint=again) from None


def _add_product(
    model: torch.nn.Module, name: str, pair: Mapping[str, torch.Tensor], config: Mapping[str, Any], path: Path
) -> None:
    """Add the product of two matrices to the weight of a layer. Raises as `_weight`, before it is computed."""
    a, b = pair["A"].float(), pair["B"].float()
    if a.dim() != 2 or b.dim() != 2 or a.shape[0] != b.shape[1] or not a.shape[0]:
        shapes = f"{list(a.shape)} and {list(b.shape)}"
        raise Unsupported(f"the matrices of {name} are {shapes}, which have no product", hint=_MERGE)
    rank, layer = a.shape[0], _layer(model, name)
    if "r" in config and rank != (stated := _value_for(name, config.get("rank_pattern"), config["r"])):
        text = f"the matrices of {name} in {path} have rank {rank}, and {CONFIG} says {stated:g}"
        raise BadInput(text, hint="get the adapter again")
    # Embeddings and GPT-2's Conv1D keep their weights as [inputs, outputs].
    turned = isinstance(layer, torch.nn.Embedding) or type(layer).__name__ == "Conv1D"
    old = _weight(model, name, "weight", [b.shape[0], a.shape[1]][:: -1 if turned else 1], path)
    alpha = _value_for(name, config.get("alpha_pattern"), config.get("lora_alpha", 8))
    product = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank) * (b @ a)
    _replace(model, name, "weight", old.detach().float() + (product.T if turned else product))


def _value_for(name: str, pattern: Any, usual: float) -> float:
    """Return the value of the first key in `pattern`, a regular expression, that matches the end of a layer's name."""
    for key, value in (pattern or {}).items():
        if name == key or name.endswith(f".{key}") or re.fullmatch(rf"(.*\.)?({key})", name):
            return float(value)
    return float(usual)


def _layer(model: torch.nn.Module, name: str) -> torch.nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None


def _weight(model: torch.nn.Module, module: str, name: str, shape: Sequence[int], path: Path) -> torch.nn.Parameter:
    """Return a weight of a layer. Raises `BadInput` if there is none of this shape, and `Unsupported` if it is tied."""
    layer = _layer(model, module)
    weight = None if layer is None else dict(layer.named_parameters("", False, False)).get(name)
    hint = "give the folder of the model that the adapter was trained on"
    if weight is None:
        text = f"{path} has weights for {module}.{name}, which {type(model).__name__} does not have"
        raise BadInput(text, hint=hint)
    if weight.shape != tuple(shape):
        text = f"{path} has {list(shape)} for {module}.{name}, which is {list(weight.shape)}"
        raise BadInput(text, hint=hint)
    tied = [each for each, other in model.named_parameters(remove_duplicate=False) if other is weight]
    if len(tied) > 1:
        raise Unsupported(f"{path} changes {' and '.join(tied)}, which are one weight", hint=_MERGE)
    return weight


def _replace(model: torch.nn.Module, module: str, name: str, new: torch.Tensor) -> None:
    """Replace a weight by a tensor of its shape, in its dtype."""
    layer = model.get_submodule(module)
    old = layer.get_parameter(name)
    setattr(layer, name, torch.nn.Parameter(new.to(old.dtype), requires_grad=old.requires_grad))
