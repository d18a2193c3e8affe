"""The modules of sentence-transformers after a folder's transformer: pooling, dense layers, normalization.

modules.json lists the modules with their folders. The outputs are `last_hidden_state` and `sentence_embedding`:
optimum, sentence-transformers, transformers.js and text-embeddings-inference look for one of these names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from convert import limits
from convert.errors import BadInput, UnsafeInput, Unsupported
from convert.files.counted_json import parse_json
from convert.files.folders import check_files

from .hugging_face_tasks import MODULES_FILE
from .safetensors_file import read_safetensors

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_WITHOUT = "--task feature-extraction converts the transformer alone"


class SentenceModules(nn.Module):
    """The modules after the transformer, in order; the first of them pools."""

    def __init__(self, steps: list[nn.Module]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Return the outputs by name, for embeddings [batch, length, width] and a mask [batch, length] or None."""
        mask = tokens.new_ones(tokens.shape[:2]) if mask is None else mask.to(tokens.dtype)
        pool, *others = self.steps
        sentence = pool(tokens, mask)
        for step in others:
            sentence = step(sentence)
        return {"last_hidden_state": tokens, "sentence_embedding": sentence}


# -- pooling ----------------------------------------------------------------------------------------------------------


def _mean(tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return _sum(tokens, weights) / _count(weights)


def _sum(tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (tokens * weights.unsqueeze(-1)).sum(1)


def _count(weights: torch.Tensor) -> torch.Tensor:
    return weights.sum(1, keepdim=True).clamp(min=1e-9)


def _max(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return tokens.masked_fill(mask.unsqueeze(-1) == 0, -1e9).amax(1)


def _weighted_mean(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    places = torch.arange(1, mask.shape[1] + 1, dtype=mask.dtype, device=mask.device)
    return _mean(tokens, mask * places)


def _last(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the last unmasked token, with padding on either side."""
    places = torch.arange(1, mask.shape[1] + 1, dtype=mask.dtype, device=mask.device)
    last = (mask * places).argmax(1)
    rows = torch.arange(tokens.shape[0], device=tokens.device)
    return (tokens * mask.unsqueeze(-1))[rows, last]


_POOLINGS: dict[str, tuple[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "cls": ("pooling_mode_cls_token", lambda tokens, mask: tokens[:, 0]),
    "max": ("pooling_mode_max_tokens", _max),
    "mean": ("pooling_mode_mean_tokens", _mean),
    "mean_sqrt_len_tokens": (
        "pooling_mode_mean_sqrt_len_tokens", lambda tokens, mask: _sum(tokens, mask) / _count(mask).sqrt()
    ),
    "weightedmean": ("pooling_mode_weightedmean_tokens", _weighted_mean),
    "lasttoken": ("pooling_mode_lasttoken", _last),
}  # fmt: skip
"""Each pooling mode by name, with its key in older configurations, in the order of concatenation."""


class _Pooling(nn.Module):
    def __init__(self, modes: list[str]) -> None:
        super().__init__()
        self.modes = modes

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([pool(tokens, mask) for name, (_, pool) in _POOLINGS.items() if name in self.modes], 1)


class _Normalize(nn.Module):
    def forward(self, sentence: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(sentence, p=2, dim=1)


# -- the folder -------------------------------------------------------------------------------------------------------


def module_folders(path: Path) -> list[tuple[str, Path]]:
    """Return the modules after the transformer, each as the last part of its class name and its folder.

    Raises `BadInput` for a damaged list, `UnsafeInput` for a folder elsewhere, `Unsupported` for another first module.
    """
    file = path / MODULES_FILE
    check_files(path, _root(path), [MODULES_FILE])
    rows = _read_json(file)
    known = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if not known or not all(isinstance(row.get(key), str) for row in rows for key in ("type", "path")):
        raise BadInput(f"{file} is no list of modules with their types and folders", hint="get the file again")
    found = [(str(row["type"]).rpartition(".")[2], Path(row["path"])) for row in rows]
    for _, folder in found:
        if folder.is_absolute() or ".." in folder.parts:
            raise UnsafeInput(f"{file} names {folder}, outside of the model's folder", hint="copy the module into it")
    if not found or found[0] != ("Transformer", Path()):
        first = " in ".join(map(str, found[0])) if found else "nothing"
        raise Unsupported(f"{file} begins with {first}, and not with a Transformer in the folder itself", hint=_WITHOUT)
    return [(kind, path / folder) for kind, folder in found[1:]]


def load_sentence_modules(path: Path) -> SentenceModules:
    """Return the modules of a folder, with weights. Raises as `module_folders`, and `Unsupported` for one without a
    rule.
    """
    steps: list[nn.Module] = []
    for kind, folder in module_folders(path):
        if kind not in _BUILDERS or (kind == "Pooling") == bool(steps):
            raise Unsupported(f"{path / MODULES_FILE} has a {kind} in {folder.name} at this place", hint=_WITHOUT)
        config = {}
        if (folder / "config.json").exists():
            check_files(path, _root(path), [str(folder.relative_to(path) / "config.json")])
            config = _read_json(folder / "config.json")
        if not isinstance(config, dict):
            raise BadInput(f"{folder / 'config.json'} is not a JSON object", hint="get the file again")
        steps.append(_BUILDERS[kind](path, folder, config))
    if not steps:
        raise Unsupported(f"{path / MODULES_FILE} has no Pooling", hint=_WITHOUT)
    return SentenceModules(steps).eval()


def pickled_module_weights(path: Path) -> list[Path]:
    """Return the files of the modules' folders that are loaded as pickles."""
    files = [folder / _WEIGHTS[1] for _, folder in module_folders(path) if not (folder / _WEIGHTS[0]).exists()]
    return [file for file in files if file.is_file()]


def _root(path: Path) -> Path:
    """Return the folder that links of a folder may lead to; in the hub's cache, that of the blobs next to its
    snapshots.
    """
    return path.parent.parent if path.absolute().parent.name == "snapshots" else path


def _read_json(file: Path) -> Any:
    try:
        with file.open("rb") as content:
            return parse_json(content.read(limits.FOLDER_CONFIG_BYTES), str(file))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is not JSON: {error}", hint="get the file again") from None


def _refuse_others(folder: Path, config: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise `Unsupported` for an entry that no rule reads and whose value is not the usual one."""
    other = {k: v for k, v in config.items() if v is not None and (k not in known or known[k] not in (..., v))}
    if other:
        text = ", ".join(f"{key} {json.dumps(value)[:60]}" for key, value in other.items())
        raise Unsupported(f"{folder / 'config.json'} asks for {text}", hint=_WITHOUT)


def _build_pooling(path: Path, folder: Path, config: dict[str, Any]) -> nn.Module:
    older = {key: name for name, (key, _) in _POOLINGS.items()}
    usual = {"word_embedding_dimension": ..., "embedding_dimension": ..., "pooling_mode": ..., "include_prompt": True}
    _refuse_others(folder, config, {**usual, **dict.fromkeys(older, ...)})
    given = config.get("pooling_mode")
    if given:
        modes = [str(m) for m in given] if isinstance(given, list) else str(given).lower().split("+")
    else:
        modes = [name for key, name in older.items() if config.get(key, name == "mean")]
    unknown = sorted(set(modes) - set(_POOLINGS))
    if unknown or not modes:
        raise Unsupported(f"{folder / 'config.json'} pools by {', '.join(unknown) or 'nothing'}", hint=_WITHOUT)
    return _Pooling(modes)


_ACTIVATIONS = {
    kind.__module__ + "." + kind.__name__: kind
    for kind in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Softplus)
}


_PLACES = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
"""Entries of modules that may work on the embeddings of tokens instead."""


def _build_dense(path: Path, folder: Path, config: dict[str, Any]) -> nn.Module:
    sizes = dict.fromkeys(("in_features", "out_features", "bias", "activation_function"), ...)
    _refuse_others(folder, config, {**sizes, **_PLACES})
    name = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if name not in _ACTIVATIONS:
        raise Unsupported(f"{folder / 'config.json'} has the activation {str(name)[:100]}", hint=_WITHOUT)
    weights = _load_weights(path, folder)
    matrix = weights.get("linear.weight")
    wanted = (config.get("out_features"), config.get("in_features"))
    if matrix is None or tuple(matrix.shape) != wanted or ("linear.bias" in weights) != config.get("bias", True):
        raise BadInput(f"the weights in {folder} are not those that its config.json describes", hint="get both again")
    linear = nn.Linear(matrix.shape[1], matrix.shape[0], bias="linear.bias" in weights, device="meta")
    return nn.Sequential(_assign(linear, weights, "linear.", folder), _ACTIVATIONS[name]())


def _build_norm(path: Path, folder: Path, config: dict[str, Any]) -> nn.Module:
    _refuse_others(folder, config, {"dimension": ...})
    weights = _load_weights(path, folder)
    if "norm.weight" not in weights:
        raise BadInput(f"{folder} lacks norm.weight", hint="get the folder again")
    return _assign(nn.LayerNorm(weights["norm.weight"].shape[0], device="meta"), weights, "norm.", folder)


def _build_normalize(path: Path, folder: Path, config: dict[str, Any]) -> nn.Module:
    _refuse_others(folder, config, _PLACES)
    return _Normalize()


def _build_dropout(path: Path, folder: Path, config: dict[str, Any]) -> nn.Module:
    return nn.Identity()


_BUILDERS: dict[str, Callable[[Path, Path, dict[str, Any]], nn.Module]] = {
    "Pooling": _build_pooling,
    "Normalize": _build_normalize,
    "Dense": _build_dense,
    "LayerNorm": _build_norm,
    "Dropout": _build_dropout,
}


def _load_weights(path: Path, folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a module's folder, as data; their archive has been checked."""
    file = next((folder / name for name in _WEIGHTS if (folder / name).exists()), folder / _WEIGHTS[0])
    check_files(path, _root(path), [str(file.relative_to(path))])
    if file.suffix == ".safetensors":
        return read_safetensors(file)
    try:
        return dict(torch.load(file, map_location="cpu", weights_only=True))
    except Exception as error:
        raise BadInput(f"{file} could not be loaded: {type(error).__name__}: {error}", hint="get it again") from error


def _assign(layer: nn.Module, weights: Mapping[str, torch.Tensor], prefix: str, folder: Path) -> nn.Module:
    try:
        layer.load_state_dict({k.removeprefix(prefix): v for k, v in weights.items()}, assign=True)
    except (RuntimeError, TypeError, AttributeError) as error:
        text = " ".join(str(error).split())[:300]
        raise BadInput(f"the weights in {folder} do not fit: {text}", hint="get the folder again") from None
    return layer
