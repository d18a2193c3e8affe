"""Reads weights that GPTQ, AWQ and compressed-tensors packed into 32-bit words, without the libraries of their kernels.

All of them store integers of a few bits without gaps, lowest bits first. A group of inputs has a scale and a zero
point: `weight = scale * (integer - zero_point)`. The product is exact in float32. It is rounded once, to the dtype of
the scales, as in these libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from convert.errors import BadInput, Unsupported
from convert.files.folders import shards
from convert.outcome.report import Report

from .safetensors_file import read_safetensors

_WORD = 32
_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place in a word of AWQ's GEMM layout of each of its eight columns."""
_VECTORS = frozenset({"g_idx", "weight_g_idx", "weight_shape", "weight_scale"})
"""Tensors of a layer that need not be matrices."""
_HINT = "load it with its own library, and save the result of model.dequantize()"

Tensors = dict[str, torch.Tensor]


def is_packed(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration says that the weights are packed in a way that is read here."""
    found = config.get("quantization_config")
    if not isinstance(found, dict):
        return False
    method = found.get("quant_method")
    return method in ("gptq", "awq") or (method == "compressed-tensors" and found.get("format") == "pack-quantized")


def unpack_weights(path: Path, config: Mapping[str, Any], report: Report) -> Tensors:
    """Return the weights of a folder by name, with packed ones as floating-point numbers.

    `config` must fulfil `is_packed`. Raises `BadInput` for tensors that do not belong together, and `Unsupported` for a
    layout that is not read.
    """
    quantization = config["quantization_config"]
    layout = _LAYOUTS[str(quantization["quant_method"])]
    options = layout.options(quantization)
    stored = _load_tensors(path)
    layers: dict[str, Tensors] = {
        name.rpartition(".")[0]: {} for name in stored if name.endswith(f".{layout.parts[0]}")
    }
    for name in list(stored):
        layer, _, part = name.rpartition(".")
        if layer in layers and part in layout.parts:
            layers[layer][part] = stored.pop(name)
    for layer, given in layers.items():
        try:
            _check_parts(given, layout.parts[:3])
            weight = layout.function(**given, **options)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            raise BadInput(
                f"the packed weights of {layer} in {path} do not fit together: {text}", hint="get the folder again"
            ) from error
        except Unsupported as error:
            raise Unsupported(f"{layer} in {path}: {error.sentence}", hint=error.hint) from None
        if stored.setdefault(f"{layer}.weight", weight) is not weight:
            raise BadInput(f"{layer} in {path} has packed weights and others", hint="get the folder again")
    report.note(f"the weights of {len(layers)} layers were unpacked from {layout.title}", code="unpacked-weights")
    return stored


def refuse_transposed(model: torch.nn.Module, path: Path) -> None:
    """Raise `Unsupported` for GPT-2's layers, which keep their weights as [inputs, outputs]."""
    if any(type(layer).__name__ == "Conv1D" for layer in model.modules()):
        raise Unsupported(f"{path} has packed weights of layers as GPT-2 has them", hint=_HINT)


def _load_tensors(path: Path) -> Tensors:
    whole, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if whole.is_file():  # it takes precedence over all others, as in transformers
        return read_safetensors(whole)
    names = shards(index) if index.is_file() else [file.name for file in sorted(path.glob("*.safetensors"))]
    if not names:
        raise Unsupported(f"{path} has packed weights in pickles", hint="save them as safetensors")
    found: Tensors = {}
    for name in names:
        tensors = read_safetensors(path / name)
        if twice := sorted(found.keys() & tensors.keys()):
            raise BadInput(f"{path} has {twice[0]} in several files", hint="get the folder again")
        found |= tensors
    return found


# -- integers in words ------------------------------------------------------------------------------------------------


def _check_parts(parts: Tensors, needed: Sequence[str]) -> None:
    """Raise `ValueError` if a tensor of a layer is missing or empty, is no matrix where one is needed, or has a wrong
    dtype.
    """
    if missing := [name for name in needed if name not in parts]:
        raise ValueError(f"there is no {missing[0]}")
    for name, tensor in parts.items():
        if not tensor.numel() or (tensor.dim() != 2 and name not in _VECTORS):
            raise ValueError(f"{name} has the shape {list(tensor.shape)}")
        if tensor.is_complex() or tensor.is_floating_point() != name.endswith(("scales", "scale")):
            raise ValueError(f"{name} is {str(tensor.dtype).removeprefix('torch.')}")


def _unpack_bits(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the integers that are packed along the last dim of 32-bit words, lowest bits first, without gaps."""
    if words.dtype != torch.int32:
        raise ValueError(f"words of {str(words.dtype).removeprefix('torch.')}")
    values = words.to(torch.int64) & 0xFFFFFFFF
    count = words.shape[-1] * _WORD // bits
    first = torch.arange(count) * bits
    word, shift = first // _WORD, first % _WORD
    pairs = torch.nn.functional.pad(values, (0, 1))
    both = pairs[..., word] | (pairs[..., word + 1] << _WORD)
    return (both >> shift) & ((1 << bits) - 1)


def _dequantize(
    integers: torch.Tensor, zeros: torch.Tensor | int, scales: torch.Tensor, groups: torch.Tensor
) -> torch.Tensor:
    """Return [outputs, inputs] for integers [outputs, inputs], and zero points and scales [outputs, groups].

    groups: the group of each input. Raises `ValueError` if the shapes differ: PyTorch would repeat a single row or
    column, and would take groups below zero from the end.
    """
    count = scales.shape[1]
    if integers.shape != (scales.shape[0], *groups.shape):
        raise ValueError(f"integers {list(integers.shape)} for {scales.shape[0]} outputs and {groups.numel()} inputs")
    if isinstance(zeros, torch.Tensor) and zeros.shape != scales.shape:
        raise ValueError(f"zero points {list(zeros.shape)} for scales {list(scales.shape)}")
    if bool(((groups < 0) | (groups >= count)).any()):
        raise ValueError(f"an input is of a group that is not one of {count}")
    shift = zeros[:, groups] if isinstance(zeros, torch.Tensor) else zeros
    exact = (integers - shift).to(torch.float32) * scales.to(torch.float32)[:, groups]
    return exact.to(scales.dtype)


def _equal_groups(inputs: int, scales: torch.Tensor) -> torch.Tensor:
    """Return the group of each input, for as many groups as there are scales [outputs, groups]."""
    count = scales.shape[1]
    if inputs % count:
        raise ValueError(f"{inputs} inputs are not {count} groups of one size")
    return torch.arange(inputs) // (inputs // count)


# -- the layouts ------------------------------------------------------------------------------------------------------


def _unpack_gptq(
    qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor, g_idx: torch.Tensor | None = None, *, offset: int
) -> torch.Tensor:
    """Return [outputs, inputs] of words [inputs * bits / 32, outputs] and [groups, outputs * bits / 32].

    g_idx: the group of each input, if these were ordered by their activations. offset: what is added to zero points.
    """
    outputs = scales.shape[1]
    bits, rest = divmod(qzeros.shape[1] * _WORD, outputs)
    if rest or not 1 <= bits <= 8:
        raise ValueError(f"zero points of {qzeros.shape[1]} words for {outputs} outputs")
    zeros = _unpack_bits(qzeros, bits)[:, :outputs].T
    if offset and bool((zeros == (1 << bits) - 1).any()):
        raise Unsupported(
            "a zero point is the largest number of its bits less one, which writers of GPTQ store in different ways",
            hint=_HINT,
        )
    integers = _unpack_bits(qweight.T, bits)
    groups = _equal_groups(integers.shape[1], scales.T) if g_idx is None else g_idx.to(torch.int64)
    return _dequantize(integers, zeros + offset, scales.T, groups)


def _unpack_awq(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return [outputs, inputs] of words [inputs, outputs / 8] and [groups, outputs / 8], in the order of AWQ."""
    order = torch.tensor(_AWQ_ORDER)
    integers, zeros = (
        _unpack_bits(words, 4).unflatten(1, (-1, 8))[..., order].flatten(1).T for words in (qweight, qzeros)
    )
    return _dequantize(integers, zeros, scales.T, _equal_groups(integers.shape[1], scales.T))


def _unpack_compressed(
    weight_packed: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_shape: torch.Tensor,
    weight_zero_point: torch.Tensor | None = None,
    weight_g_idx: torch.Tensor | None = None,
    *,
    bits: int,
) -> torch.Tensor:
    """Return [outputs, inputs] of words [outputs, inputs * bits / 32]; zero points are packed along the outputs."""
    outputs, inputs = weight_shape.tolist()
    integers = _unpack_bits(weight_packed, bits)[:, :inputs]
    if list(integers.shape) != [outputs, inputs]:
        raise ValueError(f"integers {list(integers.shape)} for a weight of {[outputs, inputs]}")
    one = weight_scale.numel() == 1  # for the whole tensor
    scales = weight_scale.reshape(1, 1).expand(outputs, 1) if one else weight_scale.reshape(outputs, -1)
    zeros: torch.Tensor | int = 1 << (bits - 1)
    if weight_zero_point is not None:
        zeros = _unpack_bits(weight_zero_point.T, bits)[:, :outputs].T
    # The library fills the groups with -1 where inputs are not ordered.
    if weight_g_idx is None or bool((weight_g_idx == -1).any()):
        groups = _equal_groups(inputs, scales)
    else:
        groups = weight_g_idx.to(torch.int64)
    return _dequantize(integers, zeros, scales, groups)


@dataclass(frozen=True)
class _Layout:
    """How one library packs the weights of a layer.

    parts: the names of a layer's tensors, that of its integers first; each layer has the first three. options: returns
    the arguments of `function` that the configuration tells; raises `Unsupported` for what is not read.
    """

    title: str
    parts: tuple[str, ...]
    function: Callable[..., torch.Tensor]
    options: Callable[[Mapping[str, Any]], dict[str, Any]]


def _gptq_options(config: Mapping[str, Any]) -> dict[str, Any]:
    layout = config.get("checkpoint_format") or config.get("format") or "gptq"
    if layout not in ("gptq", "gptq_v2"):
        raise Unsupported(f"GPTQ weights in the layout {layout!r} are not read", hint=_HINT)
    return {"offset": 1 if layout == "gptq" else 0}


def _awq_options(config: Mapping[str, Any]) -> dict[str, Any]:
    version, bits = str(config.get("version", "gemm")).lower(), config.get("bits", config.get("w_bit", 4))
    if version != "gemm" or bits != 4:
        raise Unsupported(f"AWQ weights of {bits} bits in the layout {version!r} are not read", hint=_HINT)
    return {}


def _compressed_options(config: Mapping[str, Any]) -> dict[str, Any]:
    found = config.get("config_groups")
    groups = [*found.values()] if isinstance(found, dict) else []
    weights = [w for g in groups if isinstance(g, dict) and isinstance(w := g.get("weights"), dict)]
    if not groups or len(weights) < len(groups):
        raise Unsupported("compressed-tensors whose config_groups do not describe the weights are not read", hint=_HINT)
    computed = [k for g in groups for k in ("input_activations", "output_activations") if g.get(k)]
    computed += ["kv_cache_scheme"] if config.get("kv_cache_scheme") else []
    if computed:
        raise Unsupported(f"compressed-tensors that quantize {computed[0]} while they run are not read", hint=_HINT)
    bits = [w.get("num_bits") for w in weights]
    # Releases differ in how they pack other numbers of bits.
    if bits[0] not in (2, 4, 8) or any(each != bits[0] for each in bits):
        raise Unsupported("compressed-tensors are read if all weights have 2, 4 or 8 bits", hint=_HINT)
    return {"bits": bits[0]}


_LAYOUTS: Mapping[str, _Layout] = {
    "gptq": _Layout("GPTQ", ("qweight", "qzeros", "scales", "g_idx"), _unpack_gptq, _gptq_options),
    "awq": _Layout("AWQ", ("qweight", "qzeros", "scales"), _unpack_awq, _awq_options),
    "compressed-tensors": _Layout(
        "compressed-tensors",
        ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"),
        _unpack_compressed,
        _compressed_options,
    ),
}
