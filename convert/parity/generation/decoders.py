"""Check that a converted decoder generates the same as its source: 32 tokens, greedily, through the cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.activity import doing
from convert.errors import ConvertError, Unsupported
from convert.graph.metadata import RANGE_KEY
from convert.graph.values import known_dims
from convert.outcome.notes import Note
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Finding, GenerationVerdict, Verdict
from convert.parity.compare.outputs import FACTOR, MIN_TOLERANCE, OUTLIER
from convert.parity.magnitudes import rms, smaller_parts
from convert.parity.method import VerifyMethod
from convert.processes.process import execute
from convert.processes.run_here import GENERATE, GENERATION_KEY
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.generation import PAST, PRESENT, STATE, CachePart, EncoderGeneration, Generation

TOKENS = 32
_ROWS, _LENGTH, _PADDING = 2, 6, 2


def judge_generation(
    verdict: Verdict, source: Source, target: Source, graph: ir.Model, options: Options, method: VerifyMethod
) -> Verdict:
    """Return the verdict after generating with both sides: FAIL for a token that rounding does not explain.

    The verdict is returned as it is if the graph is no decoder with a cache, or if a side cannot generate.
    """
    how = generation_of(graph)
    able = all(hasattr(plugin.runner_for(side.kind), "generate") for side in (source, target))
    logits = next((row for row in verdict.outputs if row.name == "logits"), None)
    if how is None or not able or logits is None or verdict.status == FAIL:
        return verdict
    words, mask = _prompt(graph, how)
    prompt = {"words": words, "mask": mask}
    try:
        wanted = generate_with(source, "source", how, prompt, options, method)
        got = generate_with(target, "target", _in_target(how, method), prompt, method.target, method)
    except ConvertError as error:
        note = Note(f"generation was not compared: {error.sentence}", code="not-compared")
        return verdict.after(Finding(notes=(note,)))
    found = compare_generation(wanted, got, logits.noise, logits.small_floor)
    failed = Finding(FAIL, found.reason, "backend") if found.status == FAIL else Finding()
    return replace(verdict, generation=found).after(failed)


def generate_with(
    model: Source,
    side: str,
    how: Generation | EncoderGeneration,
    prompt: Mapping[str, np.ndarray],
    options: Options,
    method: VerifyMethod,
) -> dict[str, np.ndarray]:
    """Return `tokens` and `scores` that a model generates in its own process, as in `convert.runtimes.generation`.

    Raises like `RunningChild.results`, and `Unsupported` if its runner cannot generate.
    """
    running = execute(
        model, [{GENERATION_KEY: np.array(how.to_json(), object), **prompt}], (GENERATE,), options, method.limits
    )
    with doing(f"generating with the {side}", f"{how.tokens} tokens"):
        found = running.results()[GENERATE]
    if isinstance(found, Unsupported):
        raise found
    return dict(found[0])


def generation_of(graph: ir.Model) -> Generation | None:
    """Return the roles of a graph's inputs and outputs in generation; None unless it is a decoder with a cache."""
    inputs = {str(v.name): v for v in graph.graph.inputs}
    outputs = {str(v.name) for v in graph.graph.outputs}
    cache = []
    for name, value in inputs.items():
        is_state = STATE.fullmatch(name) is not None
        if is_state or name.startswith(PAST):
            dims = list(known_dims(value) or ())
            after = PRESENT + name.removeprefix(PAST)
            if is_state:
                after = f"present{name.removeprefix('past')}"
            elif len(dims) == 4:
                dims[2] = 0  # no token is in the first cache
            counts = is_state and (value.dtype is None or value.dtype.is_integer())
            if counts or after not in outputs or not all(isinstance(dim, int) for dim in dims[1:]):
                return None
            cache.append(CachePart(name, after, tuple(dim for dim in dims[1:] if isinstance(dim, int))))
    rest = inputs.keys() - {part.before for part in cache}
    if (
        not cache
        or "logits" not in outputs
        or not {"input_ids"} <= rest <= {"input_ids", "attention_mask", "position_ids"}
    ):
        return None
    return Generation(
        TOKENS,
        "input_ids",
        "logits",
        tuple(cache),
        "attention_mask" if "attention_mask" in rest else "",
        "position_ids" if "position_ids" in rest else "",
    )


