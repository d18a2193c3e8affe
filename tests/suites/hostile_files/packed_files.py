"""Hugging Face folders of GPTQ, AWQ and compressed-tensors, with one lie in a packed tensor or in config.json.

The good folder is written by transformers, in a process of its own: `python -m tests.suites.hostile_files.packed_files
FOLDER`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import Canary, Case, file_name

SAFE, LAYER, SIZE = "model.safetensors", "model.layers.0.self_attn.q_proj", 32
METHODS: dict[str, dict[str, Any]] = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": False},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm", "zero_point": True},
    "compressed-tensors": {"quant_method": "compressed-tensors", "format": "pack-quantized",
                           "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
}  # fmt: skip
_WORDS = {"gptq": "qweight", "awq": "qweight", "compressed-tensors": "weight_packed"}
_SCALES = {"gptq": "scales", "awq": "scales", "compressed-tensors": "weight_scale"}
_ZEROS = {"gptq": "qzeros", "awq": "qzeros", "compressed-tensors": "weight_zero_point"}
Change = Callable[[dict[str, Any]], object]
"""Changes the tensors of one layer in place."""


def layer(method: str) -> dict[str, Any]:
    """Return the tensors of a good layer [32, 32] in groups of 16 inputs."""
    import torch

    words, zeros = torch.full((4, SIZE), 0x12345678, dtype=torch.int32), torch.full((2, 4), 0x11111111)
    scales = torch.full((2, SIZE), 0.1, dtype=torch.float16)
    if method == "gptq":
        groups = torch.arange(SIZE, dtype=torch.int32) // 16
        return {"qweight": words, "qzeros": zeros.int(), "scales": scales, "g_idx": groups}
    if method == "awq":
        return {"qweight": words.T.contiguous(), "qzeros": zeros.int(), "scales": scales}
    return {"weight_packed": words.T.contiguous(), "weight_scale": scales.T.contiguous(),
            "weight_shape": torch.tensor([SIZE, SIZE]), "weight_zero_point": zeros.int().T.contiguous()}  # fmt: skip


def _tensors(method: str) -> dict[str, Change]:
    """Return changes of the tensors of a layer: kinds, shapes, groups and sizes that contradict each other."""
    import torch

    words, scales, zeros = _WORDS[method], _SCALES[method], _ZEROS[method]
    found: dict[str, Change] = {}

    def lie(name: str, part: str, value: Any) -> None:
        found[f"{part} {name}"] = lambda tensors: tensors.update({part: value})

    good = layer(method)
    for part, tensor in good.items():
        found[f"no {part}"] = lambda tensors, part=part: tensors.pop(part)
        lie("without elements", part, tensor.flatten()[:0])
        lie("without elements, of two dims", part, tensor.flatten()[:0].reshape(0, 4))
        lie("without elements, of four columns", part, tensor.flatten()[:0].reshape(4, 0))
        lie("of one element", part, tensor.flatten()[:1].reshape(1, 1).contiguous())
        lie("of one row", part, tensor.reshape(tensor.shape[0], -1)[:1].contiguous())
        lie("of one column", part, tensor.reshape(tensor.shape[0], -1)[:, :1].contiguous())
        lie("in three dims", part, tensor[None])
        lie("in one dim", part, tensor.flatten())
        lie("without dims", part, tensor.flatten()[0].clone())
        for dtype in (torch.float32, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.bfloat16):
            lie(f"of {dtype}", part, tensor.to(dtype))
    for value in (float("nan"), float("inf"), -1e30):
        lie(f"of {value}", scales, torch.full_like(good[scales], value, dtype=torch.float32))
    lie("of 65,536 outputs", scales, torch.ones((2, 1 << 16), dtype=torch.float16))
    lie("of a million words", words, torch.ones((1, 1 << 20), dtype=torch.int32))
    lie("of a million words, the other way", words, torch.ones((1 << 20, 1), dtype=torch.int32))
    lie("of -1", zeros, torch.full_like(good[zeros], -1))
    found["a plane of 2^40"] = lambda tensors: tensors.update(
        {words: torch.ones((1 << 17, 1), dtype=torch.int32), scales: torch.ones((1, 1 << 20), dtype=torch.float16),
         zeros: torch.ones((1, 1 << 17), dtype=torch.int32)})  # fmt: skip
    found["the weight itself too"] = lambda tensors: tensors.update(weight=torch.ones(SIZE, SIZE))
    order = "weight_g_idx" if method == "compressed-tensors" else "g_idx"
    for name, groups in {
        "of -1": torch.full((SIZE,), -1), "of 2": torch.full((SIZE,), 2), "of 2^62": torch.full((SIZE,), 1 << 62),
        "of NaN": torch.full((SIZE,), float("nan")), "of halves": torch.full((SIZE,), 0.5),
        "of 31": torch.zeros(31, dtype=torch.int32), "of a million": torch.zeros(1 << 20, dtype=torch.int32),
        "of two dims": torch.zeros(SIZE, SIZE, dtype=torch.int32),
    }.items():  # fmt: skip
        lie(name, order, groups)
    if method == "compressed-tensors":
        for name, shape in {
            "of 2^40": [1 << 40, SIZE], "of 2^40 inputs": [SIZE, 1 << 40], "of 2^31 squared": [1 << 31, 1 << 31],
            "of -1": [-1, -1], "of 0": [0, 0], "of one": [SIZE], "of three": [SIZE, SIZE, SIZE],
            "of fewer outputs": [16, SIZE], "of fewer inputs": [SIZE, 16],
        }.items():  # fmt: skip
            lie(f"{name}, said", "weight_shape", torch.tensor(shape))
        one = torch.ones(1, dtype=torch.float16)
        found["one scale for 2^40 outputs"] = lambda tensors: tensors.update(
            weight_scale=one, weight_shape=torch.tensor([1 << 40, SIZE]), weight_zero_point=torch.ones((1, 1)).int()
        )
    return found


def _configs(method: str) -> dict[str, dict[str, Any]]:
    """Return changes of the configuration of the quantization."""
    odd: list[Any] = [None, 0, -1, 1 << 40, "os.system", [4], {"a": 1}, "\x1b[31m\n\u202ePASS"]
    keys = {
        "gptq": ("bits", "group_size", "checkpoint_format", "format", "desc_act", "sym", "dynamic", "meta"),
        "awq": ("bits", "w_bit", "version", "group_size", "zero_point", "modules_to_not_convert", "backend"),
        "compressed-tensors": ("format", "config_groups", "kv_cache_scheme", "ignore", "sparsity_config"),
    }[method]
    found = {f"{key} of {value!a}": {key: value} for key in (*keys, "quant_method") for value in odd}
    if method == "compressed-tensors":
        for value in [*odd, {"num_bits": None}, {"num_bits": [4]}, {"num_bits": True}, {"num_bits": 1 << 40}]:
            found[f"weights of {value!a}"] = {"config_groups": {"g": {"weights": value}}}
        found["a group that is a text"] = {"config_groups": {"g": "x"}}
        found["10,000 groups"] = {"config_groups": {f"g{i}": {"weights": {"num_bits": 4}} for i in range(10_000)}}
    return found


def _stored(path: Path, beside: Path) -> dict[str, Callable[[Path], object]]:
    """Return changes of the files of a folder: indices that lead elsewhere, several files, links, pipes."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(path / SAFE)
    index = "model.safetensors.index.json"

    def named(file: str) -> Callable[[Path], object]:
        return lambda path: (path / index).write_text(json.dumps({"weight_map": dict.fromkeys(tensors, file)}))

    def other(name: str, value: float) -> Callable[[Path], object]:
        import torch

        key = f"{LAYER}.{_SCALES['gptq']}"
        return lambda path: save_file({key: torch.full_like(tensors[key], value)}, path / name)

    return {
        "an index that goes up": named("../secret.safetensors"),
        "an index elsewhere": named(str(beside / "secret.safetensors")),
        "an index of a pickle": lambda p: [named("evil.bin")(p), (p / "evil.bin").write_bytes(b"cos\nsystem\n.")],
        "an index of an index": named(index),
        "a scale in two files": other("other.safetensors", 9.0),
        "an adapter's file": other("adapter_model.safetensors", 9.0),
        "a file that is a pipe": lambda p: os.mkfifo(p / "x.safetensors"),
        "a file that is a link": lambda p: os.symlink(beside / "secret.safetensors", p / "x.safetensors"),
        "a file that is a device": lambda p: os.symlink("/dev/zero", p / "x.safetensors"),
        "a file that is a folder": lambda p: (p / "x.safetensors").mkdir(),
    }


