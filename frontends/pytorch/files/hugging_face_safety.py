"""Refuses Hugging Face folders that refer transformers elsewhere: to code, to the hub, to files outside the folder.

This check goes by names. There is a second barrier: such a folder is loaded offline, in a thread that cannot write
files, connect or start programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convert.errors import BadInput, UnsafeInput
from convert.files.folders import shards

_KERNELS = re.compile(r"_?(attn|experts)_implementation(_internal)?")
_NETWORKS = ("architecture", "backbone")
"""Prefixes of network names that timm and transformers interpret as locations: `hf-hub:user/name`,
`local-dir:/folder`.
"""
_PICKLES = ("pytorch_model*.bin", "diffusion_pytorch_model*.bin")
_WHOLE = ("model.safetensors", "diffusion_pytorch_model.safetensors")
_ARGUMENTS = ("model_args", "backbone_kwargs")
_ELSEWHERE = ("cache_dir", "checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay")
"""Arguments of `timm.create_model` that say where weights come from."""


def check_folder(path: Path) -> None:
    """Raise `UnsafeInput` for a configuration that needs code or the hub, `BadInput` for an adapter.

    An older or newer transformers may use `config.1.2.3.json` in place of config.json.
    """
    for file in configurations(path):
        try:
            config = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise BadInput(f"{file} is not JSON: {error}", hint="get the file again") from None
        found = list(entries(config))
        if code := [text for key, value in found if key == "auto_map" for text in _texts(value)]:
            raise UnsafeInput(f"{path} brings code of its own ({', '.join(code)})", hint="if you trust it, add --trust")
        if places := sorted({place for key, value in found for place in _places(key, value)}):
            raise UnsafeInput(
                f"{file} sends transformers elsewhere: {', '.join(places)[:1000]}",
                hint="only what is in the folder is read; save the whole model into it",
            )
    if (path / "adapter_config.json").exists():
        raise BadInput(
            f"{path} holds an adapter, which belongs to a model that is not in the folder",
            hint=f"give the folder of that model, and --adapter {path}",
        )


def pickled_weights(path: Path) -> list[Path]:
    """Return the files of a folder that transformers may load as pickles."""
    indices = [f for pattern in ("*.safetensors", *_PICKLES) for f in path.glob(f"{pattern}.index.json")]
    names = {name for index in indices for name in shards(index)}
    if not any((path / name).exists() for name in _WHOLE):  # this file takes precedence over all others
        names |= {file.name for pattern in _PICKLES for file in path.glob(pattern)}
    return [path / name for name in sorted(names) if not name.endswith(".safetensors") and (path / name).is_file()]


def configurations(path: Path) -> list[Path]:
    """Return the files that transformers may use as the model's configuration."""
    return [path / "config.json", *sorted(path.glob("config.*.json"))]


def entries(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, at any depth."""
    waiting = [config]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield from item.items()
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _texts(value: Any) -> list[str]:
    """Return the strings and numbers in a value, in order."""
    if isinstance(value, (dict, list)):
        return [text for part in (value.values() if isinstance(value, dict) else value) for text in _texts(part)]
    return [str(value)]


def _places(key: str, value: Any) -> list[str]:
    """Return the files outside the folder that an entry of a configuration names."""
    if _KERNELS.fullmatch(key):
        return [f"{key} {text!r}" for text in _texts(value) if "/" in text]
    if key in _NETWORKS:
        return [f"{key} {text!r}" for text in _texts(value) if re.search(r"[:/\\]", text)]
    if key == "transformers_weights":
        return [f"{key} {text!r}" for text in _texts(value) if re.search(r"[/\\]|\.bin$", text)]
    if key in _ARGUMENTS and isinstance(value, dict):
        return [f"{name} {value[name]!r}" for name in _ELSEWHERE if value.get(name)]
    return []
