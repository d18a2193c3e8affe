"""Reads weights that GPTQ, AWQ and compressed-tensors packed into 32-bit words, without the libraries of their kernels.

All of them store integers of a few bits without gaps, lowest bits first. A group of inputs has a scale and a zero
point: `weight = scale * (integer - zero_point)`. The product is exact in float32. It is rounded once, to the dtype of
the scales, as in these libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from convert.errors import BadInput, Unsupported
from convert.files.folders import shards
from convert.outcome.report import Report

_WORD = 32
_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place in a word of AWQ's GEMM layout of each of its eight columns."""
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
            stored[f"{layer}.weight"] = layout.function(**given, **options)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            raise BadInput(
                f"the packed weights of {layer} in {path} do not fit together: {text}", hint="get the folder again"
            ) from error
        except Unsupported as error:
            raise Unsupported(f"{layer} in {path}: {error.sentence}", hint=error.hint) from None
    report.note(f"the weights of {len(layers)} layers were unpacked from {layout.title}", code="unpacked-weights")
    return stored


def refuse_transposed(model: torch.nn.Module, path: Path) -> None:
    """Raise `Unsupported` for GPT-2's layers, which keep their weights as [inputs, outputs]."""
    if any(type(layer).__name__ == "Conv1D" for layer in model.modules()):
        raise Unsupported(f"{path} has packed weights of layers as GPT-2 has them", hint=_HINT)


def _load_tensors(path: Path) -> Tensors:
    from safetensors.torch import load_file

    index = path / "model.safetensors.index.json"
    names = shards(index) if index.is_file() else [file.name for file in sorted(path.glob("*.safetensors"))]
    if not names:
        raise Unsupported(f"{path} has packed weights in pickles", hint="save them as safetensors")
    found: Tensors = {}
    for name in names:
        found |= load_file(path / name)
    return found


# -- integers in words ------------------------------------------------------------------------------------------------


def _unpack_bits(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the integers that are packed along the last dim of 32-bit words, lowest bits first, without gaps."""
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

    groups: the group of each input.
    """
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
    one = weight_scale.numel() == 1  # for the whole tensor
    scales = weight_scale.reshape(1, 1).expand(outputs, 1) if one else weight_scale.reshape(outputs, -1)
    zeros: torch.Tensor | int = 1 << (bits - 1)
    if weight_zero_point is not None:
        zeros = _unpack_bits(weight_zero_point.T, bits)[:, :outputs].T
    groups = _equal_groups(inputs, scales) if weight_g_idx is None else weight_g_idx.to(torch.int64)
    return _dequantize(integers, zeros, scales, groups)


@dataclass(frozen=True)
class _Layout:
    """How one library packs the weights of a layer.

    parts: the names of a layer's tensors, that of its integers first. options: returns the arguments of `function` that
    the configuration tells; raises `Unsupported` for what is not read.
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
    groups = list((config.get("config_groups") or {}).values())
    computed = [k for g in groups for k in ("input_activations", "output_activations") if g.get(k)]
    computed += ["kv_cache_scheme"] if config.get("kv_cache_scheme") else []
    if computed:
        raise Unsupported(f"compressed-tensors that quantize {computed[0]} while they run are not read", hint=_HINT)
    bits = {g.get("weights", {}).get("num_bits") for g in groups}
    # Releases differ in how they pack other numbers of bits.
    if len(bits) != 1 or (found := bits.pop()) not in (2, 4, 8):
        raise Unsupported("compressed-tensors are read if all weights have 2, 4 or 8 bits", hint=_HINT)
    return {"bits": found}


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
