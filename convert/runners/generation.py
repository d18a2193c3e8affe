"""Greedy generation by a decoder whose cache of keys and values is inputs and outputs, in whatever runs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class CachePart:
    """A key or a value of one layer: its input [rows, heads, past, size] and the output that is the next past."""

    before: str
    after: str
    heads: int
    size: int


@dataclass(frozen=True)
class Generation:
    """What is generated, and the names of a decoder's inputs and outputs; `mask` and `positions` may be empty."""

    tokens: int
    ids: str
    logits: str
    cache: tuple[CachePart, ...]
    mask: str = ""
    positions: str = ""

    def to_json(self) -> str:
        """It as a text, which is how it gets to the process of a runner."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Generation:
        """What `to_json` gave."""
        found = json.loads(text)
        return Generation(**{**found, "cache": tuple(CachePart(**part) for part in found["cache"])})


def greedy(
    step: Callable[[dict[str, np.ndarray]], Arrays],
    dtypes: Mapping[str, np.dtype],
    how: Generation,
    words: np.ndarray,
    mask: np.ndarray,
) -> dict[str, np.ndarray]:
    """The `tokens` [rows, steps] behind `words` [rows, length], and the `scores` [rows, steps, words] of each step.

    step: runs the decoder once. dtypes: of its inputs that are not float32 or int64. mask: 0 at the left of `words`
    where a row is shorter. Each step after the first is one token, with the cache that the step before has left.
    """

    def empty(part: CachePart) -> np.ndarray:
        return np.zeros((len(words), part.heads, 0, part.size), dtypes.get(part.before, np.dtype(np.float32)))

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
    return {"tokens": np.concatenate(tokens, 1), "scores": np.stack(scores, 1)}
