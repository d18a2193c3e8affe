"""Folders saved by timm: the transformers class that they need, its configuration, and the image size.

Their config.json has `architecture`, `num_classes` and `pretrained_cfg`, and neither `architectures` nor `model_type`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMM = "timm_wrapper"
"""The type of these models in transformers."""
_CLASSIFICATION = "image-classification"
_OWN_ARGUMENTS = ("num_classes",)
"""Arguments of `timm.create_model` that transformers passes itself; timm 1.0.31 writes them into config.json as
well.
"""


def is_timm(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json is timm's, by the same criterion as transformers."""
    return config.get("model_type", TIMM) == TIMM and "pretrained_cfg" in config


def timm_task(config: Mapping[str, Any]) -> str:
    """Return the task of a timm folder: classification if the network has classes, else "", which means its
    features.
    """
    described = config["pretrained_cfg"] if isinstance(config["pretrained_cfg"], Mapping) else {}
    return _CLASSIFICATION if config.get("num_classes", described.get("num_classes", 0)) else ""


def timm_arguments(transformers: Any, path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `from_pretrained` for a timm folder: its configuration, from which transformers can build."""
    if not is_timm(config):
        return {}
    made = transformers.AutoConfig.from_pretrained(str(path), local_files_only=True)
    given = getattr(made, "model_args", None) or {}
    made.model_args = {name: value for name, value in given.items() if name not in _OWN_ARGUMENTS} or None
    return {"config": made}


def timm_image_size(config: Any) -> tuple[int, int, int] | None:
    """Return channels, height and width of the images of a timm network; None for any other model."""
    described = getattr(config, "pretrained_cfg", None)
    size = described.get("input_size") if isinstance(described, Mapping) else None
    if not isinstance(size, (list, tuple)) or len(size) != 3:
        return None
    arguments = getattr(config, "model_args", None) or {}
    channels, height, width = size
    given = arguments.get("img_size") or (height, width)
    height, width = given if isinstance(given, (list, tuple)) else (given, given)
    return int(arguments.get("in_chans") or channels), int(height), int(width)
