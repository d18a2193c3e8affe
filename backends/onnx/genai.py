"""Writes genai_config.json, by which onnxruntime-genai runs a decoder with a cache."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from convert import limits
from convert.errors import BadInput, Problem, Unsupported, UsageError
from convert.files.counted_json import parse_json
from convert.graph.metadata import COMPANIONS_KEY, DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.graph.values import known_dims
from convert.outcome.report import Report
from convert.runtimes.generation import PAST, PRESENT

NAME = "genai_config.json"
_INPUTS = ("input_ids", "attention_mask", "position_ids")
_LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
_OWN_TYPES = ("phi3",)
"""Types for which genai does more than for a plain `decoder`: it computes a text anew where it crosses LongRoPE's
length.
"""
_SEARCH: Mapping[str, Any] = {
    "diversity_penalty": 0.0, "do_sample": False, "early_stopping": True, "length_penalty": 1.0, "min_length": 0,
    "no_repeat_ngram_size": 0, "num_beams": 1, "num_return_sequences": 1, "repetition_penalty": 1.0,
    "temperature": 1.0, "top_k": 50, "top_p": 1.0,
}  # fmt: skip

_MEND = "correct it in config.json or generation_config.json, or leave out --runtime"


def add_genai_config(model: ir.Model, file: str, shared_cache: bool = False) -> None:
    """Add the configuration to the files that are written beside the model `file`.

    shared_cache: whether the cache may be one buffer that every call writes new keys and values into.

    - Raises `UsageError` for a model that does not come from a Hugging Face folder.
    - Raises `Unsupported` unless the model is a decoder whose cache has keys and values of equal sizes.
    - Raises `BadInput` for configurations with other values than tokens and numbers in their places.
    """
    config, chosen = _configurations(model)
    found = _configuration(model, file, config, chosen)
    found["search"]["past_present_share_buffer"] = shared_cache
    content = json.dumps(found, indent=4) + "\n"
    model.meta[COMPANIONS_KEY] = {**model.meta[COMPANIONS_KEY], NAME: content.encode()}


def context_length(model: ir.Model) -> int:
    """Return the most tokens that a text may have. Raises like `add_genai_config`."""
    config, _ = _configurations(model)
    context = next((_size(key, config[key]) for key in _LENGTHS if config.get(key) is not None), None)
    if context is None:
        raise Unsupported("config.json does not say how long a text may be", hint=f"add {_LENGTHS[0]} to it")
    return context


def note_windows(model: ir.Model, report: Report) -> None:
    """Note that texts of different lengths in one batch may get other tokens, if attention has a sliding window.

    onnxruntime-genai 0.18 puts padding behind shorter texts, and the window counts it as tokens.
    """
    attention = [node for node in model.graph if node.op_type == "GroupQueryAttention"]
    windows = {node.attributes.get_int("local_window_size", -1) for node in attention} - {-1}
    if windows:
        sizes = " and ".join(map(str, sorted(windows)))
        report.note(
            f"attention has a window of {sizes} tokens, and genai's padding counts as tokens there: generate texts of "
            "different lengths one by one",
            code="padded-windows",
        )


def note_calls(model: ir.Model) -> None:
    """Note in `model` how genai calls a decoder: texts within the context, and several new tokens beside earlier
    ones in one row only.

    GroupQueryAttention of onnxruntime 1.32 refuses other calls. Raises like `add_genai_config`.
    """
    inputs = {str(v.name): v for v in model.graph.inputs}
    if "position_ids" in inputs:
        inputs["position_ids"].metadata_props[RANGE_KEY] = json.dumps([0, context_length(model) - 1])
    cache = next((known_dims(v) or () for name, v in inputs.items() if name.startswith(PAST)), ())
    new = known_dims(inputs["input_ids"]) or () if "input_ids" in inputs else ()
    if len(cache) == 4 and len(new) == 2:
        sizes = [(new[0], 1), (new[1], 1), (cache[2], 0)]
        if all(isinstance(name, str) and name.isidentifier() for name, _ in sizes):
            known = json.loads(model.metadata_props.get(GUARDS_KEY, "[]"))
            known.append(" or ".join(f"{name} == {size}" for name, size in sizes))
            known.append(f"{cache[2]} + {new[1]} <= {context_length(model)}")
            model.metadata_props[GUARDS_KEY] = json.dumps(known)
            bounds = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
            bounds[str(cache[2])] = [0, *bounds.get(str(cache[2]), [0, None])[1:]]  # the first call has no cache
            model.metadata_props[DIMS_KEY] = json.dumps(bounds)


def _configurations(model: ir.Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configuration of the text model, and that of generation."""
    companions = model.meta.get(COMPANIONS_KEY, {})
    if "config.json" not in companions:
        raise UsageError("--runtime genai needs the config.json of a Hugging Face folder", hint="give such a folder")
    config, chosen = (_read(companions.get(name)) for name in ("config.json", "generation_config.json"))
    text = config["text_config"] if isinstance(config.get("text_config"), dict) else config
    return {**config, **text}, chosen