def packed_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write copies of a small Llama for each method, each with one lie."""
    del canary  # nothing in these files is code
    from safetensors.torch import load_file, save_file

    subprocess.run([sys.executable, "-m", __name__, str(folder)], check=True, capture_output=True)
    place = folder / "model"
    place.mkdir()
    number = count()
    for method, quantization in METHODS.items():
        good = folder / method
        shutil.copy(good / SAFE, place / "secret.safetensors")
        tensors, config = load_file(good / SAFE), json.loads((good / "config.json").read_text())

        def copy(name: str, method: str = method, good: Path = good) -> Path:
            return Path(shutil.copytree(good, place / f"{next(number)}_{method}_{file_name(name)}"))

        for name, change in _tensors(method).items():
            parts = layer(method)
            change(parts)
            path = copy(name)
            kept = {key: tensor for key, tensor in tensors.items() if not key.startswith(f"{LAYER}.")}
            save_file(kept | {f"{LAYER}.{part}": t for part, t in parts.items()}, path / SAFE, {"format": "pt"})
            yield Case(f"{method}: {name}", path, good=good)
        for name, more in _configs(method).items():
            path = copy(f"config {name}")
            told = config | {"quantization_config": quantization | more}
            (path / "config.json").write_text(json.dumps(told))
            yield Case(f"{method}: config {name}", path, good=good)
        if method == "gptq":
            for name, act in _stored(good, place).items():
                act(path := copy(f"files {name}"))
                yield Case(f"{method}: {name}", path, good=good)


def _write_good(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    from tests.support.timm_helper import declare_torchvision_operators

    declare_torchvision_operators()
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=SIZE, num_hidden_layers=1, num_attention_heads=4, intermediate_size=SIZE,
        num_key_value_heads=4, max_position_embeddings=64, dtype="float16",
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).half().eval().save_pretrained(folder / "plain")
    plain, told = load_file(folder / "plain" / SAFE), json.loads((folder / "plain" / "config.json").read_text())
    for method, quantization in METHODS.items():
        path = Path(shutil.copytree(folder / "plain", folder / method))
        state = {name: tensor for name, tensor in plain.items() if not name.endswith("_proj.weight")}
        for name in plain.keys() - state.keys():
            state |= {f"{name.removesuffix('.weight')}.{part}": t for part, t in layer(method).items()}
        save_file(state, path / SAFE, {"format": "pt"})
        (path / "config.json").write_text(json.dumps(told | {"quantization_config": quantization}))


if __name__ == "__main__":
    _write_good(Path(sys.argv[1]))
