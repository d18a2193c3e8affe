"""Claims: limits on inputs that are only written in a file's metadata (bounds of dims, conditions, integer ranges).

Anybody can write such metadata, and no runtime enforces it. So claims describe what the file is meant for, but never
decide what it is tested on (`convert/parity/inputs/beyond_claims.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY

CLAIMS_KEY = "convert.claims"
"""Key in the `meta` of the model: a list of `Claims`."""

Bounds = Sequence[int | None]
"""The smallest and the largest size; None means unbounded."""


@dataclass(frozen=True)
class Claims:
    """The claims of one file about the inputs of the graph.

    - `by`: who makes the claims, "the source" or "the target"
    - `bounds`: bounds of dims, by dim name
    - `before`: the bounds that the graph has without the claims, for the dims that have some
    - `guards`: conditions on sizes
    - `ranges`: integer ranges, as written in the file, by input name
    """

    by: str
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    before: Mapping[str, Bounds] = field(default_factory=dict)
    guards: Sequence[str] = ()
    ranges: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """Return the claims as readable text, such as `n ≤ 2, h % 8 == 0, ids in [0, 1]`."""
        sizes = [_bounds_text(name, bounds) for name, bounds in self.bounds.items()]
        ranges = [f"{name} in {text}" for name, text in self.ranges.items()]
        return ", ".join([*sizes, *self.guards, *ranges])


def _bounds_text(name: str, bounds: Bounds) -> str:
    low, high = bounds
    if low is None or low <= 1:
        return f"{name} ≤ {high}"
    return f"{name} ≥ {low}" if high is None else f"{low} ≤ {name} ≤ {high}"


def narrows(bounds: Bounds) -> bool:
    """Return whether `bounds` exclude a size that a dynamic dim normally has (any size from 1 on)."""
    low, high = bounds
    return high is not None or (low is not None and low > 1)


def claim_notes(model: ir.Model, by: str) -> None:
    """Record that all limits in the metadata of `model` are so far only claims of a file."""
    bounds = {name: pair for name, pair in _noted(model, DIMS_KEY, {}).items() if narrows(pair)}
    ranges = {str(v.name): v.metadata_props[RANGE_KEY] for v in model.graph.inputs if RANGE_KEY in v.metadata_props}
    claims = Claims(by, bounds, {}, _noted(model, GUARDS_KEY, []), ranges)
    if bounds or claims.guards or ranges:
        model.meta[CLAIMS_KEY] = [*model.meta.get(CLAIMS_KEY, []), claims]


def claims_in_force(model: ir.Model) -> list[Claims]:
    """Return the claims that still limit the inputs of `model`, without those that the user's `--input` replaced."""
    now, dims = _noted(model, DIMS_KEY, {}), {str(d) for v in model.graph.inputs for d in v.shape or ()}
    names = {str(v.name) for v in model.graph.inputs}
    found = []
    for claims in model.meta.get(CLAIMS_KEY, []):
        bounds = {n: b for n, b in claims.bounds.items() if n in dims and list(now.get(n, ())) == list(b)}
        ranges = {n: text for n, text in claims.ranges.items() if n in names}
        kept = Claims(claims.by, bounds, claims.before, claims.guards, ranges)
        if bounds or kept.guards or ranges:
            found.append(kept)
    return found


def _noted(model: ir.Model, key: str, default: Any) -> Any:
    return json.loads(model.metadata_props.get(key, json.dumps(default)))
