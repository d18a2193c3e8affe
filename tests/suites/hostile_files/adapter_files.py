"""A good Hugging Face folder with hostile LoRA adapters: ranks, scales, names and files that lead out of the model."""

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
from tests.suites.hostile_files.hugging_files import SAFE
from tests.support.hostile import pickles, write_torch_zip

CONFIG, WEIGHTS, BIN = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
LAYER, SIZE = "encoder.layer.0.attention.self.query", 16
GOOD = {"peft_type": "LORA", "lora_alpha": 4, "r": 2, "bias": "none", "target_modules": ["query"]}
TEXT = "\x1b[31m\nPASS  error 0\u202e"


def _configs(beside: Path) -> dict[str, dict[str, Any]]:
    """Return changes of adapter_config.json."""
    odd: list[Any] = [None, 0, -1, 1 << 70, float("nan"), float("inf"), 1e308, "x", [1], {"a": 1}, True, TEXT]
    keys = ("lora_alpha", "alpha_pattern", "rank_pattern", "modules_to_save", "use_rslora", "fan_in_fan_out", "r",
            "peft_type", "use_dora", "bias", "init_lora_weights", "lora_bias", "layer_replication", "corda_config",
            "trainable_token_indices")  # fmt: skip
    away = str(beside / "secret")
    patterns: dict[str, Any] = {
        "that never ends": "(.*.*)*x", "that ends late": "(a|a)*" * 40 + "$", "that is none": "(", "of all": "",
        "of a megabyte": "(" * 1000 + ")" * 1000, "of back references": r"(.*)\1\1\1\1\1\1x",
    }  # fmt: skip
    return {
        **{f"{key} of {value!a}": {key: value} for key in keys for value in odd},
        **{f"a pattern {name}": {"alpha_pattern": {pattern: 4}} for name, pattern in patterns.items()},
        **{f"a pattern's alpha of {value!a}": {"alpha_pattern": {"query": value}} for value in odd},
        "code": {"auto_mapping": {"base_model_class": "system", "parent_library": "os"}, "auto_map": {"A": "odd.Odd"}},
        "a base elsewhere": {"base_model_name_or_path": away},
        "a base of the hub": {"base_model_name_or_path": "evil/repository", "revision": "x"},
        "an empty module": {"modules_to_save": [""]},
        "modules that are numbers": {"modules_to_save": [5, None]},
        "a key of lines": {TEXT: TEXT},
        "a megatron": {"megatron_core": "os", "megatron_config": {"a": 1}},
    }


def _weights() -> dict[str, dict[str, Any]]:
    """Return the tensors of adapters, by name without their prefix."""
    import torch

    def pair(a: Any, b: Any, name: str = LAYER) -> dict[str, Any]:
        return {f"{name}.lora_A.weight": a, f"{name}.lora_B.weight": b}

    a, b = torch.ones(2, SIZE), torch.ones(SIZE, 2)
    found = {
        "a rank of 0": pair(a[:0], b[:, :0]), "two ranks": pair(a, torch.ones(SIZE, 3)),
        "no dims": pair(torch.tensor(1.0), torch.tensor(1.0)), "three dims": pair(a[None], b[None]),
        "a product of 2^42": pair(torch.ones(2, 1 << 21), torch.ones(1 << 21, 2)),
        "a product of one": pair(torch.ones(2, 1), torch.ones(1, 2)),
        "a rank of 2^18": pair(torch.ones(1 << 18, SIZE), torch.ones(SIZE, 1 << 18)),
        "one matrix": {f"{LAYER}.lora_A.weight": a}, "no tensors": {},
        "matrices twice": {**pair(a, b), f"{LAYER}.lora_A": a * 3},
        "matrices without prefix too": {**pair(a, b), **pair(a * 3, b * 3, f"base_model.model.{LAYER}")},
        **{f"matrices of {dtype}": pair(a.to(dtype), b.to(dtype)) for dtype in (
            torch.int32, torch.bool, torch.complex64, torch.float64, torch.float8_e4m3fn)},
        **{f"matrices of {value}": pair(a * value, b) for value in (float("nan"), float("inf"), 1e38)},
        "an embedding's matrices for a layer": {
            f"{LAYER}.lora_embedding_A": a, f"{LAYER}.lora_embedding_B": b},
        "a layer's matrices for an embedding": pair(a, b, "embeddings.word_embeddings"),
    }  # fmt: skip
    names = ("", ".", "..", "gone", "__class__", "__dict__.x", "forward.__globals__.os", "encoder..layer",
             f"{LAYER}.weight", "../../x", "/etc/passwd", TEXT, "x" * 100_000, "a." * 20_000 + "b", "encoder",
             "encoder.layer.-1", "config", "embeddings.LayerNorm", f"base_model.model.{LAYER}")  # fmt: skip
    found |= {f"matrices for {name[:60]!a}": pair(a, b, name) for name in names}
    for name in ("weight", "__dict__", "device", "dummy_inputs", "_parameters", "forward", "embeddings.position_ids",
                 f"{LAYER}.bias", f"{LAYER}.base_layer.weight", f"{LAYER}.lora_magnitude_vector", ".", ""):  # fmt: skip
        found[f"a tensor for {name!a}"] = {**pair(a, b), name: torch.ones(SIZE)}
    found["ten thousand layers"] = {
        key: torch.ones(1) for i in range(10_000) for key in (f"l{i}.lora_A.weight", f"l{i}.lora_B.weight")
    }
    return found


