"""Convert small Hugging Face language models with their cache, and compare their tokens with transformers' generate.

    python -m tests.suites.generation [--only llama gpt2] [--optimum PYTHON] [--genai PYTHON] [--javascript FOLDER]

Each model generates 32 tokens, for one row and for three, two of which are padded on the left. onnxruntime runs it in
steps of one token. Other runtimes run it as well if they are given:

- `--optimum`: the interpreter of an environment with optimum-onnx; its ORTModelForCausalLM
- `--genai`: that of one with onnxruntime-genai, which gets the file of `--runtime genai` and pads on the right
- `--javascript`: a folder where `npm install --ignore-scripts @huggingface/transformers` was run

Encoders with a decoder are converted as several files. onnxruntime runs both decoders by themselves and merged;
ORTModelForSeq2SeqLM or ForSpeechSeq2Seq takes the merged one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

import convert
from tests.support.greedy import greedy, greedy_with_encoder
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
    "mixtral": ("Mixtral", {**_GROUPED, "sliding_window": None, "num_local_experts": 4}),
    "opt": ("OPT", {**_PLAIN, "ffn_dim": 48, "max_position_embeddings": 128, "word_embed_proj_dim": 32}),
    "phi": ("Phi", _GATED),
    "phi3": ("Phi3", {**_GROUPED, "original_max_position_embeddings": 128, "pad_token_id": 0}),
    "qwen2_moe": (
        "Qwen2Moe",
        {
            **_GROUPED,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
        },
    ),
    "qwen3": ("Qwen3", {**_GROUPED, "head_dim": 8}),
}
"""Models by architecture: the name of the classes in transformers, and a configuration."""

_BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "init_std": 0.4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}  # fmt: skip
_ENDS = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
_T5 = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "bart": ("BartForConditionalGeneration", {**_BART, **_ENDS, "max_position_embeddings": 128,
                                              "forced_eos_token_id": None}),
    "marian": ("MarianMTModel", {**_BART, **_ENDS, "max_position_embeddings": 128, "forced_eos_token_id": None}),
    "pegasus": ("PegasusForConditionalGeneration", {**_BART, **_ENDS, "max_position_embeddings": 128,
                                                    "forced_eos_token_id": None}),
    "t5": ("T5ForConditionalGeneration", {**_T5, "decoder_start_token_id": 0, "pad_token_id": 0}),
    "t5 gated": ("T5ForConditionalGeneration", {**_T5, "decoder_start_token_id": 0, "pad_token_id": 0,
                                                "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "whisper": ("WhisperForConditionalGeneration", {**_BART, **_ENDS, "num_mel_bins": 16, "max_source_positions": 30,
                                                    "max_target_positions": 64, "suppress_tokens": None,
                                                    "begin_suppress_tokens": None}),
}  # fmt: skip
"""Encoders with a decoder: a class of transformers, and a configuration."""

_OPTIMUM_PAIRS = """
import json, sys, numpy as np, torch
from optimum.onnxruntime import ORTModelForSeq2SeqLM, ORTModelForSpeechSeq2Seq
given = {n: torch.tensor(a) for n, a in json.loads(sys.argv[2]).items()}
kind = ORTModelForSpeechSeq2Seq if "input_features" in given else ORTModelForSeq2SeqLM
model = kind.from_pretrained(sys.argv[1], use_io_binding=False)
print(json.dumps(model.generate(**given, **json.loads(sys.argv[3])).tolist()))
"""

_OPTIMUM = """
import json, sys, numpy as np, torch
from optimum.onnxruntime import ORTModelForCausalLM
model = ORTModelForCausalLM.from_pretrained(sys.argv[1], use_io_binding=False)
words, mask = (torch.tensor(part) for part in json.loads(sys.argv[2]))
print(json.dumps(model.generate(words, attention_mask=mask, **json.loads(sys.argv[3])).tolist()))
"""

_GENAI = """
import json, sys, numpy as np, onnxruntime_genai as og
model, how = og.Model(sys.argv[1]), json.loads(sys.argv[3])
words, mask = json.loads(sys.argv[2])
params = og.GeneratorParams(model)
length = len(words[0]) + how["max_new_tokens"]
params.set_search_options(do_sample=False, max_length=length, min_length=length, batch_size=len(words))
generator = og.Generator(model, params)
pad = json.load(open(sys.argv[1] + "/genai_config.json"))["model"]["pad_token_id"]
rows = [[w for w, m in zip(*row) if m] for row in zip(words, mask)]
generator.append_tokens(np.array([row + [pad] * (len(words[0]) - len(row)) for row in rows], np.int32))
while not generator.is_done():
    generator.generate_next_token()
