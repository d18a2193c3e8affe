"""Check that an encoder-decoder model, written as three files, generates the same as its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from convert import plugin
from convert.errors import ConvertError
from convert.files.part_names import MERGED
from convert.outcome.report import Report, Tensor
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, GenerationVerdict
from convert.parity.generation.decoders import TOKENS, compare_generation, generate_with
from convert.parity.method import VerifyMethod
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.generation import CACHE_BRANCH, PAST, EncoderGeneration, GenerationPart

STEMS = ("encoder_model", "decoder_model", "decoder_with_past_model")
"""File names without suffix: the encoder, the decoder for the first token, and the decoder for all others."""
_ROWS, _LENGTH, _PADDING = 2, 6, 2
_WORDS = ("input_ids", "encoder_hidden_states", "encoder_attention_mask")
"""Inputs of a decoder besides its cache."""


def verify_encoder_generation(
    source: Source,
    files: Mapping[str, Path],
    kind: str,
    parts: Mapping[str, Report],
    options: Options,
    method: VerifyMethod,
    beside: Mapping[str, Path] | None = None,
) -> GenerationVerdict | str:
    """Return the comparison of 32 tokens that both generate, for two rows; or why it was not made.

    files: the written parts by stem, of the runner's `kind`, in one folder; a file with both decoders (`MERGED`) is
    compared as well. parts: the report of each part after verification. beside: the source's own parts if it is several
    files too; `source` is then the last of them.
    """
    if not all(hasattr(plugin.runner_for(each), "generate") for each in (source.kind, kind)):
        return "generation was not compared: what runs the artefact does not generate"
    verdicts = [part.verdict for part in parts.values() if part.verdict is not None and part.verdict.status != FAIL]
    words = next((t.shape[-1] for t in parts[STEMS[1]].outputs if t.name == "logits" and t.shape), None)
    compared = [[row.name for row in verdict.outputs] for verdict in verdicts]
    if len(compared) < len(parts) or not all(compared) or "logits" not in compared[-1] or not isinstance(words, int):
        return "generation was not compared: a part was not found to be right"
    how = _generation(files, parts)
    theirs = how
    prompt = encoder_prompt(parts[STEMS[0]].inputs, words)
    if beside is not None:
        theirs = _generation(beside, parts, own=True)
        prompt["first"] = np.zeros((_ROWS, 1), np.int64)
        if not all(name in _WORDS or name.startswith(PAST) for name in theirs.further.inputs):
            return "generation was not compared: the source's parts call their inputs otherwise"
    # The error of each part is an input of the next one.
    noise = sum(max(row.noise for row in verdict.outputs) for verdict in verdicts)
    small = sum(max(row.small_floor for row in verdict.outputs) for verdict in verdicts)
    ways = {STEMS[2]: how, **({MERGED: _merged(how, files[MERGED], parts[STEMS[2]])} if MERGED in files else {})}
    try:
        wanted = generate_with(source, "source", theirs, prompt, options, method)
        if beside is None:
            prompt["first"] = wanted.pop("first")
        made = {
            stem: generate_with(Source(kind, files[stem]), "target", way, prompt, method.target, method)
            for stem, way in ways.items()
        }
    except ConvertError as error:
        return f"generation was not compared: {error.sentence}"
    found = {stem: compare_generation(wanted, got, noise, small) for stem, got in made.items()}
    stem = min(found, key=lambda stem: (FAIL, INCONCLUSIVE, PASS).index(found[stem].status))
    worst = found[stem]
    return replace(worst, reason=f"{stem}: {worst.reason}") if stem == MERGED and worst.reason else worst


def _generation(files: Mapping[str, Path], parts: Mapping[str, Report], *, own: bool = False) -> EncoderGeneration:
    encoder, first, further = (_part(files[stem], parts[stem], own=own) for stem in STEMS)
    return EncoderGeneration(TOKENS, encoder, first, further)


def _merged(how: EncoderGeneration, file: Path, further: Report) -> EncoderGeneration:
    """Return the generation with one file for both decoders, which has the inputs of both."""
    inputs = {**how.first.inputs, **how.further.inputs, CACHE_BRANCH: CACHE_BRANCH}
    part = GenerationPart(file.name, inputs, how.first.outputs)
    cache = {
        t.name: tuple(dim if isinstance(dim, int) else 0 for dim in (t.shape or ())[1:])
        for t in further.inputs
        if t.name.startswith(PAST)
    }
    return replace(how, first=part, further=part, cache=cache)


def encoder_prompt(inputs: list[Tensor], words: int) -> dict[str, np.ndarray]:
    """Return inputs of an encoder: two rows, one of them shorter if there is a mask.

    words: the size of the vocabulary. Dims of unknown size, except the rows, have the length of the prompt.
    """
    rng = np.random.default_rng(0)
    found = {}
    for tensor in inputs:
        dims = [size if isinstance(size, int) else _LENGTH for size in (tensor.shape or ())[1:]]
        drawn = (
            rng.standard_normal((_ROWS, *dims)) if "float" in tensor.dtype else rng.integers(1, words, (_ROWS, *dims))
        )
        found[tensor.name] = drawn.astype(tensor.dtype)
    if "attention_mask" in found:
        mask = found["attention_mask"]
        mask[:] = 1
        mask[0, -_PADDING:] = 0
    if "input_ids" in found and "attention_mask" in found:
        found["input_ids"] *= found["attention_mask"]
    return found


def _part(path: Path, report: Report, *, own: bool = False) -> GenerationPart:
    """Return the names of a part's inputs and outputs in its file: the report's own names if `own`, else the new names
    in the report.
    """
    renamed = {} if own else report.renamed
    inputs, outputs = renamed.get("inputs", {}), renamed.get("outputs", {})
    return GenerationPart(
        path.name,
        {t.name: inputs.get(t.name, t.name) for t in report.inputs},
        {t.name: outputs.get(t.name, t.name) for t in report.outputs},
    )
