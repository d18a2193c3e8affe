"""Pipelines of diffusers whose index, configurations or files lead elsewhere, to code, or to sizes without end.

The good folder is written by diffusers, in a process of its own: `python -m tests.suites.hostile_files.pipeline_files
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
from tests.support.hostile import pickles, write_torch_zip

INDEX, CONFIG = "model_index.json", "config.json"
SAFE, BIN = "diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.bin"
TEXT = "\x1b[31m\nPASS  error 0\u202e"
ODD: list[Any] = [None, 0, -1, 1 << 40, 1.5, "os.system", [1, 2, 3], [[4]], {"a": 1}, True, TEXT]
Act = Callable[[Path], object]
"""Changes a copy of the good pipeline."""


def _changed(file: str, **values: Any) -> Act:
    def act(path: Path) -> None:
        told = json.loads((path / file).read_text())
        (path / file).write_text(json.dumps(told | values))

    return act


def _index() -> dict[str, Act]:
    """Return changes of model_index.json, with names and classes that are none."""
    rows: dict[str, dict[str, Any]] = {
        "a folder above": {"../secret": ["diffusers", "UNet2DConditionModel"]},
        "a folder elsewhere": {"/etc": ["diffusers", "UNet2DConditionModel"]},
        "a part that is not there": {"unet_2": ["diffusers", "UNet2DConditionModel"]},
        "classes of another library": {"unet": ["os", "system"], "vae": ["subprocess", "Popen"]},
        "classes of the folder": {"unet": ["odd", "Odd"], "_class_name": ["odd", "Odd"]},
        "classes of control characters": {"unet": [TEXT, TEXT], "_class_name": TEXT, TEXT: ["a", "b"]},
        "classes that are lists": {"unet": [["a"], ["b"]], "vae": [{}, {"a": 1}]},
        "rows of three": {"unet": ["diffusers", "UNet2DConditionModel", "x"]},
        "rows that are texts": {"unet": "UNet2DConditionModel", "vae": 5},
        "an autoencoder of another class": {"vae": ["diffusers", "AsymmetricAutoencoderKL"]},
        "parts with the names of halves": {"vae_encoder": ["x", "y"], "vae_decoder": ["x", "y"]},
        "100,000 rows": {f"unet_{i}": ["diffusers", "UNet2DConditionModel"] for i in range(100_000)},
        "code": {"auto_map": {"AutoPipeline": "odd.Odd"}, "custom_pipeline": "evil/repository"},
        "a name": {"_name_or_path": "evil/repository", "_diffusers_version": "99.0"},
        "a score of a text": {"requires_aesthetics_score": TEXT},
    }
    found = {f"an index of {name}": _changed(INDEX, **row) for name, row in rows.items()}
    for name, text in {
        "brackets": "[" * 100_000, "a list": "[1]", "nothing": "", "a number": "5", "NaN": '{"unet": NaN}',
        "a name twice": '{"unet": ["a", "b"], "unet": ["c", "d"]}', "bytes": "\x00\x01",
    }.items():  # fmt: skip
        found[f"an index that is {name}"] = lambda path, text=text: (path / INDEX).write_text(text)
    return found


def _configs() -> dict[str, Act]:
    """Return changes of the configurations of the parts."""
    of_unet = ("_class_name", "in_channels", "out_channels", "block_out_channels", "cross_attention_dim", "sample_size",
               "attention_head_dim", "layers_per_block", "norm_num_groups", "down_block_types", "class_embed_type",
               "num_class_embeds", "encoder_hid_dim_type", "encoder_hid_dim", "addition_embed_type", "act_fn",
               "time_cond_proj_dim", "projection_class_embeddings_input_dim", "mid_block_type")  # fmt: skip
    of_vae = ("_class_name", "in_channels", "latent_channels", "block_out_channels", "down_block_types", "act_fn")
    found = {
        f"{part}: {key} of {value!a}": _changed(f"{part}/{CONFIG}", **{key: value})
        for part, keys in (("unet", of_unet), ("vae", of_vae)) for key in keys for value in ODD
    }  # fmt: skip
    needed: dict[str, dict[str, Any]] = {
        "numbers of SDXL that lack": {"addition_embed_type": "text_time"},
        "numbers of SDXL below zero": {"addition_embed_type": "text_time", "addition_time_embed_dim": 1 << 40,
                                       "projection_class_embeddings_input_dim": 1},
        "labels that lack": {"class_embed_type": "projection"},
        "labels of 2^40": {"class_embed_type": "projection", "projection_class_embeddings_input_dim": 1 << 40},
        "code": {"auto_map": {"AutoModel": "odd.Odd"}}, "code, inside": {"a": [{"auto_map": {"AutoModel": "odd.Odd"}}]},
        "a name": {"_name_or_path": "evil/repository", "_diffusers_version": TEXT},
        "arguments of other names": {"self": 1, "cls": 2, "__class__": "os", "kwargs": {}, "_use_default_values": 5},
        "layers of 10,000": {"layers_per_block": 10_000},
        "blocks of 10^5": {"down_block_types": ["DownBlock2D"] * 10**5},
        "a width of 10^6": {"block_out_channels": [10**6, 10**6]},
        "an activation": {"act_fn": "os.system"}, "a kernel": {"attn_implementation": "evil/kernel"},
        **{f"{name} of diffusers": {"_class_name": name} for name in (
            "DiffusionPipeline", "ModelMixin", "os", "UNet2DModel", "FluxTransformer2DModel", "SD3Transformer2DModel",
            "ControlNetModel", "AutoencoderTiny", "logging", "__name__")},
        **{f"quantized by {method}": {"quantization_config": {
            "quant_method": method, "load_in_4bit": True, "quant_type": "os.system", "weights_dtype": "int8",
            "modules_to_not_convert": ["(a+)+$"]}} for method in (
            "bitsandbytes", "gguf", "torchao", "quanto", "modelopt", "nunchaku", "os.system")},
    }  # fmt: skip
    return found | {f"unet: {name}": _changed(f"unet/{CONFIG}", **more) for name, more in needed.items()}


def _files(canary: Canary, beside: Path) -> dict[str, Act]:
    """Return changes of the files: pickles, indices, links, pipes, and companions that are no plain files."""
    evil = pickles(canary.marker)["os.system"][0]

    def link(name: str, target: str) -> Act:
        def act(path: Path) -> None:
            if (path / name).is_dir():
                shutil.rmtree(path / name)
            (path / name).unlink(missing_ok=True)
            os.symlink(target, path / name)

        return act

    def index(name: str, target: str) -> Act:
        def act(path: Path) -> None:
            shutil.move(path / "unet" / SAFE, path / "unet" / "shard.safetensors")
            (path / "unet" / name).write_text(
                json.dumps({"weight_map": {"conv_in.weight": target}, "metadata": {"total_size": 1}})
            )

        return act

    def write(name: str, content: bytes) -> Act:
        def act(path: Path) -> None:
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(content)

        return act

    def holes(name: str) -> Act:
        return lambda path: [write(name, b"")(path), os.truncate(path / name, 1 << 40)]

    def several(*acts: Act) -> Act:
        return lambda path: [act(path) for act in acts]

    def pickled(name: str) -> Act:
        return lambda path: write_torch_zip(path / name, evil)

    gone: Act = lambda path: (path / "unet" / SAFE).unlink()  # noqa: E731
    halves = _changed(INDEX, vae_encoder=["a", "b"], vae_decoder=["a", "b"])
    return {
        "weights that are a pickle": several(gone, pickled(f"unet/{BIN}")),
        "weights and a pickle": pickled(f"unet/{BIN}"),
        "a pickle named safetensors": pickled(f"unet/{SAFE}"),
        "a pickle of a variant": several(gone, pickled("unet/diffusion_pytorch_model.fp16.bin")),
        "a pickle of another name": several(gone, pickled("unet/x.bin")),
        "a pickle in the encoder": pickled("text_encoder/pytorch_model.bin"),
        "a variant of dots": several(gone, write("unet/diffusion_pytorch_model...safetensors", b"x")),
        "an index that goes up": index(f"{SAFE}.index.json", "../../secret.safetensors"),
        "an index of a pickle": several(index(f"{SAFE}.index.json", "x.bin"), pickled("unet/x.bin")),
        "an index of pickles": several(index(f"{BIN}.index.json", "../x.bin"), pickled("x.bin")),
        "code beside it": several(write("unet/odd.py", _code(canary)), write("odd.py", _code(canary)),
                                  write("pipeline.py", _code(canary)), write("unet/modeling.py", _code(canary))),
        "a part that is a link elsewhere": link("unet", str(beside / "secret" / "unet")),
        "a configuration that is a link": link(f"unet/{CONFIG}", "/etc/passwd"),
        "weights that are a link": link(f"unet/{SAFE}", str(beside / "secret.safetensors")),
        "a part that is a link to itself": link("unet", "."),
        "a part in a circle": link("unet", "unet"),
        "a scheduler that is a link elsewhere": link("scheduler", "/etc"),
        "a scheduler's file that is a link elsewhere": link("scheduler/secret.json", "/etc/passwd"),
        "a scheduler's file that is a link": link("scheduler/secret.json", "../unet/config.json"),
        "a scheduler's file that is a device": link("scheduler/secret.json", "/dev/zero"),
        "a scheduler's pipe": lambda path: os.mkfifo(path / "scheduler" / "pipe.json"),
        "a scheduler of 2^40 bytes": holes("scheduler/large.json"),
        "a scheduler of many files": lambda path: [write(f"scheduler/{i}.json", b"{}")(path) for i in range(20_000)],
        "a scheduler of lines": write(f"scheduler/{TEXT.replace('/', '')}.json", b"{}"),
        "models where outputs will be": several(halves, write("vae_encoder/model.onnx", b"x"),
                                                write("vae_decoder/model.onnx", b"x")),
        "links where outputs will be": several(halves, lambda path: (path / "vae_encoder").mkdir(),
                                               link("vae_encoder/model.onnx", "../unet/config.json")),
        **{f"{name} that is a pipe": lambda path, name=name: [(path / name).unlink(missing_ok=True),
                                                            os.mkfifo(path / name)]
           for name in (INDEX, f"unet/{CONFIG}", f"unet/{SAFE}", "unet/generation_config.json")},
        **{f"{name} of 2^40 bytes": holes(name) for name in (INDEX, f"unet/{CONFIG}", f"unet/{SAFE}")},
    }  # fmt: skip


def _code(canary: Canary) -> bytes:
    return f"open({str(canary.marker)!r}, 'w').close()\nclass Odd:\n    pass\n".encode()


def pipeline_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write copies of a small Stable Diffusion pipeline with one change, for one part and for all of them."""
    subprocess.run([sys.executable, "-m", __name__, str(folder)], check=True, capture_output=True)
    good, place = folder / "good", folder / "model"
    shutil.copytree(good, place / "secret")
    shutil.copy(good / "unet" / SAFE, place / "secret.safetensors")
    number = count()
    for name, act in (_index() | _configs() | _files(canary, place)).items():
        path = Path(shutil.copytree(good, place / f"{next(number)}_{file_name(name)}"))
        act(path)
        part = "vae_encoder" if name.startswith("vae") or "where outputs" in name else "unet"
        yield Case(name, path, ("--part", part), good / part, verbs=("inspect", "convert"))
        if part == "vae_encoder" or "index" in name or "scheduler" in name:
            yield Case(f"{name}, all parts", path, ("-o", "out"), good, verbs=("convert",))


def _write_good(folder: Path) -> None:
    import torch

    from tests.support.timm_helper import declare_torchvision_operators

    declare_torchvision_operators()
    from tests.frontends.pytorch.files.test_diffusers import pipeline

    torch.set_num_threads(1)
    pipeline(folder / "good")


if __name__ == "__main__":
    _write_good(Path(sys.argv[1]))