def _read(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    with file.open("rb") as stream:
        text = stream.read(limits.FOLDER_CONFIG_BYTES)
    try:
        found = parse_json(text, str(file))
    except (ValueError, RecursionError):  # transformers goes on without such a generation_config.json
        raise BadInput(f"{file} is no JSON", hint="correct the file, or remove it") from None
    return found if isinstance(found, dict) else {}


def _number(key: str, value: Any) -> Any:
    """Return `value`. Raises `BadInput` unless it is a finite number or a truth value."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise BadInput(f"{key} in the model's configuration is no number: {value!r}"[:200], hint=_MEND)
    return value


def _size(key: str, value: Any) -> int:
    """Return `value`. Raises `BadInput` unless it is an integer from 0 to 2^31 - 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise BadInput(f"{key} in the model's configuration is no size or token: {value!r}"[:200], hint=_MEND)
    return value


def _tokens(key: str, value: Any) -> int | list[int]:
    """Return `value`. Raises `BadInput` unless it is a token, or a list of tokens that is not empty."""
    return [_size(key, token) for token in value] if isinstance(value, list) and value else _size(key, value)


def _configuration(model: ir.Model, file: str, config: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    layers, heads, size = _cache(model)
    context = context_length(model)
    logits = next(v for v in model.graph.outputs if v.name == "logits")
    given = {key: chosen.get(key, config.get(key)) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    found = {key: _tokens(key, value) for key, value in given.items() if value is not None}
    if "eos_token_id" in found:  # genai pads rows that have ended
        ends = found["eos_token_id"]
        found.setdefault("pad_token_id", ends[0] if isinstance(ends, list) else ends)
    kind = str(config.get("model_type"))
    names = [str(v.name) for v in model.graph.inputs]
    halves = ("key", "value")
    return {
        "model": {
            **found,
            "context_length": context,
            "decoder": {
                "filename": file,
                "head_size": size,
                "hidden_size": _size("hidden_size", config.get("hidden_size", config.get("n_embd", heads * size))),
                "inputs": {
                    **{name: name for name in _INPUTS if name in names},
                    **{f"past_{half}_names": f"{PAST}%d.{half}" for half in halves},
                },
                "num_attention_heads": _size("heads", config.get("num_attention_heads", config.get("n_head", heads))),
                "num_hidden_layers": layers,
                "num_key_value_heads": heads,
                "outputs": {
                    "logits": "logits",
                    **{f"present_{half}_names": f"{PRESENT}%d.{half}" for half in halves},
                },
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            },
            "type": kind if kind in _OWN_TYPES else "decoder",
            "vocab_size": (known_dims(logits) or (None,))[-1],
        },
        "search": {
            **{key: usual if chosen.get(key) is None else _number(key, chosen[key]) for key, usual in _SEARCH.items()},
            "max_length": context,
            "past_present_share_buffer": False,
        },
    }


def _cache(model: ir.Model) -> tuple[int, int, int]:
    """Return the number of layers, of heads, and the head size. Raises `Unsupported` for anything but a decoder."""
    outputs = {str(v.name) for v in model.graph.outputs}
    others = [str(v.name) for v in model.graph.inputs if not str(v.name).startswith(PAST)]
    cache = {str(v.name): known_dims(v) or () for v in model.graph.inputs if str(v.name).startswith(PAST)}
    sizes = {dims[1::2] for dims in cache.values()}
    layers = len(cache) // 2
    wanted = {f"{PAST}{n}.{half}" for n in range(layers) for half in ("key", "value")}
    problems = [f"{name} is an input" for name in others if name not in _INPUTS]
    if "input_ids" not in others or "logits" not in outputs:
        problems.append("there is no input input_ids and output logits")
    if not cache or set(cache) != wanted or len(sizes) != 1:
        problems.append("the cache is not a key and a value of one size for each layer")
    if problems:
        raise Unsupported(
            problems=[Problem(f"genai_config.json does not describe this model: {text}") for text in problems],
            hint="leave out --runtime",
        )
    heads, size = next(iter(sizes))
    if not isinstance(heads, int) or not isinstance(size, int):
        raise Unsupported("genai_config.json needs the number of heads and their size", hint="leave out --runtime")
    return layers, heads, size
