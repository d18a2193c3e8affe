"""The trace of a run: its operators in order, with their origins, and a summary of every value."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import numpy as np

from convert.errors import Location

_PERIOD = 8191  # the length of the weights of the ordered sum; a prime, so that no axis is aligned with it


@dataclass(frozen=True)
class Summary:
    """Statistics of a floating-point value; all but `ordered` are unchanged when it is permuted or reshaped.

    `ordered` is a sum with fixed random weights over the flat array, divided by the square root of its size; it changes
    when elements change places. Other dtypes have `dtype` and `shape` only.
    """

    dtype: str
    shape: tuple[int, ...]
    mean: float = 0.0
    rms: float = 0.0
    low: float = 0.0
    high: float = 0.0
    ordered: float = 0.0
    floating: bool = False

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def statistics(self) -> tuple[float, float, float, float]:
        """Mean, root mean square, minimum and maximum."""
        return self.mean, self.rms, self.low, self.high

    def __str__(self) -> str:
        text = f"{self.dtype}{list(self.shape)}"
        if not self.floating:
            return text
        return f"{text}, mean {self.mean:.3g}, rms {self.rms:.3g}, from {self.low:.3g} to {self.high:.3g}"


@dataclass(frozen=True)
class TraceStep:
    """One operator of a run: its origin, and the names of the values that it reads and writes."""

    at: Location
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class Trace:
    """A whole run: operators in order, and values by name. `precision` is that of the run."""

    steps: list[TraceStep] = field(default_factory=list)
    values: dict[str, Summary] = field(default_factory=dict)
    precision: str = "float64"

    def describe_value(self, name: str) -> str:
        """Return a description of a value."""
        return f"{name}: {self.values[name]}" if name in self.values else f"{name}: not known"

    def to_json(self) -> str:
        """Return one line of JSON, which `from_json` reads."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Trace:
        """Return the trace that `to_json` wrote."""
        data = json.loads(text)
        steps = [TraceStep(Location(**s["at"]), tuple(s["inputs"]), tuple(s["outputs"])) for s in data["steps"]]
        values = {n: Summary(**{**v, "shape": tuple(v["shape"])}) for n, v in data["values"].items()}
        return Trace(steps, values, data["precision"])


def summarize(array: Any) -> Summary:
    """Return the summary of an array; its statistics skip infinities and NaN. A sequence has only its type."""
    if isinstance(array, list) or array is None:
        return Summary(type(array).__name__, ())
    array = np.asarray(array)
    floating = array.size > 0 and (array.dtype.kind == "f" or array.dtype.name == "bfloat16")
    if not floating:
        return Summary(array.dtype.name, array.shape)
    wide = array.astype(np.float64).ravel()
    finite = np.isfinite(wide)
    if not finite.all():
        wide = np.where(finite, wide, 0.0)
    present = wide[finite] if not finite.all() else wide
    if not present.size:
        return Summary(array.dtype.name, array.shape, floating=True)
    weights = _weights()
    whole = len(wide) // _PERIOD * _PERIOD
    folded = wide[:whole].reshape(-1, _PERIOD).dot(weights).sum() + wide[whole:].dot(weights[: len(wide) - whole])
    return Summary(
        array.dtype.name,
        array.shape,
        float(present.mean()),
        float(np.sqrt(np.mean(present**2))),
        float(present.min()),
        float(present.max()),
        float(folded / np.sqrt(len(wide))),
        True,
    )


@cache
def _weights() -> np.ndarray:
    return np.random.default_rng(20).standard_normal(_PERIOD)
