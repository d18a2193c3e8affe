"""Hugging Face folders whose configuration or index leads elsewhere: to code, to the hub, to files beside them.

The good folder is written by transformers, in a process of its own: `python -m tests.suites.hostile_files.hugging_files
FOLDER`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import Canary, Case, file_name
from tests.suites.hostile_files.pickle_files import number, storage, tensor, weights
from tests.support.hostile import pickles, write_torch_legacy, write_torch_zip

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
         "max_position_embeddings": 64}  # fmt: skip
BIN, SAFE, INDEX = "pytorch_model.bin", "model.safetensors", "model.safetensors.index.json"
OTHERS = ("timm_wrapper", "timm_backbone", "detr", "llava", "vision-encoder-decoder")
"""Models of which the whole configuration is given here."""
METHODS = ("bitsandbytes", "gptq", "awq", "aqlm", "fp8", "fbgemm_fp8", "mxfp4", "torchao", "quanto", "hqq", "eetq",
           "compressed-tensors", "higgs", "vptq", "spqr", "bitnet", "auto-round", "finegrained_fp8", "sinq",
           "os.system")  # fmt: skip


def _code(marker: Path) -> str:
    return f"open({str(marker)!r}, 'w').close()\nclass Odd:\n    pass\n"


def _configs(beside: Path) -> dict[str, dict[str, Any]]:
    """Changes of config.json."""
    auto = {"AutoConfig": "odd.Odd", "AutoModel": "odd.Odd", "AutoBackbone": "odd.Odd"}
    away = str(beside / "secret")
    nested = {"model_type": "bert", "auto_map": auto, **SMALL}
    timm = {"model_type": "timm_wrapper", "architectures": ["TimmWrapperModel"], "architecture": "resnet18"}
    backbone = {"model_type": "timm_backbone", "architectures": ["TimmBackbone"]}
    detr = {"model_type": "detr", "architectures": ["DetrModel"], "d_model": 16, "encoder_layers": 1}
    found: dict[str, dict[str, Any]] = {
        "code of its own": {"auto_map": auto},
        "code of its own that is no mapping": {"auto_map": ["odd.Odd", 1]},
        "code of the hub": {"auto_map": {"AutoModel": "evil/repository--odd.Odd"}},
        "code of a part": {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
                           "text_config": nested, "vision_config": nested},
        "code of a part that has no class": {
            "model_type": "vision-encoder-decoder", "architectures": ["VisionEncoderDecoderModel"],
            "encoder": {**nested, "model_type": "timm_backbone"},
            "decoder": {**nested, "model_type": "clip_text_model"}},
        "an attention of the hub": {"attn_implementation": "evil/kernel"},
        "an attention of the hub, by its private name": {"_attn_implementation": "kernels-community/flash-attn"},
        "an attention of the hub, inside": {"_attn_implementation_internal": "evil/kernel:attention"},
        "experts of the hub": {"experts_implementation": "evil/kernel"},
        "kernels of the hub": {"use_kernels": True, "kernel_config": {"kernel_mapping": {"RMSNorm": "evil/x:RMSNorm"}}},
        "timm of the hub": {**timm, "architecture": "hf-hub:evil/repository"},
        "timm of a folder": {**timm, "architecture": f"local-dir:{away}"},
        "timm's weights elsewhere": {**timm, "model_args": {"checkpoint_path": f"{away}.pt"}},
        "timm's weights of the hub": {**timm, "model_args": {"pretrained": True}},
        "a backbone of the hub": {**backbone, "backbone": "hf-hub:evil/repository"},
        "a backbone's weights": {**backbone, "backbone": "resnet18", "use_pretrained_backbone": True},
        "a detector's backbone": {**detr, "backbone": "resnet50", "use_timm_backbone": True,
                                  "use_pretrained_backbone": True},
        "a detector's backbone elsewhere": {**detr, "backbone": away, "use_timm_backbone": False,
                                            "use_pretrained_backbone": True},
        "a detector's backbone of the hub": {
            **detr, "backbone_config": {**backbone, "backbone": "hf-hub:evil/repository"}},
        "timm's weights, inside": {**detr, "backbone": "resnet18", "use_timm_backbone": True, "backbone_kwargs": {
            "checkpoint_path": f"{away}.pt", "pretrained": True}},
        "weights that go up": {"transformers_weights": "../secret.safetensors"},
        "weights elsewhere": {"transformers_weights": f"{away}.safetensors"},
        "weights of another kind": {"transformers_weights": "/etc/passwd"},
        "an adapter's weights": {"transformers_weights": "adapter_model.bin"},
        "a name elsewhere": {"name_or_path": "/etc", "_name_or_path": "evil/repository"},
        "a function for a dtype": {"dtype": "load", "torch_dtype": "load"},
        "a dtype with dots": {"dtype": "os.system"},
        "no dtype": {"dtype": 5},
        "a class of another kind": {"architectures": ["GenerationMixin"]},
        "a class that is none": {"architectures": ["__builtins__", "os", 5, None, {"a": 1}]},
        "a class above all": {"architectures": ["PreTrainedModel"]},
        "classes that are a number": {"architectures": 5},
        "classes that are a text": {"architectures": "BertModel"},
        "a class of two models": {"architectures": ["RagModel"], "model_type": "rag"},
        "an unknown type": {"architectures": None, "model_type": "odd\u202e\x1b[31m\x9b2J"},
        "a type that is a list": {"architectures": None, "model_type": ["bert"]},
        "labels without end": {"num_labels": 1 << 30, "architectures": ["BertForSequenceClassification"]},
        "labels with control characters": {"id2label": {"0": "\x1b[31m\u202e", "x": []}},
        "layers without end": {"num_hidden_layers": 1 << 30},
        "layers below zero": {"num_hidden_layers": -1},
        "a width of 2^40": {"hidden_size": 1 << 40, "num_attention_heads": 1},
        "a width of 20,000": {"hidden_size": 20_000, "num_attention_heads": 1},
        "10,000 layers of 10^6": {"num_hidden_layers": 10**4, "hidden_size": 10**6, "num_attention_heads": 1},
        "10,000 layers": {"num_hidden_layers": 10**4},
        "a vocabulary of 2^28": {"vocab_size": 1 << 28},
        "a width of text": {"hidden_size": "16"},
        "a vocabulary of 2^50": {"vocab_size": 1 << 50},
        "no heads": {"num_attention_heads": 0},
        "positions of 2^62": {"max_position_embeddings": 1 << 62},
        "an activation of another name": {"hidden_act": "os.system"},
        "an activation that is a list": {"hidden_act": ["gelu", "os.system"]},
        "chunks of the forward": {"chunk_size_feed_forward": 1 << 40},
        "heads that are pruned": {"pruned_heads": {"0": [1 << 40], "-1": "x"}},
        "a pattern that never ends": {"quantization_config": {
            "quant_method": "fp8", "modules_to_not_convert": ["(a+)+$", "(.*)*x"]}},
        "generation by a function": {"custom_generate": "evil/repository", "generation_config": {"trust": True}},
        "rope of another kind": {"rope_scaling": {"rope_type": "os.system", "factor": 0}, "rope_parameters": []},
        "fusion": {"fusion_config": {"os.system": True}},
        "a distributed model": {"distributed_config": {"tp_size": 2, "tp_plan": "auto"}},
        "a plan for tensors": {"base_model_tp_plan": {"*": "os.system"}, "tp_plan": "auto"},
    }  # fmt: skip
    for method in METHODS:
        found[f"quantized by {method}"] = {"quantization_config": {
            "quant_method": method, "load_in_4bit": True, "bits": 4,
            "quant_type": {"default": {"_type": "os.system"}},
            "dataset": "/etc/passwd", "tokenizer": away, "weights": "int8"}}  # fmt: skip
    for name in ("get_text_config", "to_dict", "__class__", "__dict__", "__init__", "use_return_dict", "attribute_map",
                 "sub_configs", "_commit_hash", "base_config_key", "keys_to_ignore_at_inference", "is_composition",
                 "from_dict", "update", "_auto_class", "extra_files"):  # fmt: skip
        for value in ("os.system", {"a": 1}):
            found[f"{name} of {type(value).__name__}"] = {name: value}
    return found


def _files(keys: list[str], plain: dict[str, Any], beside: Path, canary: Canary) -> dict[str, Callable[[Path], object]]:
    """Return hostile changes of a model folder, by name, besides those of config.json and pytorch_model.bin."""

    def index(names: Any, kind: str = INDEX, metadata: Any = None) -> Callable[[Path], None]:
        def change(path: Path) -> None:
            table = names if not isinstance(names, str) else dict.fromkeys(keys, names)
            shutil.move(path / SAFE, path / "shard.safetensors")
            (path / kind).write_text(json.dumps({"weight_map": table} | ({} if metadata is None else metadata)))

        return change

    def other(name: str, content: str) -> Callable[[Path], None]:
        def change(path: Path) -> None:
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_text(content)

        return change

    def link(name: str, target: str) -> Callable[[Path], None]:
        def change(path: Path) -> None:
            (path / name).unlink(missing_ok=True)
            os.symlink(target, path / name)

        return change

    def pipe(name: str) -> Callable[[Path], None]:
        def change(path: Path) -> None:
            (path / name).unlink(missing_ok=True)
            os.mkfifo(path / name)

        return change

    def holes(name: str) -> Callable[[Path], None]:
        def change(path: Path) -> None:
            (path / name).touch()
            os.truncate(path / name, 1 << 40)

        return change

    def several(*changes: Callable[[Path], object]) -> Callable[[Path], object]:
        return lambda path: [change(path) for change in changes]

    def written(name: str, content: bytes) -> Callable[[Path], object]:
        return lambda path: (path / name).write_bytes(content)

    secret, total = beside / "secret.safetensors", {"metadata": {"total_size": 1}}
    adapter = {"peft_type": "LORA", "base_model_name_or_path": str(beside / "secret"), "task_type": "CAUSAL_LM",
               "auto_mapping": {"base_model_class": "system", "parent_library": "os"}, "r": 1}  # fmt: skip
    code, evil = _code(canary.marker), pickles(canary.marker)["os.system"][0]
    sharded = "shard-00001-model-00001-of-00001.safetensors"
    return {
        "an index that goes up": index("../secret.safetensors", metadata=total),
        "an index that goes up and back": index("../model/../secret.safetensors", metadata=total),
        "an absolute index": index(str(secret), metadata=total),
        "an index of a link": several(index("link.safetensors", metadata=total), link("link.safetensors", str(secret))),
        "an index of a folder's link": several(index("link/secret.safetensors", metadata=total),
                                               link("link", str(beside))),
        "an index of a pipe": several(index("p.safetensors", metadata=total), pipe("p.safetensors")),
        "an index of a device": index("/dev/zero", metadata=total),
        "an index of a pickle": index("../evil.bin", metadata=total),
        "an index of a pickle in the folder": several(index("evil", metadata=total), written("evil", evil)),
        "an index of itself": index(INDEX, metadata=total),
        "an index of nothing": index("gone.safetensors", metadata=total),
        "an index of numbers": index({"a": 1, "b": None}, metadata=total),
        "an index that is a list": index(["../secret.safetensors"], metadata=total),
        "an index without metadata": index("shard.safetensors"),
        "an index whose metadata are a text": index("shard.safetensors", metadata={"metadata": "x"}),
        "an index of control characters": index("\x1b[31m\u202e\x00.safetensors", metadata=total),
        "an index of pickles that goes up": index("../evil.bin", "pytorch_model.bin.index.json", total),
        "an index of brackets": other(INDEX, "[" * 100_000),
        "an index beside a link": link(INDEX, "/etc/passwd"),
        "an index in a circle": link(INDEX, INDEX),
        "weights of an index below": several(
            other("below/x.safetensors.index.json", json.dumps(
                {"weight_map": dict.fromkeys(keys, "../secret.safetensors"), **total})),
            other("config.json", json.dumps({**plain, "transformers_weights": "below/x.safetensors.index.json"}))),
        "another configuration": several(
            other("config.1.0.0.json", json.dumps({**plain, "auto_map": {"AutoModel": "odd.Odd"}})),
            other("config.json", json.dumps({**plain, "configuration_files": ["config.1.0.0.json"]}))),
        "another configuration that is a pipe": pipe("config.1.json"),
        "another configuration that is a device": link("config.1.json", "/dev/zero"),
        "another configuration of 2^40 bytes": holes("config.1.json"),
        "generation that is a pipe": pipe("generation_config.json"),
        "generation that is a device": link("generation_config.json", "/dev/zero"),
        "generation of 2^40 bytes": holes("generation_config.json"),
        "an adapter that is a pipe": pipe("adapter_config.json"),
        "an adapter": several(other("adapter_config.json", json.dumps(adapter)), written("adapter_model.bin", evil)),
        "code beside": several(*(other(name, code) for name in (
            "modeling_bert.py", "__init__.py", "conftest.py", "configuration_bert.py"))),
        "a package of a library's name": several(other("torch/__init__.py", code),
                                                 other("transformers/__init__.py", code)),
        "generation of its own": several(
            other("custom_generate/generate.py", code),
            other("generation_config.json", json.dumps({"auto_map": {"x": "odd.Odd"}, "_from_model_config": 5}))),
        "generation of brackets": other("generation_config.json", "[" * 100_000),
        "a tokenizer of its own": other("tokenizer_config.json", json.dumps(
            {"auto_map": {"AutoTokenizer": ["odd.Odd", None]}, "chat_template": "{{ ''.__class__.__mro__ }}"})),
        "a tokenizer of a link": link("tokenizer.json", str(secret)),
        "a tokenizer of a device": link("tokenizer.json", "/dev/zero"),
        "a tokenizer that is a pipe": pipe("tokenizer.json"),
        "a tokenizer of 2^40 bytes": holes("tokenizer.json"),
        "tokenizers of many names": several(*(other(f"a\u202e\x1b[31m{n} tokenizer.json", "{}") for n in range(300))),
        "a configuration 100,000 deep": other("config.json", '{"a":' * 100_000),
        "a configuration of noise": other("config.json", "\x00\x01"),
        "a configuration in no encoding": written("config.json", b'{"a": "\xff\xfe"}'),
        "a configuration in UTF-16": written("config.json", json.dumps(plain).encode("utf-16")),
        "weights that are a pipe": pipe(SAFE),
        "weights that are a device": link(SAFE, "/dev/zero"),
        "weights that are a link to others": link(SAFE, str(secret)),
        "a pickle of metadata": written(".metadata", evil),
        "a sharded folder": several(lambda path: shutil.copy(path / SAFE, path / sharded), written(".metadata", evil)),
    }  # fmt: skip


def _bins(canary: Canary) -> dict[str, Callable[[Path], object]]:
    """Return replacements of pytorch_model.bin."""
    found: dict[str, Callable[[Path], object]] = {}
    for name, (data, _) in pickles(canary.marker).items():
        found[f"zip: {name}"] = lambda path, data=data: write_torch_zip(path, data)
        found[f"legacy: {name}"] = lambda path, data=data: write_torch_legacy(path, data)
    key = "embeddings.LayerNorm.weight"
    for name, part in {
        "a tensor beyond its storage": tensor(storage(), 0, (1000,), (1,)),
        "a tensor that begins beyond": tensor(storage(), 1 << 40, (16,), (1,)),
        "a stride of 2^40": tensor(storage(), 0, (16,), (1 << 40,)),
        "a storage of 2^50": tensor(storage(length=1 << 50), 0, (16,), (1,)),
        "a storage that is not there": tensor(storage(key="77", length=16), 0, (16,), (1,)),
        "a number": number(1 << 60),
    }.items():
        data = weights(part, key)
        found[f"zip: {name}"] = lambda path, data=data: write_torch_zip(path, data)
        found[f"legacy: {name}"] = lambda path, data=data: write_torch_legacy(path, data)
    return found


def hugging_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write all of them: copies of a small BERT with one false entry, beside files that they must not read."""
    subprocess.run([sys.executable, "-m", __name__, str(folder)], check=True, capture_output=True)
    good, place = folder / "good", folder / "model"
    place.mkdir()
    shutil.copy(good / SAFE, place / "secret.safetensors")
    shutil.copytree(good, place / "secret")
    shutil.copy(good / SAFE, place / "secret.pt")
    write_torch_zip(place / "evil.bin", pickles(canary.marker)["os.system"][0])
    keys = json.loads((folder / "keys.json").read_text())
    plain = json.loads((good / "config.json").read_text())

    def copy(name: str) -> Path:
        path = Path(shutil.copytree(good, place / file_name(name)))
        (path / "odd.py").write_text(_code(canary.marker))
        return path

    for name, change in _configs(place).items():
        path = copy(f"config {name}")
        (path / "config.json").write_text(json.dumps(change if change.get("model_type") in OTHERS else plain | change))
        yield Case(name, path, good=good)
    for name, act in _files(keys, plain, place, canary).items():
        path = copy(f"files {name}")
        act(path)
        yield Case(name, path, good=good)
    for name, write in _bins(canary).items():
        path = copy(f"bin {name}")
        (path / SAFE).unlink()
        write(path / BIN)
        yield Case(f"bin: {name}", path, good=good)


def _write_good(folder: Path) -> None:
    import torch

    from tests.support.timm_helper import declare_torchvision_operators

    declare_torchvision_operators()
    import transformers

    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    model.save_pretrained(folder / "good")
    (folder / "keys.json").write_text(json.dumps(list(model.state_dict())))


if __name__ == "__main__":
    _write_good(Path(sys.argv[1]))
