"""Hugging Face folders of a small decoder whose limits of generation, chat templates or processors are hostile.

The good folder is written by transformers, in a process of its own: `python -m
tests.suites.hostile_files.decoder_files FOLDER`.
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

MOST, LONG = (1 << 63) - 1, "x" * 100_000
Act = Callable[[Path], object]
"""Changes a copy of the good folder."""
_LIMITS = (
    "max_length", "max_new_tokens", "min_length", "num_beams", "num_return_sequences", "top_k", "no_repeat_ngram_size",
    "eos_token_id", "pad_token_id", "bos_token_id", "forced_eos_token_id", "prompt_lookup_num_tokens",
)  # fmt: skip
_LOOPS = {
    "a loop without end": "{% for a in range(10**9) %}{% for b in range(10**9) %}x{% endfor %}{% endfor %}",
    "a text of 2^40": "{{ 'x' * (2 ** 40) }}",
    "powers of powers": "{{ 9 ** 9 ** 9 ** 9 }}",
    "a macro that calls itself": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "a file that is read": "{% include '/etc/passwd' %}{% import '/etc/passwd' as x %}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "modules": "{{ cycler.__init__.__globals__.os.popen('touch MARKER').read() }}",
    "parentheses": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "control characters": "\x1b[31m\u202e\nPASS  error 0\n{{ messages }}",
    "a megabyte of loops": "{% for a in b %}" * 70_000,
}
"""Chat templates, as Jinja."""


def _other(name: str, content: str | bytes) -> Act:
    def act(path: Path) -> None:
        place = path / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogatepass"))

    return act


def _generation() -> dict[str, Act]:
    """Return limits of generation that are far too high, below zero, or of another kind."""
    values: dict[str, Any] = {"2^40": 1 << 40, "-1": -1, "a text": "os.system", "a number that is none": float("nan")}
    more: dict[str, Any] = {"2^63": MOST, "10^30": 10**30, "0": 0, "a list": [1, [2]], "nothing": None}
    found = {
        f"{key} of {name}": _other("generation_config.json", json.dumps({key: value}))
        for key in _LIMITS
        for name, value in (values | (more if key in ("max_length", "eos_token_id") else {})).items()
    }
    others: dict[str, Any] = {
        "words that are forbidden": {"bad_words_ids": [[1 << 40]] * 10_000},
        "tokens that are suppressed": {"suppress_tokens": [1 << 40, -5, "x"]},
        "a cache of another kind": {"cache_implementation": "static", "cache_config": {"max_cache_len": 1 << 40}},
        "a quantized cache": {"cache_implementation": "quantized", "cache_config": {"backend": "os.system"}},
        "a compiled cache": {"compile_config": {"backend": "os:system", "mode": "x"}, "disable_compile": False},
        "an assistant": {"assistant_confidence_threshold": 0.1, "num_assistant_tokens": 1 << 40,
                         "assistant_model": "evil/repository"},
        "words that stop": {"stop_strings": ["(a+)+$"] * 1000, "max_time": 1e300},
        "a watermark": {"watermarking_config": {"greenlist_ratio": 1e300, "seeding_scheme": "os.system"}},
        "code of its own": {"custom_generate": "odd.py", "auto_map": {"GenerationConfig": "odd.Odd"}},
        "another class": {"transformers_version": "../x", "_from_model_config": "yes", "__class__": "os"},
        "a sequence of sequences": {"sequence_bias": [[[1] * 1000, 1e300]] * 1000},
    }  # fmt: skip
    return found | {name: _other("generation_config.json", json.dumps(value)) for name, value in others.items()}


def _sizes() -> dict[str, Act]:
    """Return configurations whose lengths are far too high."""

    def change(**values: Any) -> Act:
        def act(path: Path) -> None:
            file = path / "config.json"
            file.write_text(json.dumps(json.loads(file.read_text()) | values))

        return act

    keys = ("n_positions", "max_position_embeddings", "n_ctx", "max_length", "eos_token_id", "pad_token_id", "n_inner",
            "num_hidden_layers", "n_head", "use_cache", "scale_attn_by_inverse_layer_idx")  # fmt: skip
    return {
        f"the configuration's {key} of {value}": change(**{key: value})
        for key in keys for value in (1 << 40, -1, "os.system")
    }  # fmt: skip


def _templates(canary: Canary) -> dict[str, Act]:
    found = {}
    for name, template in _LOOPS.items():
        template = template.replace("MARKER", str(canary.marker))
        told = json.dumps({"chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast"})
        found[f"a template of {name}"] = _other("chat_template.jinja", template)
        found[f"a tokenizer's template of {name}"] = _other("tokenizer_config.json", told)
        found[f"a template in JSON of {name}"] = _other("chat_template.json", json.dumps({"chat_template": template}))
    many = json.dumps({"chat_template": [{"name": f"../{i}", "template": "x"} for i in range(10_000)]})
    found["templates of many names"] = _other("tokenizer_config.json", many)
    found["a folder of templates"] = _other("additional_chat_templates/x.jinja", _LOOPS["a loop without end"])
    return found


def _processors(canary: Canary) -> dict[str, Act]:
    """Return configurations of processors with code, huge sizes or paths, and what is no file in their place."""
    auto = {"AutoProcessor": "odd.Odd", "AutoImageProcessor": "odd.Odd", "AutoFeatureExtractor": "odd.Odd",
            "AutoTokenizer": ["odd.Odd", "odd.Odd"], "AutoVideoProcessor": "odd.Odd"}  # fmt: skip
    contents: dict[str, Any] = {
        "code": {"auto_map": auto, "processor_class": "odd.Odd", "image_processor_type": "os.system"},
        "code of the hub": {"auto_map": {key: f"evil/repository--{value}" for key, value in auto.items()}},
        "sizes": {"size": {"height": 1 << 40, "width": -1}, "crop_size": 1 << 62, "patch_size": 0,
                  "image_mean": [1e300] * 100_000, "feature_size": 1 << 40, "sampling_rate": 1 << 40},
        "paths": {"feature_extractor_type": "../../x", "tokenizer": "/dev/zero", "vocab_file": "/etc/passwd"},
        "a list": [1, 2], "a long name": {LONG: LONG}, "lines": {"\nPASS  error 0\x1b[31m": "\u202e"},
    }  # fmt: skip
    names = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
             "feature_extractor_config.json")  # fmt: skip

    def link(name: str, target: str) -> Act:
        return lambda path: os.symlink(target, path / name)

    def holes(name: str) -> Act:
        def act(path: Path) -> None:
            (path / name).touch()
            os.truncate(path / name, 1 << 40)

        return act

    found = {f"{name} of {what}": _other(name, json.dumps(value)) for name in names for what, value in contents.items()}
    found |= {f"{name} of brackets": _other(name, "[" * 100_000) for name in names}
    for name in ("chat_template.jinja", "preprocessor_config.json", "tokenizer.model", "vocab.json", "merges.txt"):
        found[f"{name} that is a pipe"] = lambda path, name=name: os.mkfifo(path / name)
        found[f"{name} that is a device"] = link(name, "/dev/zero")
        found[f"{name} that is a link elsewhere"] = link(name, "/etc/passwd")
        found[f"{name} that is a folder"] = lambda path, name=name: (path / name).mkdir()
        found[f"{name} of 2^40 bytes"] = holes(name)
    found["names in other letters"] = lambda path: [
        _other(name, "{}")(path)
        for name in ("Config.json", "CONFIG.JSON", "Generation_Config.json", "MODEL.safetensors")
    ]
    return found | {"a pickle for a vocabulary": _other("vocab.pkl", b"cos\nsystem\n(S'true'\ntR.")}


def decoder_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write copies of a small GPT-2 with one change; what is read is also converted with a cache, for genai."""
    subprocess.run([sys.executable, "-m", __name__, str(folder)], check=True, capture_output=True)
    good, place = folder / "good", folder / "model"
    place.mkdir()
    cached = ("--task", "text-generation-with-past", "-o", "out/onnx/model.onnx")
    read = {name: (act, True) for name, act in (_generation() | _sizes()).items()}
    copied = {name: (act, False) for name, act in (_templates(canary) | _processors(canary)).items()}
    for name, (act, is_read) in (read | copied).items():
        path = Path(shutil.copytree(good, place / file_name(name)))
        (path / "odd.py").write_text(f"open({str(canary.marker)!r}, 'w').close()\nclass Odd:\n    pass\n")
        act(path)
        yield Case(name, path, good=good, verbs=("inspect", "convert", *(("source", "python") if is_read else ())))
        if is_read:
            yield Case(f"{name}, for genai", path, (*cached, "--runtime", "genai"), good, verbs=("convert",))


def _write_good(folder: Path) -> None:
    import torch

    from tests.support.timm_helper import declare_torchvision_operators

    declare_torchvision_operators()
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=50, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).eval().save_pretrained(folder / "good")


if __name__ == "__main__":
    _write_good(Path(sys.argv[1]))