print(json.dumps([generator.get_sequence(n).tolist() for n in range(len(rows))]))
"""

_JAVASCRIPT = """
import { env, AutoModelForCausalLM, Tensor } from '@huggingface/transformers';
env.allowRemoteModels = false;
env.localModelPath = '';
const [folder, texts, how] = [process.argv[2], ...process.argv.slice(3).map((text) => JSON.parse(text))];
const model = await AutoModelForCausalLM.from_pretrained(folder, { dtype: 'fp32', device: 'cpu' });
const integers = (rows) => BigInt64Array.from(rows.flat().map(BigInt));
const tensor = (rows) => new Tensor('int64', integers(rows), [rows.length, rows[0].length]);
const [inputs, attention_mask] = texts.map(tensor);
const out = await model.generate({ inputs, attention_mask, ...how });
console.log(JSON.stringify(out.tolist().map((row) => row.map(Number))));
"""


@dataclass(frozen=True)
class Peers:
    """The interpreters of environments with optimum and with genai, and a folder with transformers.js; "" if absent."""

    optimum: str = ""
    genai: str = ""
    javascript: str = ""


def prompts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return token ids and their mask: one row, and three rows, two of which are shorter."""
    words = np.random.default_rng(0).integers(3, WORDS, (4, 6))
    yield words[:1], np.ones_like(words[:1])
    mask = np.array([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    yield np.where(mask, words[1:], 0), mask


def tokens_of(command: list[str], words: np.ndarray, mask: np.ndarray, how: dict[str, Any]) -> list[list[int]] | str:
    """Return the last tokens that another process generates, or its error."""
    given = [json.dumps([words.tolist(), mask.tolist()]), json.dumps(how)]
    done = subprocess.run([*command, *given], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    return last(json.loads(lines[-1])) if not done.returncode and lines else done.stderr.strip()[-200:]


def peers_of(source: Path, folder: Path, peers: Peers) -> dict[str, list[str]]:
    """Write `source` as each runtime takes it; return the commands that generate with it, by runtime."""
    found = {}
    if peers.optimum:
        found["optimum"] = [peers.optimum, "-c", _OPTIMUM, str(folder / "out")]
    if peers.genai:
        convert.convert(source, "onnx", folder / "genai" / "model.onnx", runtime="genai", verify=False)
        found["genai"] = [peers.genai, "-c", _GENAI, str(folder / "genai")]
    if peers.javascript:
        convert.convert(source, "onnx", folder / "web" / "onnx" / "model.onnx", verify=False)
        program = Path(peers.javascript) / "generate.mjs"
        program.write_text(_JAVASCRIPT)
        found["transformers.js"] = ["node", str(program), str(folder / "web")]
    return found


def outcome(name: str, folder: Path, peers: Peers) -> str:
    """Return `same`, or the prompt and runtime with different tokens."""
    kind, configuration = MODELS[name]
    classes = (f"{kind}{part}" for part in ("LMHeadModel", "ForCausalLM"))
    model = saved_model(next(c for c in classes if exists(c)), configuration, folder / name)
    convert.convert(folder / name, "onnx", folder / "out" / "model.onnx", verify=False)
    return decoder_outcome(model, folder / "out" / "model.onnx", peers_of(folder / name, folder, peers))


def exists(kind: str) -> bool:
    """Return whether transformers has a class named `kind`."""
    import transformers

    return hasattr(transformers, kind)


def saved_model(kind: str, configuration: dict[str, Any], folder: Path) -> Any:
    """Return a model of transformers with random weights, in eval mode, after saving it to `folder`."""
    import transformers

    torch.manual_seed(0)
    made = getattr(transformers, kind)
    model = made(made.config_class(**configuration)).eval()
    model.save_pretrained(folder)
    return model


def decoder_outcome(model: Any, file: Path, commands: Mapping[str, list[str]] = MappingProxyType({})) -> str:
    """Return `same`, or the prompt and runtime with other tokens than `model` generates.

    commands: programs that generate with it in other runtimes, by their name.
    """
    session = ort.InferenceSession(file)
    wrong = []
    how = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False, "pad_token_id": 0}
    for words, mask in prompts():
        with torch.no_grad():
            want = model.generate(torch.from_numpy(words), attention_mask=torch.from_numpy(mask), **how).tolist()
        end = model.generation_config.eos_token_id
        never = [] if end is None else end if isinstance(end, list) else [end]
        got = greedy(session, words, mask, TOKENS, [e for e in never if e < WORDS]).tolist()
        if got != want:
            wrong.append(f"onnxruntime, {len(words)} rows: {got}, not {want}")
        for runtime, command in commands.items():
            if (theirs := tokens_of(command, words, mask, how)) != last(want):
                wrong.append(f"{runtime}, {len(words)} rows: {theirs}")
    return "; ".join(wrong) or "same"


def pair_outcome(name: str, folder: Path, peers: Peers) -> str:
    """Return the outcome of an encoder with a decoder, as `outcome` does."""
    kind, configuration = PAIRS[name]
    model = saved_model(kind, configuration, folder / name)
    convert.convert(folder / name, "onnx", folder / "out", task=task_of_pair(model), verify=False)
    return parts_outcome(model, folder / "out", peers.optimum)


def task_of_pair(model: Any) -> str:
    """Return the task that converts an encoder with a decoder into parts."""
    texts = model.main_input_name == "input_ids"
    return f"{'text2text-generation' if texts else 'automatic-speech-recognition'}-with-past"


def parts_outcome(model: Any, folder: Path, optimum: str = "") -> str:
    """Return `same`, or the prompt and runtime with other tokens than `model`, an encoder with a decoder, generates."""
    wrong = []
    how = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False, "num_beams": 1}
    for words, mask in prompts():
        given = {"input_ids": words, "attention_mask": mask}
        if model.main_input_name != "input_ids":
            given = {model.main_input_name: _sound(folder, len(words))}
        with torch.no_grad():
            want = last(model.generate(**{n: torch.from_numpy(a) for n, a in given.items()}, **how).tolist())
        first = np.full((len(words), 1), model.generation_config.decoder_start_token_id)
        end = model.generation_config.eos_token_id
        for merged in (False, True):
            got = last(greedy_with_encoder(folder, given, first, TOKENS, [end], merged).tolist())
            if got != want:
                wrong.append(f"onnxruntime, {len(words)} rows, {merged=}: {got}, not {want}")
        if optimum:
            texts = [json.dumps({n: a.tolist() for n, a in given.items()}), json.dumps(how)]
            command = [optimum, "-c", _OPTIMUM_PAIRS, str(folder), *texts]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = done.stdout.strip().splitlines()
            if done.returncode or last(json.loads(lines[-1])) != want:
                wrong.append(f"optimum, {len(words)} rows: {done.stderr.strip()[-200:]}")
    return "; ".join(wrong) or "same"


def _sound(folder: Path, rows: int) -> np.ndarray:
    """Return features or samples in the shape that the encoder takes; open lengths are 640."""
    (given,) = ort.InferenceSession(folder / "encoder_model.onnx").get_inputs()[:1]
    shape = [rows, *(d if isinstance(d, int) else 640 for d in given.shape[1:])]
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def last(rows: list[list[int]]) -> list[list[int]]:
    """Return the generated tokens; some versions leave out the token that generation starts with."""
    return [row[-TOKENS:] for row in rows]


def main() -> None:
    """Print a line for each architecture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*MODELS, *PAIRS], default=[*MODELS, *PAIRS])
    parser.add_argument("--optimum", default="", metavar="PYTHON")
    parser.add_argument("--genai", default="", metavar="PYTHON")
    parser.add_argument("--javascript", default="", metavar="FOLDER")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    declare_torchvision_operators()
    same, peers = 0, Peers(asked.optimum, asked.genai, asked.javascript)
    for name in asked.only:
        with tempfile.TemporaryDirectory(prefix="generation-") as folder:
            told = (outcome if name in MODELS else pair_outcome)(name, Path(folder), peers)
        same += told == "same"
        print(f"{name:10s} {told}", flush=True)
    print(f"{same} of {len(asked.only)} the same")
    sys.exit(0 if same == len(asked.only) else 1)


if __name__ == "__main__":
    main()