def compare_generation(
    wanted: dict[str, np.ndarray], got: dict[str, np.ndarray], noise: float, small_floor: float = 0.0
) -> GenerationVerdict:
    """Return whether the tokens agree; if not, the first step that differs, and whether rounding explains it.

    wanted, got: `tokens` [rows, steps] and `scores` [rows, steps, words] of source and target. noise: the noise floor
    of the scores, relative to their rms. small_floor: the noise floor of scores that are far smaller than others. The
    larger scores, such as those that mask words, are then left out.

    Up to the differing step, both sides have seen the same tokens. If the source's scores of the two tokens are as
    close as errors of elements may be, it is a tie, and the result is INCONCLUSIVE.
    """
    rows, steps = wanted["tokens"].shape
    apart = np.argwhere((wanted["tokens"] != got["tokens"]).T)
    if not len(apart):
        return GenerationVerdict(PASS, steps, rows, steps)
    step, row = map(int, apart[0])
    scores, others = wanted["scores"][row, step], got["scores"][row, step]
    chosen, other = int(wanted["tokens"][row, step]), int(got["tokens"][row, step])
    finite = np.isfinite(scores) & np.isfinite(others)
    parts = [part for part in smaller_parts(np.where(finite, scores, np.nan)) if part[chosen] and part[other]]
    size = rms(scores[[finite, *parts][-1]])
    noise = max(noise, small_floor) if parts else noise
    difference = float(np.abs(others[finite] - scores[finite]).max(initial=0.0))
    margin = float(scores[chosen] - scores[other])
    bound = 2 * OUTLIER * max(noise, MIN_TOLERANCE / FACTOR) * size
    description = (
        f"token {step + 1} of {steps} of row {row} is {other} where the source has {chosen}: its scores of the two are "
        f"{margin:.2e} apart, and those of the target up to {difference:.2e} off"
    )
    if margin <= bound:
        reason = f"{description}; that is a tie within rounding, and the rest was not compared"
        return GenerationVerdict(INCONCLUSIVE, steps, rows, step, reason, margin, difference)
    return GenerationVerdict(FAIL, steps, rows, step, description, margin, difference)


def _prompt(graph: ir.Model, how: Generation) -> tuple[np.ndarray, np.ndarray]:
    """Return two rows of token ids and their mask; one row is shorter if the decoder has a mask that may have zeros."""
    logits = next(v for v in graph.graph.outputs if v.name == how.logits)
    count = (known_dims(logits) or (None,))[-1]
    words = np.random.default_rng(0).integers(1, count if isinstance(count, int) and count > 1 else 2, (_ROWS, _LENGTH))
    mask = np.ones_like(words)
    noted = next((v.metadata_props.get(RANGE_KEY, "[0]") for v in graph.graph.inputs if v.name == how.mask), "[1]")
    if json.loads(noted)[0] == 0:
        mask[0, :_PADDING] = words[0, :_PADDING] = 0
    return words, mask


def _in_target(how: Generation, method: VerifyMethod) -> Generation:
    """Return the generation with the target's names of inputs and outputs."""
    ends = method.ends

    def inside(name: str) -> str:
        return ends.inputs.get(name, name) if name else ""

    def outside(name: str) -> str:
        return ends.outputs.get(name, name)

    cache = tuple(CachePart(inside(p.before), outside(p.after), p.shape) for p in how.cache)
    return Generation(how.tokens, inside(how.ids), outside(how.logits), cache, inside(how.mask), inside(how.positions))
