"""Greedy generation by a decoder whose key-value cache is inputs and outputs, with any runtime."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from convert.activity import advance

Arrays = Mapping[str, np.ndarray]
Step = Callable[[dict[str, np.ndarray]], Arrays]
"""Runs a model once: maps inputs by name to outputs by name."""

PAST, PRESENT = "past_key_values.", "present."
"""The prefixes of the inputs and outputs of a cache of keys and values."""
STATE = re.compile(r"past_(?!key_values\.)\w+\.\d.*")
"""The names of inputs for other states, such as `past_conv.0`; outputs have `present` in place of `past`."""


CACHE_BRANCH = "use_cache_branch"
"""Input of a decoder for the first token and all others: whether there is a cache, as a truth value of shape [1]."""


@dataclass(frozen=True)
class CachePart:
    """A part of the cache: the input, the output that is the next input, and the dims of the first one after the rows.

    Keys and values [rows, heads, past, size] begin with the shape (heads, 0, size), states with zeros.
    """

    before: str
    after: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Generation:
    """The number of tokens, and the names of a decoder's inputs and outputs; `mask` and `positions` may be ""."""

    tokens: int
    ids: str
    logits: str
    cache: tuple[CachePart, ...]
    mask: str = ""
    positions: str = ""

    def to_json(self) -> str:
        """Return this object as JSON, the form in which it is sent to the process of a runner."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class GenerationPart:
    """One file of an encoder-decoder model; maps the graph's names of inputs and outputs to the names in the file."""

    file: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class EncoderGeneration:
    """The parts for generation: an encoder, a decoder for the first token, and one with a cache for later tokens.

    cache: inputs of the decoder for the first token that take an empty cache, with their dims after the batch.
    """

    tokens: int
    encoder: GenerationPart
    first: GenerationPart
    further: GenerationPart
    cache: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as text, as `Generation.to_json` does."""
        return json.dumps(asdict(self))


def generation_from_json(text: str) -> Generation | EncoderGeneration:
    """Return the object that either `to_json` wrote."""
    found = json.loads(text)
    if "encoder" in found:
        parts = {name: GenerationPart(**found[name]) for name in ("encoder", "first", "further")}
        return EncoderGeneration(found["tokens"], **parts, cache=found["cache"])
    cache = (CachePart(part["before"], part["after"], tuple(part["shape"])) for part in found["cache"])
    return Generation(**{**found, "cache": tuple(cache)})


def greedy(
    step: Step,
    dtypes: Mapping[str, np.dtype],
    how: Generation,
    words: np.ndarray,
    mask: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the generated `tokens` [rows, steps], and the `scores` [rows, steps, vocabulary] of each step.

    - `step`: runs the decoder once
    - `dtypes`: of inputs that are not float32 or int64
    - `words`: the prompt [rows, length]
    - `mask`: 0 at the left of `words` where a row is shorter

    Each step after the first takes one token, and the cache of the previous step.
    """

    def empty(part: CachePart) -> np.ndarray:
        return np.zeros((len(words), *part.shape), dtypes.get(part.before, np.dtype(np.float32)))

    past = {part.before: empty(part) for part in how.cache}
    new, tokens, scores = words, [], []
    for _ in range(how.tokens):
        places = np.maximum(mask.cumsum(1) - 1, 0)[:, -new.shape[1] :]
        feed = {how.ids: new, how.mask: mask, how.positions: places}
        whole = {n: a.astype(dtypes.get(n, np.dtype(np.int64))) for n, a in feed.items() if n}
        found = step({**whole, **past})
        last = np.asarray(found[how.logits])[:, -1].astype(np.float64)
        new = last.argmax(-1)[:, None]
        tokens.append(new)
        scores.append(last)
        mask = np.concatenate([mask, np.ones_like(new)], 1)
        past = {part.before: np.asarray(found[part.after]) for part in how.cache}
        advance(len(tokens), how.tokens)
    return {"tokens": np.concatenate(tokens, 1), "scores": np.stack(scores, 1)}


def generate_by_steps(
    open_model: Callable[[Path], tuple[Step, Mapping[str, np.dtype]]],
    path: Path,
    how: Generation | EncoderGeneration,
    prompt: Arrays,
) -> dict[str, np.ndarray]:
    """Return greedy generation by the decoder at `path`, or by it and the two files beside it, according to `how`.

    - `open_model`: returns what runs a file, and the dtypes of its inputs that are not float32 or int64
    - `prompt`: `words` and `mask` as for `greedy`; for an encoder its inputs, and `first` [rows, 1], its decoder's
      first token
    """
    if isinstance(how, EncoderGeneration):
        return _greedy_with_encoder(open_model, path.parent, how, prompt)
    step, dtypes = open_model(path)
    return greedy(step, dtypes, how, prompt["words"], prompt["mask"])


def _greedy_with_encoder(
    open_model: Callable[[Path], tuple[Step, Mapping[str, np.dtype]]],
    folder: Path,
    how: EncoderGeneration,
    prompt: Arrays,
) -> dict[str, np.ndarray]:
    """Return what `greedy` returns.

    The first step outputs the encoder's keys and values, which all later steps reuse.
    """

    def opened(part: GenerationPart) -> Callable[[Arrays], dict[str, np.ndarray]]:
        step, dtypes = open_model(folder / part.file)

        def run(values: Arrays) -> dict[str, np.ndarray]:
            feed = {inside: values[name] for name, inside in part.inputs.items()}
            found = step({n: a.astype(dtypes.get(n, a.dtype)) for n, a in feed.items()})
            return {name: np.asarray(found[inside]) for name, inside in part.outputs.items()}

        return run

    states = opened(how.encoder)({name: array for name, array in prompt.items() if name != "first"})
    values = {"encoder_hidden_states": next(iter(states.values())), "input_ids": prompt["first"]}
    if "attention_mask" in prompt:
        values["encoder_attention_mask"] = prompt["attention_mask"]
    values |= {n: np.zeros((len(prompt["first"]), *dims), np.float32) for n, dims in how.cache.items()}
    values[CACHE_BRANCH] = np.array([False])
    step, further = opened(how.first), opened(how.further)
    tokens, scores = [], []
    for _ in range(how.tokens):
        found = step(values)
        last = found["logits"][:, -1].astype(np.float64)
        values["input_ids"] = last.argmax(-1)[:, None]
        values |= {n.replace(PRESENT, PAST, 1): a for n, a in found.items() if n.startswith(PRESENT)}
        tokens.append(values["input_ids"])
        scores.append(last)
        values[CACHE_BRANCH] = np.array([True])
        step = further
    return {"tokens": np.concatenate(tokens, 1), "scores": np.stack(scores, 1)}