def _files(canary: Canary, beside: Path) -> dict[str, Callable[[Path], object]]:
    """Return changes of the files of an adapter."""
    evil = pickles(canary.marker)["os.system"][0]

    def link(name: str, target: str) -> Callable[[Path], object]:
        return lambda path: [(path / name).unlink(missing_ok=True), os.symlink(target, path / name)]

    def pipe(name: str) -> Callable[[Path], object]:
        return lambda path: [(path / name).unlink(missing_ok=True), os.mkfifo(path / name)]

    def holes(name: str) -> Callable[[Path], object]:
        return lambda path: os.truncate(path / name, 1 << 40)

    def only_pickle(path: Path) -> None:
        (path / WEIGHTS).unlink()
        write_torch_zip(path / BIN, evil)

    found: dict[str, Callable[[Path], object]] = {
        "weights that are a pickle": only_pickle,
        "weights and a pickle": lambda path: write_torch_zip(path / BIN, evil),
        "a pickle named safetensors": lambda path: write_torch_zip(path / WEIGHTS, evil),
        "an index that goes up": lambda path: (path / f"{WEIGHTS}.index.json").write_text(
            json.dumps({"weight_map": {"x": "../secret/model.safetensors"}})),
        "a configuration of brackets": lambda path: (path / CONFIG).write_text("[" * 100_000),
        "a configuration that is a list": lambda path: (path / CONFIG).write_text("[1]"),
        "a configuration without end": lambda path: (path / CONFIG).write_text('{"x": "' + "y" * (20 << 20)),
        "code beside it": lambda path: (path / "adapter_config.py").write_text(
            f"open({str(canary.marker)!r}, 'w').close()"),
        "weights that are a link elsewhere": link(WEIGHTS, str(beside / "secret" / SAFE)),
        "a configuration that is a link elsewhere": link(CONFIG, "/etc/passwd"),
    }  # fmt: skip
    for name in (CONFIG, WEIGHTS):
        found[f"{name} that is a pipe"] = pipe(name)
        found[f"{name} that is a device"] = link(name, "/dev/zero")
        found[f"{name} in a circle"] = link(name, name)
        found[f"{name} of 2^40 bytes"] = holes(name)
        found[f"{name} that is empty"] = lambda path, name=name: (path / name).write_bytes(b"")
        found[f"{name} that is cut"] = lambda path, name=name: os.truncate(path / name, 20)
    return found


def adapter_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write the adapters, each given with `--adapter` to the same good BERT."""
    import torch
    from safetensors.torch import save_file

    subprocess.run([sys.executable, "-m", "tests.suites.hostile_files.hugging_files", str(folder)], check=True,
                   capture_output=True)  # fmt: skip
    good, place = folder / "good", folder / "adapters"
    shutil.copytree(good, place / "secret")
    number = count()

    def adapter(name: str, config: dict[str, Any], tensors: dict[str, Any]) -> Path:
        path = place / f"{next(number)}_{file_name(name)}"
        path.mkdir()
        (path / CONFIG).write_text(json.dumps(config))
        save_file({f"base_model.model.{key}": tensor for key, tensor in tensors.items()}, path / WEIGHTS)
        return path

    def case(name: str, path: Path) -> Case:
        verbs = ("inspect", "convert", "source")
        return Case(name, good, ("--adapter", str(path)), good, verbs=verbs)

    plain = {f"{LAYER}.lora_A.weight": torch.ones(2, SIZE), f"{LAYER}.lora_B.weight": torch.ones(SIZE, 2)}
    for name, change in _configs(place).items():
        yield case(name, adapter(f"config {name}", GOOD | change, plain))
    for name, tensors in _weights().items():
        yield case(name, adapter(f"tensors {name}", GOOD, tensors))
        if name.startswith("a tensor for"):
            saved = f"{name}, saved whole"
            yield case(saved, adapter(saved, GOOD | {"modules_to_save": ["e", "r", "y", "s"]}, tensors))
    for name, act in _files(canary, place).items():
        act(path := adapter(f"files {name}", GOOD, plain))
        yield case(name, path)
