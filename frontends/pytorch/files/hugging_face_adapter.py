"""Merges a LoRA adapter, as peft saves it, into the weights of a Hugging Face model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from convert import limits
from convert.errors import BadInput, Unsupported, UsageError
from convert.files.counted_json import parse_json
from convert.files.folders import check_files
from convert.files.sniff import sniff
from convert.outcome.report import Report

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
        found = re.fullmatch(r"(.+)\.lora_(?:embedding_)?([AB])(?:\.weight)?", name)
        if found is not None:
            factors.setdefault(found[1], {})[found[2]] = tensor
        else:
            whole[name] = tensor
    saved = config.get("modules_to_save") or []
    for name, tensor in whole.items():
        module, _, weight = name.rpartition(".")
        base = module.removesuffix(_BASE)
        if base not in factors and not _is_saved(module, saved):
            raise Unsupported(f"{path / WEIGHTS} has {name}, which is no part of LoRA", hint=_MERGE)
        _change(model, base if base in factors else module, weight, tensor, path)
    for name, pair in factors.items():
        if set(pair) != {"A", "B"}:
            raise BadInput(f"{path / WEIGHTS} has one of the two matrices of {name}", hint="get the adapter again")
        _change(model, name, "weight", _product(model, name, pair, config), path, adds=True)
    count = len(factors) + len(whole)
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
    sniff(path / WEIGHTS)
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
    from safetensors.torch import load_file

    return config, load_file(path / WEIGHTS)


def _product(
    model: torch.nn.Module, name: str, pair: Mapping[str, torch.Tensor], config: Mapping[str, Any]
) -> torch.Tensor:
    """Return what is added to the weight of a layer."""
    a, b = pair["A"].float(), pair["B"].float()
    if a.dim() != 2 or b.dim() != 2 or a.shape[0] != b.shape[1]:
        shapes = f"{list(a.shape)} and {list(b.shape)}"
        raise Unsupported(f"the matrices of {name} are {shapes}, which have no product", hint=_MERGE)
    rank = a.shape[0]
    alpha = _value_for(name, config.get("alpha_pattern"), config.get("lora_alpha", 8))
    product = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank) * (b @ a)
    layer = _layer(model, name)
    # Embeddings and GPT-2's Conv1D keep their weights as [inputs, outputs].
    return product.T if isinstance(layer, torch.nn.Embedding) or type(layer).__name__ == "Conv1D" else product


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


def _change(
    model: torch.nn.Module, module: str, name: str, given: torch.Tensor, path: Path, *, adds: bool = False
) -> None:
    """Replace a weight by `given`, or by its sum with it. Raises `BadInput` if there is none of this shape."""
    layer = _layer(model, module)
    old = getattr(layer, name, None)
    hint = "give the folder of the model that the adapter was trained on"
    if layer is None or not isinstance(old, torch.nn.Parameter):
        text = f"{path} has weights for {module}.{name}, which {type(model).__name__} does not have"
        raise BadInput(text, hint=hint)
    if given.shape != old.shape:
        text = f"{path} has {list(given.shape)} for {module}.{name}, which is {list(old.shape)}"
        raise BadInput(text, hint=hint)
    tied = [each for each, weight in model.named_parameters(remove_duplicate=False) if weight is old]
    if len(tied) > 1:
        raise Unsupported(f"{path} changes {' and '.join(tied)}, which are one weight", hint=_MERGE)
    new = old.detach().float() + given if adds else given
    setattr(layer, name, torch.nn.Parameter(new.to(old.dtype), requires_grad=old.requires_grad))
