"""Small decoders of Hugging Face, converted with their cache and generating greedily, against transformers' generate.

    python -m tests.suites.generation [--only llama gpt2] [--optimum PYTHON]

32 tokens, for one row and for three, two of which are padded on the left: through onnxruntime in steps of one token,
and, where the interpreter of an environment with optimum-onnx is given, through its ORTModelForCausalLM there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

import convert
from tests.support.greedy import greedy
from tests.support.timm_helper import declare_torchvision_operators

TOKENS, WORDS = 32, 99
_PLAIN = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_GATED = {**_PLAIN, "intermediate_size": 48, "max_position_embeddings": 128}
_GROUPED = {**_GATED, "num_key_value_heads": 2}
_OLD = {"vocab_size": WORDS, "n_layer": 2, "n_head": 4}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bloom": ("Bloom", {**_OLD, "hidden_size": 32}),
    "falcon": ("Falcon", {**_PLAIN, "multi_query": True}),
    "gemma2": ("Gemma2", {**_GROUPED, "head_dim": 8, "sliding_window": 16}),
    "gpt2": ("GPT2", {**_OLD, "n_embd": 32, "n_positions": 128, "bos_token_id": 1, "eos_token_id": 2}),
    "gpt_neox": ("GPTNeoX", _GATED),
    "granite": ("Granite", _GROUPED),
    "llama": ("Llama", _GROUPED),
    "mistral": ("Mistral", {**_GROUPED, "sliding_window": None}),
    "opt": ("OPT", {**_PLAIN, "ffn_dim": 48, "max_position_embeddings": 128, "word_embed_proj_dim": 32}),
    "phi": ("Phi", _GATED),
    "phi3": ("Phi3", {**_GROUPED, "original_max_position_embeddings": 128, "pad_token_id": 0}),
    "qwen3": ("Qwen3", {**_GROUPED, "head_dim": 8}),
}
"""The name of an architecture's classes in transformers, and a configuration."""

_OPTIMUM = """
import json, sys, numpy as np, torch
from optimum.onnxruntime import ORTModelForCausalLM
model = ORTModelForCausalLM.from_pretrained(sys.argv[1], use_io_binding=False)
words, mask = (torch.tensor(part) for part in json.loads(sys.argv[2]))
print(json.dumps(model.generate(words, attention_mask=mask, **json.loads(sys.argv[3])).tolist()))
"""


def prompts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Words and their mask: one row, and three of which two are shorter."""
    words = np.random.default_rng(0).integers(3, WORDS, (4, 6))
    yield words[:1], np.ones_like(words[:1])
    mask = np.array([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    yield np.where(mask, words[1:], 0), mask


def outcome(name: str, folder: Path, optimum: str) -> str:
    """`same`, or in which prompt and runtime the tokens are others."""
    import transformers

    kind, configuration = MODELS[name]
    torch.manual_seed(0)
    classes = (f"{kind}{part}" for part in ("LMHeadModel", "ForCausalLM"))
    made = next(found for part in classes if (found := getattr(transformers, part, None)) is not None)
    model = made(getattr(transformers, f"{kind}Config")(**configuration)).eval()
    model.save_pretrained(folder / name)
    convert.convert(folder / name, "onnx", folder / "out" / "model.onnx", verify=False)
    session = ort.InferenceSession(folder / "out" / "model.onnx")
    wrong = []
    how = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False, "pad_token_id": 0}
    for words, mask in prompts():
        with torch.no_grad():
            want = model.generate(torch.from_numpy(words), attention_mask=torch.from_numpy(mask), **how).tolist()
        end = model.generation_config.eos_token_id
        never = [] if end is None else end if isinstance(end, list) else [end]
        if greedy(session, words, mask, TOKENS, [e for e in never if e < WORDS]).tolist() != want:
            wrong.append(f"onnxruntime, {len(words)} rows")
        if optimum:
            given = [json.dumps([words.tolist(), mask.tolist()]), json.dumps(how)]
            command = [optimum, "-c", _OPTIMUM, str(folder / "out"), *given]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = done.stdout.strip().splitlines()
            if done.returncode or json.loads(lines[-1]) != want:
                wrong.append(f"optimum, {len(words)} rows: {done.stderr.strip()[-200:]}")
    return "; ".join(wrong) or "same"


def main() -> None:
    """Print a line for each architecture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--optimum", default="", metavar="PYTHON")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    declare_torchvision_operators()
    same = 0
    for name in asked.only:
        with tempfile.TemporaryDirectory(prefix="generation-") as folder:
            told = outcome(name, Path(folder), asked.optimum)
        same += told == "same"
        print(f"{name:10s} {told}", flush=True)
    print(f"{same} of {len(asked.only)} the same")
    sys.exit(0 if same == len(asked.only) else 1)


if __name__ == "__main__":
    main()
